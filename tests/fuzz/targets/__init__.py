"""The fuzzed parts: a module each, with a ``TARGET``."""

from __future__ import annotations

# Their modules are in plugins/tests/fuzz_targets.
OF_PLUGINS = (
    *("avro", "numpy_files", "delta_log", "iceberg_log", "sqlite_files", "duckdb_files"),
    *("webdataset", "excel", "hdf5", "orc_files"),
)
NAMES = (
    *("recipe", "csv_ranges", "json_lines", "libfm", "idx", "cifar", "tfrecord", "part_index"),
    *("parts", "example", "manifest", *OF_PLUGINS, "arrow_files", "parquet_files", "jpegs"),
)


def module_of(name: str) -> str:
    """Returns the name of a target's module."""
    return f"{'plugins.tests.fuzz_targets' if name in OF_PLUGINS else 'tests.fuzz.targets'}.{name}"
