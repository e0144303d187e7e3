"""Measures the native kernels next to Arrow, numpy and tfx-bsl.

All run in one thread. The Arrow and numpy kernels are those that the native ones replace. Rows come
from ``criteo_like.py``. tfx-bsl's encoder wants lists, so its line includes the conversion to
lists, and Python frames its records like ``tf.io.TFRecordWriter``. Each way is measured several
times in turn, and the least CPU time counts, because other programs only add to it.

  python benchmarks/bench_native.py --rows 60000
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder, RecordBatchToExamplesEncoder

import criteo_like
from beam_pipelines.core import _native
from beam_pipelines.core._native import reference, reference_hashes
from beam_pipelines.core.arrow.binary_arrays import data_of
from beam_pipelines.core.arrow.memory import keep_freed_memory
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.csv.parser import CsvParser
from beam_pipelines.sources.text import quotes
from beam_pipelines.sources.text.quotes import Dialect
from measuring import print_line

Way = Callable[[], Any]
ROWS_OF_A_RANGE = 60_000
ROWS_OF_A_BLOCK = 6_000  # of the rows that are read from a file at once, 4 MiB


def by_tfx_bsl(batch: pa.RecordBatch) -> pa.LargeBinaryArray:
    """Converts to lists, encodes and frames."""
    columns = []
    for column in batch.columns:
        offsets = pa.array(
            np.concatenate([[0], np.cumsum(column.is_valid().to_numpy(zero_copy_only=False))]),
            pa.int64(),
        )
        values = column.drop_null()
        if pa.types.is_string(values.type):
            values = values.cast(pa.large_binary())
        columns.append(pa.LargeListArray.from_arrays(offsets, values, mask=column.is_null()))
    lists = pa.RecordBatch.from_arrays(columns, batch.schema.names)
    return _native.frame(pa.array(RecordBatchToExamplesEncoder().encode(lists), pa.binary()))


def ways(batch: pa.RecordBatch) -> dict[str, list[tuple[str, Way]]]:
    """Returns the ways to compare, the native one first."""
    shuffled = np.random.default_rng(1).permutation(len(batch))
    framed = _native.serialize(batch)
    data = data_of(framed)
    records = _native.serialize(batch, framed=False)
    arrays = batch.columns
    plain, quoted = csv_of(batch, "none"), csv_of(batch, "all_valid")
    parser = parser_of(batch.schema)
    return {
        "CSV records to columns": [
            ("native", lambda: [taken(parser.parse_natively(body)) for body in plain]),
            ("Python", lambda: [by_python(parser, body) for body in plain]),
        ],
        "the same, every cell in quotes": [
            ("native", lambda: [taken(parser.parse_natively(body)) for body in quoted]),
            ("Python", lambda: [by_python(parser, body) for body in quoted]),
        ],
        "the same, quotes followed where a file is cut": [
            ("native", lambda: [transition(parser, body) for body in quoted]),
            (
                "reference",
                lambda: [
                    reference.quote_transition(body, ord("\n"), ord(","), ord('"'))
                    for body in quoted
                ],
            ),
        ],
        "rows to framed tf.Examples": [
            ("native", lambda: _native.serialize(batch)),
            ("reference", lambda: reference.serialize(batch)),
            ("tfx-bsl, framed by the kernel", lambda: by_tfx_bsl(batch)),
        ],
        "rows in random order to framed tf.Examples": [
            ("native", lambda: _native.serialize(batch, shuffled)),
            ("reference", lambda: reference.serialize(batch, shuffled)),
        ],
        "frames of records": [
            ("native", lambda: _native.frame(records)),
            ("reference, with google-crc32c", lambda: reference.frame(records)),
        ],
        "framed bytes to checked records": [
            ("native", lambda: _native.unframe(data)),
            ("reference, with google-crc32c", lambda: reference.unframe(data)),
        ],
        "framed tf.Examples to columns of lists": decoders(batch),
        "the same, three columns of them": decoders(batch, 3),
        "the same, five lists of 300 values; a row is a value of each": decoders(
            long_lists(len(batch) // 300)
        ),
        "hashes of rows, all columns": [
            ("native", lambda: _native.hash_rows(arrays)),
            ("reference", lambda: reference_hashes.hash_rows(arrays)),
        ],
    }


def long_lists(rows: int, values: int = 300) -> pa.RecordBatch:
    """Returns rows of five lists.

    Three lists hold numbers whose varints have one, six and nine bytes, one holds floats and one
    texts.
    """
    random = np.random.default_rng(0)
    count = rows * values
    columns = {
        "small": pa.array(random.integers(0, 100, count)),
        "40 bits": pa.array(random.integers(0, 1 << 40, count)),
        "62 bits": pa.array(random.integers(0, 1 << 62, count)),
        "floats": pa.array(random.random(count, dtype=np.float32)),
        "texts": pc.binary_join_element_wise(
            "item", pa.array(random.integers(0, 1000, count)).cast(pa.string()), ""
        ),
    }
    offsets = pa.array(np.arange(0, count + 1, values, dtype=np.int32))
    return pa.record_batch(
        {name: pa.ListArray.from_arrays(offsets, column) for name, column in columns.items()}
    )


def decoders(batch: pa.RecordBatch, columns: int | None = None) -> list[tuple[str, Way]]:
    """Returns ways to decode records by a schema of the first columns.

    tfx-bsl takes a list of Python objects, which is made before the clock starts.
    """
    types = {}
    schema = schema_pb2.Schema()
    for field in list(batch.schema)[:columns]:
        type_ = getattr(field.type, "value_type", field.type)
        known = type_ in (pa.int64(), pa.float32())
        types[field.name] = type_ if known else pa.large_binary()
        number = {pa.int64(): schema_pb2.INT, pa.float32(): schema_pb2.FLOAT}.get(
            type_, schema_pb2.BYTES
        )
        schema.feature.add(name=field.name, type=number)
    framed, records = _native.serialize(batch), _native.serialize(batch, framed=False).to_pylist()
    decoder = ExamplesToRecordBatchDecoder(schema.SerializeToString())
    chunks = range(0, len(batch), ROWS_OF_A_BLOCK)
    return [
        (
            "native",
            lambda: [
                taken(_native.parse_examples(framed.slice(i, ROWS_OF_A_BLOCK), types, True))
                for i in chunks
            ],
        ),
        (
            "tfx-bsl",
            lambda: [decoder.DecodeBatch(records[i : i + ROWS_OF_A_BLOCK]) for i in chunks],
        ),
    ]


def parser_of(schema: pa.Schema) -> CsvParser:
    """Returns the parser of a source with such columns."""
    return CsvParser(tuple(schema.names), schema, schema, Dialect(ord(","), ord('"')), Source.nulls)


def csv_of(batch: pa.RecordBatch, quoting: str) -> list[bytes]:
    """Returns records as CSV, in chunks of about 16 MiB, like ranges."""
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style=quoting)
    bodies = []
    for start in range(0, len(batch), ROWS_OF_A_RANGE):
        sink = pa.BufferOutputStream()
        pyarrow.csv.write_csv(pa.table(batch.slice(start, ROWS_OF_A_RANGE)), sink, options)
        bodies.append(sink.getvalue().to_pybytes())
    return bodies


def taken(batch: pa.RecordBatch | None) -> pa.RecordBatch:
    """Checks that the kernel has not declined."""
    if batch is None:
        sys.exit("found that a kernel declines the records, expected that it takes them")
    return batch


def by_python(parser: CsvParser, body: bytes) -> Any:
    """Parses records as a conversion does where the kernel declines."""
    starts, ends = quotes.record_spans(body, parser.toggles(body))
    return list(parser.by_python(body, starts.tolist(), ends.tolist()))


def transition(parser: CsvParser, body: bytes) -> tuple[int, int, int]:
    """Scans a range for quotes."""
    return quotes.transition(body, quotes.NEWLINE, parser.dialect)


def least_cpu_seconds(compared: list[tuple[str, Way]], repeats: int) -> list[float]:
    """Returns the least CPU time of each way; they take turns."""
    least = [float("inf")] * len(compared)
    for _ in range(repeats):
        for place, (_, way) in enumerate(compared):
            start = time.thread_time()
            result = way()
            least[place] = min(least[place], time.thread_time() - start)
            del result
    return least


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    if not _native.KERNELS_AVAILABLE:
        parser.error(
            "the kernels are not built: there was no C++ compiler when beam-pipelines was "
            "installed (docs/native.md)"
        )
    pa.set_cpu_count(1)
    keep_freed_memory()  # as every worker does
    (batch,) = (
        pa.concat_tables(criteo_like.chunks(arguments.rows, seed=7)).combine_chunks().to_batches()
    )
    print(
        f"{len(batch):,} rows, {batch.num_columns} columns, {batch.nbytes / len(batch):,.0f} bytes "
        f"a row; load {os.getloadavg()[0]:.1f}\n"
    )
    print_line(["one thread", "way", "CPU ns/row", "rows/s of CPU", "× native"])
    print_line(["---", "---", "---:", "---:", "---:"])
    for title, compared in ways(batch).items():
        least = least_cpu_seconds(compared, arguments.repeats)
        for (name, _), seconds in zip(compared, least, strict=True):
            cells = [
                f"{seconds / len(batch) * 1e9:,.0f}",
                f"{len(batch) / seconds:,.0f}",
                f"{seconds / least[0]:.1f}",
            ]
            print_line([title, name, *cells])


if __name__ == "__main__":
    main()
