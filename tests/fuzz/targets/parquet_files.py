"""Parquet files against pyarrow's own rows, or an error.

Input: the file. Changes are mostly in the footer, which says where the rest is.
"""

from __future__ import annotations

import functools
import io
import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import planner
from beam_pipelines.transforms import read
from tests.fuzz import scratch
from tests.fuzz.finding import explained
from tests.fuzz.target import Target
from tests.fuzz.targets import arrow_files


def run(data: bytes) -> None:
    """Reads a file; compares numbers with pyarrow's."""
    path = scratch.write("parquet", "a.parquet", data)

    def call() -> Any:
        return read.read_table(planner.plan_source(Source("s", (path,)), ""), reject=False)[0]

    table, _ = explained(call)
    if table is not None:
        try:
            expected = pq.ParquetFile(io.BytesIO(data), page_checksum_verification=True).read()
        except pa.ArrowException:  # lengths of columns that differ, where no row is lost
            return
        arrow_files.compare("parquet", table, expected)


@functools.cache
def seeds() -> list[bytes]:
    """Files of several compressions, versions and numbers of row groups."""
    made = []
    for options in (
        {"compression": "none", "write_page_checksum": True},
        {"compression": "zstd", "data_page_version": "2.0", "write_page_index": True},
        {"compression": "snappy", "row_group_size": 2, "use_dictionary": False},
    ):
        stream = io.BytesIO()
        table = arrow_files.rows().drop_columns(["d"])
        pq.write_table(table, stream, store_schema=False, **options)
        made.append(stream.getvalue())
    return made


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Changes bytes, three times out of four in the footer."""
    size = int.from_bytes(data[-8:-4], "little")
    start = len(data) - 8 - size
    if chance.randrange(4) == 0 or not 0 < size <= len(data) - 8:
        return arrow_files.mutate(data, chance)
    return (
        data[:start]
        + arrow_files.mutate(data[start:-8], chance)[:size].ljust(size, b"\0")
        + data[-8:]
    )


TARGET = Target(run, seeds, mutate, 8192)
