"""The C++ kernels, if built, and what they share with their reference."""

from __future__ import annotations

import ctypes
import importlib
import logging
from collections.abc import Collection
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
import pyarrow as pa

_logger = logging.getLogger(__name__)

kernels: Any = None
try:
    kernels = importlib.import_module("beam_pipelines.core._native._kernels")
except ModuleNotFoundError:
    pass
except ImportError as error:
    _logger.warning(
        "the C++ kernels are there and cannot be loaded: %s. Conversions take many times as long "
        "without them: install again where they are to run.",
        error,
    )


def imported(pair: tuple[Any, Any]) -> pa.Array:
    """Returns a kernel's array; ``pa.array`` takes capsules from pyarrow 15 on."""
    return pa.Array._import_from_c_capsule(*pair)  # noqa: SLF001


def imported_batch(pair: tuple[Any, Any], schema: pa.Schema | None = None) -> pa.RecordBatch:
    """Returns a kernel's batch, with another schema of the same types.

    With a schema, many columns take a tenth of the time.
    """
    if schema is None:
        return pa.RecordBatch._import_from_c_capsule(*pair)  # noqa: SLF001
    return pa.RecordBatch._import_from_c(_pointer(pair[1], b"arrow_array"), schema)  # noqa: SLF001


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p


# Bytes of a TFRecord frame before and behind the data.
HEADER_BYTES, FOOTER_BYTES = 12, 4


class DamagedRecordError(ValueError):
    """A framed record whose CRC does not match.

    Attributes:
      number: of the record, from 0.
      offset: of its frame.
      part: whose CRC does not match, ``length`` or ``data``.
    """

    def __init__(self, number: int, offset: int, part: str) -> None:
        super().__init__(f"record {number}, offset {offset}: the CRC of the {part} does not match")
        self.number, self.offset, self.part = number, offset, part


class StoredPart(NamedTuple):
    """A part of a shard, as its index has it.

    Attributes:
      path: of the shard; ``None`` if ``data`` has the part.
      data: bytes of the shard; ``None``: they are read.
      file_size: of the shard.
      offset, size: of the part in the shard, or in ``data``.
      framed_size: of its framed records, inflated.
      rows: records in it.
      crc32: CRC-32 of its framed records.
    """

    path: bytes | None
    data: bytes | None
    file_size: int
    offset: int
    size: int
    framed_size: int
    rows: int
    crc32: int


def type_error(schema: pa.Schema, name: str) -> TypeError:
    """Returns the error for a column of another type."""
    found = schema.field(name).type
    return TypeError(
        f"feature '{name}': found {found}, expected int64, float, string, binary, or lists of them"
    )


def check_lists(schema: pa.Schema, lists: Collection[str]) -> None:
    """Raises ``TypeError`` if a feature list is no list."""
    for field in schema if lists else ():
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if field.name in lists and not is_list(kind):
            raise TypeError(f"feature list '{field.name}': found {field.type}, expected a list")


def is_list(kind: pa.DataType) -> bool:
    """Whether a type is one of lists, of fixed size as well."""
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is one of texts or bytes, large or not."""
    return kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def list_parts(column: pa.Array) -> tuple[pa.Array, list[int]]:
    """Returns the values of n lists, and where each begins and ends.

    Returns:
      The values, without those behind nulls; and n + 1 numbers, from 0.
    """
    import pyarrow.compute as pc  # takes longer than a reader's first batch

    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return plain(column.flatten()), np.cumsum([0, *lengths]).tolist()


def plain(array: pa.Array) -> pa.Array:
    """Returns an array without its dictionary."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def masked_crc(data: bytes) -> bytes:
    """Returns TFRecord's checksum of bytes."""
    crc: int = google_crc32c.value(data)
    return (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")
