"""Logs of Delta tables: rows of the package, or an error.

Input: the first version of a table's log; its one data file is always the same.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from beam_pipelines.core.limits import Limits
from beam_pipelines.sources import planner
from beam_pipelines.transforms import read
from plugins.tests.support import delta_tables as delta
from tests.fuzz import mutations, scratch
from tests.fuzz.finding import explained, require
from tests.fuzz.target import Target
from tests.support.made_source import made_source

_TOKENS = [b'"long"', b'"string"', b'"date"', b'"decimal(9,2)"', b'"add"', b'"remove"', b"null", b"-1", b"{}", b"[]",
           b'"columnMapping"', b'"typeWidening"', b'"delta.columnMapping.mode":"name"',
           b'"delta.columnMapping.mode":"id"', b'"n"', b'"c-1"', b"99999999999999999999", b"\n", b'"../a"']  # fmt: skip
_ROWS = pa.table({"n": [1, 2, 3], "c-1": ["x", "y", None]})
_NAME = "part-0.parquet"


def run(data: bytes) -> None:
    """Compares a table's rows with the package's."""
    folder = Path(scratch.folder("delta")) / "table"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "_delta_log").mkdir(parents=True)
    pq.write_table(_ROWS, folder / _NAME)
    (folder / "_delta_log" / f"{0:020d}.json").write_bytes(data)

    def call() -> Any:
        source = made_source("s", (str(folder),), format="delta", limits=Limits(nesting_depth=16))
        return read.read_table(planner.plan_source(source, ""), reject=False)[0]

    table, _ = explained(call)
    if table is None:
        return
    try:
        expected = delta.scanned(folder)
    except Exception:  # noqa: BLE001 - what the package does not take is nothing to compare with
        return
    require(table.num_rows == len(expected), "delta: another number of rows")
    names = [name for name in table.column_names if expected and name in expected[0]]
    for name in names:
        if pa.types.is_integer(table.schema.field(name).type):
            found = sorted(map(str, table[name].to_pylist()))
            require(found == sorted(str(row[name]) for row in expected), "delta: other values")


def seeds() -> list[bytes]:
    """Logs with partitions and names of columns."""
    folder = Path(scratch.folder("delta")) / "seed"
    shutil.rmtree(folder, ignore_errors=True)
    added = delta.add(folder, _NAME, _ROWS)
    plain = [delta.field("n", "long"), delta.field("c-1", "string")]
    named = [delta.mapped("a", "long", 1, "n"), delta.mapped("b", "string", 2, "c-1")]
    with_day = {"add": {**added["add"], "partitionValues": {"day": "2026-11-23"}}}
    logs = [
        [delta.protocol(), delta.metadata(plain), added],
        [delta.protocol(), delta.metadata([*plain, delta.field("day", "date")], ["day"]), with_day],
        [delta.protocol("columnMapping"),
         delta.metadata(named, **{"delta.columnMapping.mode": "name"}), added],
    ]  # fmt: skip
    return ["\n".join(map(json.dumps, log)).encode() for log in logs]


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Changes bytes, or puts words of logs anywhere."""
    return mutations.splice(data, _TOKENS, chance)


TARGET = Target(run, seeds, mutate)
