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
    """Apache ORC; one range a file."""

    title = "ORC"
    suffixes = (".orc",)
    is_cut = False
    is_compressed = True

    @contextlib.contextmanager
    def open_part(
        self, source: Source, path: str, file: BinaryIO, part: Part
    ) -> Iterator[OpenedPart]:
        """Opens a file; see ``PartFiles``."""
        from pyarrow import orc  # takes 20 ms

        reader = orc.ORCFile(file)
        bits = sum(_bits_of(field.type) for field in reader.schema)
        _check(source, path, reader, reader.nrows * bits // 8)
        yield OpenedPart(reader.schema, _stripes(source, path, reader))


def _check(source: Source, where: str, reader: pa.orc.ORCFile, decoded: int) -> None:
    """Raises ``DataError`` if a file grows too much as it is decoded."""
    if exceeds_ratio(source.limits, reader.content_length, decoded):
        raise DataError(f"{where}: {ratio_exceeded(source.limits, reader.content_length, decoded)}")


def _bits_of(type_: pa.DataType) -> int:
    """Returns the least bits of a decoded value."""
    if pa.types.is_struct(type_):
        return sum(_bits_of(field.type) for field in type_)
    return int(type_.bit_width) if pa.types.is_primitive(type_) else _OFFSET_BITS


def _stripes(source: Source, path: str, reader: pa.orc.ORCFile) -> Iterator[pa.RecordBatch]:
    """Yields stripes; their decoded size is checked."""
    decoded = 0
    for number in range(reader.nstripes):
        stripe = reader.read_stripe(number)
        decoded += stripe.nbytes
        _check(source, f"{path}, stripe {number}", reader, decoded)
        yield stripe
