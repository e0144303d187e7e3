"""ORC files, read stripe by stripe."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import exceeds_ratio, ratio_exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines_plugins.formats.part_files import OpenedPart, Part, PartFiles

_OFFSET_BITS = 32


class Orc(PartFiles):
    """Apache ORC; a range has whole stripes."""

    title = "ORC"
    suffixes = (".orc",)
    is_compressed = True

    @contextlib.contextmanager
    def open_part(
        self, source: Source, path: str, file: BinaryIO, part: Part
    ) -> Iterator[OpenedPart]:
        """Opens a range, or a file; see ``PartFiles``.

        A range of bytes has as large a share of the stripes: pyarrow does not say where they begin.
        """
        from pyarrow import orc  # takes 20 ms

        reader = orc.ORCFile(file)
        bits = sum(_bits_of(field.type) for field in reader.schema)
        _check(source, path, reader, reader.nrows * bits // 8)
        start, end = 0, reader.nstripes
        if part:
            size = max(1, part[1].file.size_bytes)
            start, end = (-(-end * place // size) for place in (part[1].start, part[1].end))
        stripes = _stripes(source, path, reader, range(start, end))
        yield OpenedPart(reader.schema, stripes, lambda: _rows_before(reader, start))


def _check(source: Source, where: str, reader: pa.orc.ORCFile, decoded: int) -> None:
    """Raises ``DataError`` if a file grows too much as it is decoded."""
    if exceeds_ratio(source.limits, reader.content_length, decoded):
        raise DataError(f"{where}: {ratio_exceeded(source.limits, reader.content_length, decoded)}")


def _bits_of(type_: pa.DataType) -> int:
    """Returns the least bits of a decoded value."""
    if pa.types.is_struct(type_):
        return sum(_bits_of(field.type) for field in type_)
    return int(type_.bit_width) if pa.types.is_primitive(type_) else _OFFSET_BITS


def _rows_before(reader: pa.orc.ORCFile, number: int) -> int:
    """Returns the number of rows before a stripe."""
    first = [reader.schema.names[0]]
    return sum(reader.read_stripe(each, columns=first).num_rows for each in range(number))


def _stripes(
    source: Source, path: str, reader: pa.orc.ORCFile, numbers: range
) -> Iterator[pa.RecordBatch]:
    """Yields stripes; their decoded size is checked."""
    decoded = 0
    for number in numbers:
        stripe = reader.read_stripe(number)
        decoded += stripe.nbytes
        _check(source, f"{path}, stripe {number}", reader, decoded)
        yield stripe
