"""TFRecord files whose records are taken as they are, whatever they hold: each is a row of one column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, cast

import pyarrow as pa

from beam_pipelines import files, tfrecord
from beam_pipelines.columns import parse_type
from beam_pipelines.errors import DataError, Problem
from beam_pipelines.pieces import Rejected
from beam_pipelines.plan import FileInfo, Range, SourcePlan
from beam_pipelines.recipe import Source
from beam_pipelines.sources import bad_rows, payloads
from beam_pipelines.sources.bad_rows import BadRow
from beam_pipelines.sources.compression import ChecksummedFile
from beam_pipelines.sources.csv_ranges import Dialect
from beam_pipelines.sources.format import Contents, QuoteStates, Rows, combine, cut_rows, empty_batch, problem

COLUMN = "record"


class RawRecords:
    """Payloads of TFRecord files; one range a file, because nothing in a file says where a record begins."""

    suffixes = ()

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        problems = payloads.check(source, "TFRecord", "TFRecord file")
        if source.compression not in (None, "gzip", "zlib", "none"):
            problems.append(problem(source, "compression", "TFRecord files are compressed with gzip or zlib."))
        if source.schema is not None:
            message = "raw records are not parsed. Leave the option out, or set 'format: tfrecord' for tf.Examples."
            problems.append(problem(source, "schema", message))
        return problems

    def splittable(self, source: Source, path: str) -> bool:  # noqa: ARG002
        """Whether a file can be cut into ranges."""
        return False

    def quoting(self, source: Source) -> Dialect | None:  # noqa: ARG002
        """Returns the dialect if line ends may lie inside quotes."""
        return None

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> Contents:
        """Finds columns and types; see ``Format``."""
        if not any(block for file in files for block in _blocks(source, file, None)):
            raise DataError(f"{files[0].path}: found no records, expected data. Check 'path' of the source.")
        return payloads.contents_of(COLUMN, parse_type(source.types.get(COLUMN, "bytes")))

    def read(self, plan: SourcePlan, range_: Range, quote_states: QuoteStates, reject: bool) -> Iterator[Rows]:  # noqa: ARG002
        """Reads one range; see ``Format``."""
        number = 0
        with files.open_read(range_.file.path) as opened:
            file = ChecksummedFile(opened)
            for block in _blocks(plan.source, range_.file, cast("BinaryIO", file)):
                yield from _read_block(block, plan, range_.file, number, reject)
                number += len(block)
            yield Rows(empty_batch(plan.schema), crc32c=file.crc32c())


def _blocks(source: Source, file: FileInfo, opened: BinaryIO | None) -> Iterator[list[bytes]]:
    compression = source.compression or tfrecord.compression_of(file.path)
    if opened is not None:
        yield from tfrecord.read_record_blocks(opened, file.path, compression)
        return
    with files.open_read(file.path) as own:
        yield from tfrecord.read_record_blocks(own, file.path, compression)


def _read_block(block: list[bytes], plan: SourcePlan, file: FileInfo, number: int, reject: bool) -> Iterator[Rows]:
    records = pa.array(block, pa.binary())
    good: list[pa.RecordBatch] = []
    rejected: list[Rejected] = []
    for found in bad_rows.sift(lambda start, end: payloads.convert(records[start:end], plan), 0, len(records)):
        if isinstance(found, BadRow):
            reason = "found bytes that are not UTF-8, expected text. Leave out 'types' of the source to read bytes."
            bad = Rejected(plan.source.name, file.path, f"record {number + found.number}", COLUMN, reason, "")
            if not reject:
                raise DataError(bad.describe())
            rejected.append(bad)
        else:
            good.append(found)
    yield from cut_rows(combine(good, plan.schema), tuple(rejected))
