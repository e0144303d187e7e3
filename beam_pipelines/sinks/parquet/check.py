"""Checks Parquet files by DuckDB, which did not write them."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines.sql.database import clean
from beam_pipelines.storage import files

if TYPE_CHECKING:
    import duckdb

_LOCAL = threading.local()


def digest_of(rows: pa.RecordBatch, first: int) -> int:
    """Returns a digest of rows and their places, 64 bits.

    The digests of a file's parts are combined by exclusive or.

    Args:
      rows: of the file.
      first: number of the first row in the file.
    """
    database = _connection()
    listed = {str(place): _listed(column) for place, column in enumerate(rows.columns)}
    database.register("batch", pa.table(listed))
    try:
        return _digest(database, "batch", first)[1]
    finally:
        database.unregister("batch")


def _listed(column: pa.Array) -> pa.Array:
    """Returns fixed-size lists as the lists that DuckDB reads."""
    if not pa.types.is_fixed_size_list(column.type):
        return column
    size = column.type.list_size
    offsets = np.arange(len(column) + 1, dtype=np.int32) * size
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), _listed(column.flatten()))


def check_rows(path: str, rows: int, digest: int) -> None:
    """Checks that a file has the rows of a digest.

    Raises:
      DataError: it has others, or DuckDB cannot read it.
    """
    import duckdb

    with _local(path) as local:
        table = f"read_parquet('{glob.escape(local).replace(chr(39), 2 * chr(39))}')"
        try:
            found = _digest(_connection(), table, 0)
        except duckdb.Error as error:
            raise DataError(
                f"{path}: DuckDB cannot read the file that was written ({clean(str(error))}). The "
                "dataset was not committed. Report it, with the recipe."
            ) from error
    if found != (rows, digest):
        raise DataError(
            f"{path}: DuckDB found {found[0]:,} rows with the digest {found[1]:016x}, expected "
            f"{rows:,} with {digest:016x}. The dataset was not committed. Report it, with the "
            "recipe."
        )


def _digest(database: duckdb.DuckDBPyConnection, table: str, first: int) -> tuple[int, int]:
    """Returns the number of rows, and their digest."""
    # Names are not used: to DuckDB, 'a' and 'A' are one.
    numbered = f"SELECT row_number() OVER () + {first}, * FROM {table}"  # noqa: S608 - no input
    query = f"SELECT count(*), bit_xor(hash(*COLUMNS(*))) FROM ({numbered})"  # noqa: S608
    rows, digest = database.execute(query).fetchall()[0]
    return rows, digest or 0


@contextlib.contextmanager
def _local(path: str) -> Iterator[str]:
    """Gives a local path; a file of a storage is copied."""
    if files.is_local(path):
        yield os.path.abspath(path)
        return
    with tempfile.NamedTemporaryFile(suffix=".parquet") as copy:
        with files.open_read(path) as file:
            shutil.copyfileobj(file, copy)
        copy.flush()
        yield copy.name


def _connection() -> duckdb.DuckDBPyConnection:
    """Returns this thread's own database, which reads files."""
    import duckdb

    if not hasattr(_LOCAL, "connection"):
        config = {
            "threads": 1,
            "temp_directory": "",
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "preserve_insertion_order": True,
        }
        _LOCAL.connection = duckdb.connect(":memory:", config=config)
    connection: duckdb.DuckDBPyConnection = _LOCAL.connection
    return connection
