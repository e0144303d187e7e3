"""DuckDB files: the rows that were written, or an error.

DuckDB checks the checksum of each block, so that changed bytes are found. Input: changes of a file,
as in ``patches``.
"""

from __future__ import annotations

import functools
from typing import Any

import duckdb

from beam_pipelines.sources import planner
from beam_pipelines.transforms import read
from tests.fuzz import patches, scratch
from tests.fuzz.finding import explained, require
from tests.support.made_source import made_source

_TOKENS = [b"DUCK", b"\0" * 8, b"\xff" * 8, b"\1", b"\x40", b"v1.0.0"]
_ROWS = "SELECT range AS i, range / 4 AS x, 'text ' || range AS s, [range, NULL] AS l FROM range(9)"
_SCRIPTS = (f"CREATE TABLE t AS {_ROWS}", f"CREATE TABLE o AS {_ROWS}; CREATE VIEW t AS FROM o")


def run(data: bytes) -> None:
    """Compares the rows of a table with those that were written."""
    path = scratch.write("duckdb", "a.duckdb", patches.patched(data, _files()))

    def call() -> Any:
        source = made_source("s", url=path, table="t", columns=("i", "s"))
        return read.read_table(planner.plan_source(source, ""), reject=False)[0]

    table, _ = explained(call)
    if table is not None:
        require(table.column("i").to_pylist() == list(range(9)), "duckdb: other numbers")
        texts = [f"text {number}" for number in range(9)]
        require(table.column("s").to_pylist() == texts, "duckdb: other texts")


@functools.cache
def _files() -> tuple[bytes, ...]:
    """A file with a table, and one with a view of it."""
    return patches.written("duckdb", _SCRIPTS, _write)


def _write(path: str, script: str) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{path}' AS made (BLOCK_SIZE 16384); USE made; {script}")
        connection.execute("CHECKPOINT made; USE memory; DETACH made")


TARGET = patches.target(run, _files, _TOKENS)
