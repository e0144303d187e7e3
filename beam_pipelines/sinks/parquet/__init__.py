"""Parquet files, whose row groups are the parts."""
