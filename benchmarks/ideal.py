"""Measures the kernels of a conversion, each alone in one thread.

Each one works on all rows of one table.

  python benchmarks/ideal.py --rows 1000000

Prints as JSON the seconds of typed CSV parsing, of statistics, of the native serializer, and of
gzip at our default level and at level 6.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from beam_pipelines.analysis.statistics import TableStatistics
from beam_pipelines.core import _native
from beam_pipelines.core.arrow.binary_arrays import data_of
from beam_pipelines.core.limits import MIB
from beam_pipelines.sinks.tfrecord.sink import compress_parts
from clicks import Clicks
from measuring import Work, best_of


def compressed(framed: list[pa.LargeBinaryArray], level: int) -> int:
    """Compresses everything as one stream; returns its length."""
    parts = (compress_parts("gzip", level, records, MIB // 4) for records in framed)
    return sum(data_of(own.column("data")).size for own in parts)


def kernels(clicks: Clicks) -> dict[str, Callable[[], Any]]:
    """Returns the kernels to measure, by name, and prepares their input."""
    types = {field.name: field.type for field in clicks.plan.read_schema}
    read = pa_csv.ReadOptions(use_threads=False, block_size=16 * MIB)
    convert = pa_csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    batches, features = [chunk.batch for chunk in clicks.chunks], clicks.features
    framed = [_native.serialize(batch) for batch in features]
    return {
        "parse": lambda: pa_csv.read_csv(
            clicks.plan.files[0].path, read_options=read, convert_options=convert
        ),
        "statistics": lambda: TableStatistics.merged(
            [TableStatistics.of(batch) for batch in batches]
        ),
        "serialize": lambda: [_native.serialize(batch) for batch in features],
        "gzip": lambda: compressed(framed, 1),
        "gzip 6": lambda: compressed(framed, 6),
    }


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--folder", type=pathlib.Path, default=pathlib.Path(".bench"), help="for data"
    )
    arguments = parser.parse_args()
    if not _native.KERNELS_AVAILABLE:
        sys.exit(
            "found no native kernels, expected them: pip install ./reader, with a C++ compiler"
        )
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    clicks = Clicks(arguments.folder.resolve(), arguments.rows)
    found = {
        name: best_of(arguments.repeats, Work(run, arguments.rows, 0))
        for name, run in kernels(clicks).items()
    }
    print(
        json.dumps({name: {"wall": timed.wall, "cpu": timed.cpu} for name, timed in found.items()})
    )


if __name__ == "__main__":
    main()
