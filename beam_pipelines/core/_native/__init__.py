"""C++ kernels for tf.Examples, TFRecord frames, hashes, CSV and Arrow rows.

They are an optional extension, ``_kernels``, built where a C++ compiler is installed. Without it
``KERNELS_AVAILABLE`` is false, and callers use slower code with the same results.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_logger = logging.getLogger(__name__)

try:
    _kernels: Any = importlib.import_module("beam_pipelines.core._native._kernels")
except ModuleNotFoundError:
    _kernels = None
except ImportError as error:
    _kernels = None
    _logger.warning(
        "the C++ kernels are there and cannot be loaded: %s. Conversions take one and a half times "
        "as long without them: install again where they are to run.",
        error,
    )

KERNELS_AVAILABLE: bool = _kernels is not None


def imported(pair: tuple[Any, Any]) -> pa.Array:
    """Returns a kernel's array; ``pa.array`` takes capsules from pyarrow 15 on."""
    return pa.Array._import_from_c_capsule(*pair)  # noqa: SLF001


def serialize(
    batch: pa.RecordBatch,
    rows: pa.Array | npt.NDArray[np.integer[Any]] | None = None,
    lists: Collection[str] = (),
    framed: bool = True,
) -> pa.LargeBinaryArray:
    """Serializes rows as tf.Examples, or with ``lists`` as tf.SequenceExamples.

    The bytes are those of ``tfrecord/example.py`` and ``framing.frame``.

    Args:
      batch: columns of type int64, float (32 bits), string, binary, lists of them (of any kind, of
        fixed size as well), and dictionaries of them. A null is a feature that is absent, an empty
        list a feature without values.
      rows: int64[n] or int32[n], rows in any order, also several times; ``None``: all.
      lists: the list columns that become feature lists; the others are the context. A null in a
        list is a Feature without values.
      framed: whether each record is in a TFRecord frame; the array's data buffer then is a TFRecord
        file.

    Returns:
      n records, back to back in one buffer, no nulls.

    Raises:
      TypeError: a column of another type, or a feature list that is no list.
      ValueError: a null inside a list of a tf.Example, of the context or of a step, a row that the
        batch does not have, a record of over 2 GiB, buffers that contradict themselves, two columns
        of one name.
    """
    batch.validate()
    _check_lists(batch.schema, lists)
    names = batch.schema.names
    flags = bytes(name in lists for name in names)
    capsules = None if rows is None else pa.array(rows).__arrow_c_array__()
    try:
        pair = _kernels.serialize(
            batch.__arrow_c_array__(),
            [name.encode() for name in names],
            flags,
            capsules,
            bool(lists),
            framed,
        )
    except TypeError as error:
        raise _type_error(batch.schema, str(error)) from None
    return imported(pair)


def take(batch: pa.RecordBatch, rows: npt.NDArray[np.integer[Any]]) -> pa.RecordBatch:
    """Returns rows of a batch, as its own ``take`` does.

    Args:
      batch: columns of any types; Arrow takes rows of others than texts, bool, numbers, dates and
        times.
      rows: int64[n] or int32[n], in any order, also several times.

    Returns:
      n rows, with the batch's schema.

    Raises:
      ValueError: a row that the batch does not have, buffers that contradict themselves, or over 2
        GiB of texts in a column.
    """
    batch.validate()
    order = pa.array(rows)
    pairs = _kernels.take(
        [column.__arrow_c_array__() for column in batch.columns], order.__arrow_c_array__()
    )
    columns = [
        column.take(order) if pair is None else _with_type(pair, column.type)
        for column, pair in zip(batch.columns, pairs, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _with_type(pair: tuple[Any, Any], type_: pa.DataType) -> pa.Array:
    """Returns an exported array with the column's own type."""
    array = imported(pair)
    return array if array.type == type_ else array.view(type_)


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


def frame(records: pa.Array) -> pa.LargeBinaryArray:
    """Frames each value as a TFRecord record, as ``framing.frame`` does.

    Args:
      records: n values of a string or binary type, large or not; no nulls.

    Returns:
      n framed records, back to back in one buffer, which is a valid TFRecord file.

    Raises:
      TypeError: another type.
      ValueError: a null, or offsets that contradict themselves.
    """
    records.validate()
    try:
        pair = _kernels.frame(records.__arrow_c_array__())
    except TypeError:
        raise TypeError(
            f"records: found {records.type}, expected a binary or string array"
        ) from None
    return imported(pair)


def unframe(data: bytes | memoryview | pa.Buffer) -> npt.NDArray[np.int64]:
    """Finds the whole records at the start of TFRecord data.

    Checks their CRCs.

    Returns:
      int64[n + 1]: the offset of each whole record's frame, and the end of the last one. Record i
      is ``data[starts[i] + 12 : starts[i + 1] - 4]``. Nothing, or the beginning of a record,
      follows.

    Raises:
      DamagedRecordError: a CRC does not match. Records before it are whole.
    """
    pair, damage = _kernels.unframe(_one_text(data).__arrow_c_array__())
    found = imported(pair)
    # Arrow's `to_numpy` imports pandas, which takes longer than a reader's first batch.
    starts = np.frombuffer(found.buffers()[1], np.int64, len(found))
    if damage:
        raise DamagedRecordError(
            len(starts) - 1, int(starts[-1]), "length" if damage == 1 else "data"
        )
    return starts


def _one_text(data: bytes | memoryview | pa.Buffer) -> pa.LargeBinaryArray:
    """Returns an array whose only value is the bytes, without a copy."""
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
    offsets = pa.py_buffer(np.array([0, buffer.size], np.int64))
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, buffer])


def resize(
    pixels: npt.NDArray[np.uint8],
    box: tuple[float, float, float, float],
    size: tuple[int, int],
) -> npt.NDArray[np.uint8]:
    """Resizes a part of an image as Pillow's BILINEAR does.

    The filter is a triangle, widened where the image shrinks.

    Args:
      pixels: uint8 [height, width, 1 or 3].
      box: left, top, right and bottom edge of the part, in pixels; within the image.
      size: height and width of the result.

    Returns:
      uint8 [*size, channels], bit for bit those of ``resize`` in Pillow 12; read-only.

    Raises:
      ValueError: another number of channels, or a box that is empty or not within the image.
    """
    flat = np.ascontiguousarray(pixels).reshape(-1)
    array = pa.Array.from_buffers(pa.uint8(), len(flat), [None, pa.py_buffer(flat)])
    pair = _kernels.resize(array.__arrow_c_array__(), *pixels.shape, box, *size)
    found = imported(pair)
    return np.frombuffer(found.buffers()[1], np.uint8, len(found)).reshape(*size, pixels.shape[2])


# Types of feature values -> formats of Arrow's C data interface.
_KIND_FOR_TYPE = {pa.large_binary(): b"Z", pa.float32(): b"f", pa.int64(): b"l"}


def parse_examples(
    records: pa.Array | Sequence[pa.Array],
    features: Mapping[str, pa.DataType],
    framed: bool = False,
    lists: Mapping[str, pa.DataType] | None = None,
    is_closed: bool = False,
    rows: npt.NDArray[np.int64] | None = None,
    sizes: Mapping[str, int] | None = None,
) -> pa.RecordBatch | None:
    """Parses serialized tf.Examples or tf.SequenceExamples, or declines to.

    The values are those of tfx-bsl's ``ExamplesToRecordBatchDecoder`` and of protobuf's parser.
    Features that are not asked for are only checked.

    Args:
      records: values of a string or binary type, large or not; no nulls. Several arrays are read as
        one.
      features: name -> type of values: int64, float32 or large_binary.
      framed: whether each record is in its TFRecord frame, whose CRCs ``unframe`` has checked.
      lists: the same for feature lists; ``None``: the records are tf.Examples.
      is_closed: whether it declines a record with a feature that is not asked for.
      rows: int64[n], numbers of records in any order, also several times; ``None``: all.
      sizes: feature -> number of values in every record.

    Returns:
      n rows. A column for each feature, a large_list: null where the feature is missing or has no
      kind, empty where it has no values. One in ``sizes`` is a fixed_size_list without nulls. Then
      one for each feature list, a large_list of large_lists: null where the list is missing; a step
      without a kind is null. A column's name ends before a NUL. ``None`` if a record is damaged or
      laid out as no known writer does, has a wanted feature twice, a feature has values of another
      kind, or another number of values than in ``sizes``.

    Raises:
      TypeError: records of another type.
      ValueError: a null, a value that is no frame, a row that is no record, or offsets that
        contradict themselves.
    """
    chunks = [records] if isinstance(records, pa.Array) else list(records)
    for chunk in chunks:
        chunk.validate()
    wanted = [_wanted(features, sizes or {}), None if lists is None else _wanted(lists, {})]
    order = None
    if rows is not None:
        # `pa.array` imports pandas, which takes longer than a reader's first batch.
        buffers = [None, pa.py_buffer(np.ascontiguousarray(rows, np.int64))]
        order = pa.Array.from_buffers(pa.int64(), len(rows), buffers).__arrow_c_array__()
    pairs = [chunk.__arrow_c_array__() for chunk in chunks]
    try:
        pair = _kernels.parse_examples(pairs, order, *wanted, framed, is_closed)
    except TypeError:
        found = ", ".join(sorted({str(chunk.type) for chunk in chunks}))
        raise TypeError(f"records: found {found}, expected binary or string arrays") from None
    return None if pair is None else pa.RecordBatch._import_from_c_capsule(*pair)  # noqa: SLF001


def _wanted(
    types: Mapping[str, pa.DataType], sizes: Mapping[str, int]
) -> tuple[list[bytes], bytes, list[int]]:
    """Returns names, kinds of values and sizes of lists, -1 for any."""
    kinds = b"".join(_KIND_FOR_TYPE[type_] for type_ in types.values())
    return [name.encode() for name in types], kinds, [sizes.get(name, -1) for name in types]


def hash_column(array: pa.Array, seed: int = 0) -> npt.NDArray[np.uint64]:
    """Hashes the values of one array, as ``hashing.hash_column`` does.

    Args:
      array: n values of a column type; lists of any kind hash as lists, dictionaries as their
        values.
      seed: another seed is another hash function; modulo 2**64.

    Returns:
      uint64[n], read-only.

    Raises:
      TypeError: the array has no column type.
      ValueError: buffers that contradict themselves.
    """
    return _hashes([array], seed, True)


def hash_rows(arrays: Sequence[pa.Array], seed: int = 0) -> npt.NDArray[np.uint64]:
    """Hashes rows of columns, as ``hashing.hash_rows`` does.

    Args:
      arrays: one or more arrays of n values each, of column types; the order of the columns
        matters.
      seed: another seed is another hash function; modulo 2**64.

    Returns:
      uint64[n], read-only.

    Raises:
      TypeError: an array has no column type.
      ValueError: no arrays, arrays of several lengths, or buffers that contradict themselves.
    """
    return _hashes(arrays, seed, False)


def _hashes(arrays: Sequence[pa.Array], seed: int, is_column: bool) -> npt.NDArray[np.uint64]:
    for array in arrays:
        array.validate()
    try:
        pair = _kernels.hash_rows(
            [array.__arrow_c_array__() for array in arrays], seed % (1 << 64), is_column
        )
    except TypeError as error:
        raise TypeError(f"type {arrays[int(str(error))].type} has no 64-bit value") from None
    hashes: npt.NDArray[np.uint64] = imported(pair).to_numpy()
    return hashes


def _type_error(schema: pa.Schema, name: str) -> TypeError:
    """Returns the error for a column of another type.

    ``tfrecord/example.py`` raises the same error.
    """
    found = schema.field(name).type
    return TypeError(
        f"feature '{name}': found {found}, expected int64, float, string, binary, or lists of them"
    )


def _check_lists(schema: pa.Schema, lists: Collection[str]) -> None:
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if field.name in lists and not _is_list(kind):
            raise TypeError(f"feature list '{field.name}': found {field.type}, expected a list")


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def parse_csv(
    data: bytes,
    delimiter: int,
    quote: int | None,
    num_columns: int,
    wanted: Sequence[tuple[int, str]],
    nulls: Sequence[str],
    line_bytes: int | None = None,
) -> list[pa.Array] | None:
    """Parses CSV records, or declines to.

    The values are those of pyarrow.csv, which parses records that the kernel declines.

    Args:
      data: whole records, without a header; the last one may lack its line end.
      delimiter, quote: bytes; without a quote nothing is quoted.
      num_columns: cells of each record.
      wanted: the columns to read: their places, and their types as formats of Arrow's C data
        interface; ``!`` before ``l`` or ``g`` declines numbers with a leading zero.
      nulls: texts that mean null in a column of any type, quoted or not.
      line_bytes: limit of a record's bytes, without its line end; ``None``: no limit.

    Returns:
      The columns: integers of any width as int64, timestamps in UTC without a zone. ``None``
      without records, or if one has another number of cells or nearly ``line_bytes``, a line before
      the last ones is blank, a quote is ambiguous, a carriage return has no newline after it, or a
      value is not of its column's type or is written in an unusual way.
    """
    places, types = [place for place, _ in wanted], [type_.encode() for _, type_ in wanted]
    texts = [null.encode() for null in nulls]
    pairs = _kernels.parse_csv(
        data,
        delimiter,
        -1 if quote is None else quote,
        num_columns,
        places,
        types,
        texts,
        sys.maxsize if line_bytes is None else line_bytes,
    )
    if pairs is None:
        return None
    return [imported(pair) for pair in pairs]


def quote_transition(
    data: bytes, previous: int, delimiter: int, quote: int
) -> tuple[int, int, int]:
    """Returns the quote automaton's state after a text, for each start state.

    It does the same as ``sources/text/quotes.transition``.

    Args:
      data: the text.
      previous: the byte before it.
      delimiter, quote: bytes.
    """
    states: tuple[int, int, int] = _kernels.quote_transition(data, previous, delimiter, quote)
    return states
