"""SQLite files against Python's own module, or an error.

Input: changes of a file, as in ``patches``.
"""

from __future__ import annotations

import contextlib
import functools
import sqlite3
from typing import Any

from beam_pipelines.sources import planner
from beam_pipelines.transforms import read
from tests.fuzz import patches, scratch
from tests.fuzz.finding import explained, require
from tests.support.made_source import made_source

_TOKENS = [b"SQLite format 3\0", b"CREATE TABLE t", b"VIEW", b"INTEGER", b"REAL", b"\0\0", b"\x0d", b"\x05", b"\xff\xff"]  # fmt: skip
_PAGE_BYTES = 512
_SCRIPTS = (
    """CREATE TABLE t (i INTEGER PRIMARY KEY, x REAL, s TEXT, b BLOB, n NUMERIC);
    INSERT INTO t VALUES (1, 0.5, 'a', x'00', 7), (2, NULL, 'é', NULL, 1.5);""",
    """CREATE TABLE own (i, s); INSERT INTO own VALUES (1, 'a'), (-5, 'b'), (NULL, NULL);
    CREATE INDEX by_s ON own (s); CREATE VIEW t AS SELECT i, s FROM own;""",
    """CREATE TABLE t (i INTEGER, s TEXT);
    WITH RECURSIVE c (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c LIMIT 40)
    INSERT INTO t SELECT n * 1000000007, printf('%030d', n) FROM c;
    DELETE FROM t WHERE i % 5 = 0;""",
)


def run(data: bytes) -> None:
    """Compares the rows of a table with those of the module."""
    path = scratch.write("sqlite", "a.sqlite", patches.patched(data, _files()))

    def call() -> Any:
        return read.read_table(
            planner.plan_source(made_source("s", url=path, table="t"), ""), False
        )[0]

    table, _ = explained(call)
    if table is None:
        return
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        connection.text_factory = bytes
        try:
            found = connection.execute("SELECT * FROM t").fetchall()
        except sqlite3.Error:
            return
    require(table.num_rows == len(found), "sqlite: another number of rows")
    for column, own in zip(table.columns, zip(*found, strict=True), strict=False):
        values = column.to_pylist()
        for ours, stored in zip(values, own, strict=True):
            if isinstance(ours, int):
                require(ours == stored, "sqlite: another value", f"{ours} {stored!r}")


@functools.cache
def _files() -> tuple[bytes, ...]:
    """Files with all kinds of values, a view, an index and pages."""
    return patches.written("sqlite", _SCRIPTS, _write)


def _write(path: str, script: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        connection.executescript(script)


TARGET = patches.target(run, _files, _TOKENS)
