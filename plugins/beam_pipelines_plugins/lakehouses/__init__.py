"""Tables of lakehouses: Delta Lake and Apache Iceberg.

A table is a log of snapshots, each a list of Parquet files. The log is read once, where the command
runs; workers read the files.
"""
