"""TFRecord files of unparsed records: each is a row of one column."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from beam_pipelines.core.arrow.columns import parse_type
from beam_pipelines.core.errors import Problem
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import lines
from beam_pipelines.sources.format import (
    Contents,
    Format,
    QuoteStates,
    Rows,
)
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines.sources.tfrecord.files import (
    check_compression,
    first_block,
    first_record,
    is_indexed,
    read_file,
)

COLUMN = "record"
_NOT_TEXT = (
    "found bytes that are not UTF-8, expected text. Leave out 'types' of the source to read bytes."
)


class RawRecords(Format):
    """Payloads of TFRecord files.

    A file without an index is one range: records cannot be found from its middle.
    """

    suffixes = ()
    tfx_rows = "values"

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        return [*lines.check_payloads(source, "TFRecord file"), *check_compression(source)]

    def splittable(self, source: Source, path: str) -> bool:
        """Whether a file can be cut into ranges."""
        return is_indexed(source, path)

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> Contents:
        """Finds columns and types; see ``Format``."""
        first_block(source, files)
        return lines.contents_of(COLUMN, parse_type(source.types.get(COLUMN, "bytes")))

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[Rows]:
        """Reads one range; see ``Format``."""
        yield from read_file(
            plan,
            byte_range,
            lambda records: lines.convert_payloads(pa.array(list(records), pa.binary()), plan),
            lambda _: (COLUMN, _NOT_TEXT),
            reject,
        )

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns ``record`` and the number of the first one; see ``Format``."""
        return "record", first_record(plan, byte_range)
