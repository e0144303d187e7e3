"""The kernels' definition: what each returns, in short Python.

It serves where the extension is not built, and the tests hold the kernels against it. A kernel that
may decline has a reference that always does: the caller's slower way is its definition.
"""

from __future__ import annotations

import collections
import re
import struct
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core._native import shared
from beam_pipelines.core.arrow.binary_arrays import varint
from beam_pipelines.core.arrow.hashing import GOLDEN, mix, mix_int
from beam_pipelines.core.arrow.weighted_values import add_equal, points_of

__all__ = [
    "cut_jpegs",
    "decode_jpegs",
    "deflate",
    "find_repeats",
    "frame",
    "merge_counts",
    "order_rows",
    "pack_stripes",
    "parse_csv",
    "parse_examples",
    "quote_transition",
    "read_parts",
    "resize",
    "serialize",
    "take",
    "unframe",
    "unpack_stripes",
]

_LENGTH = struct.Struct("<Q")
# Tags of length-delimited fields: 1 and 2, and those of Feature's oneof.
_FIELD_1, _FIELD_2 = b"\x0a", b"\x12"
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = b"\x0a", b"\x12", b"\x1a"
_WORD = (1 << 64) - 1
_INSIDE = 2


def serialize(
    batch: pa.RecordBatch,
    rows: pa.Array | npt.NDArray[np.integer[Any]] | None = None,
    lists: Collection[str] = (),
    framed: bool = True,
) -> pa.LargeBinaryArray:
    """Serializes rows as tf.Examples, or as tf.SequenceExamples: ``records.serialize``.

    Features are in the order of their names' bytes. Format:
    https://protobuf.dev/programming-guides/encoding/ and
    tensorflow/core/example/{example,feature}.proto.
    """
    shared.check_lists(batch.schema, lists)
    for name, columns in collections.Counter(batch.schema.names).items():
        if columns > 1:
            raise ValueError(f"found two columns '{name}'")
    batch = batch if rows is None else take(batch, np.asarray(rows))
    context = [b""] * batch.num_rows
    sequences = list(context)
    for name in sorted(batch.schema.names, key=lambda name: name.encode()):
        key, is_sequence = _field(_FIELD_1, name.encode()), name in lists
        try:
            values = list((_of_steps if is_sequence else _features)(batch[name]))
        except TypeError:
            raise shared.type_error(batch.schema, name) from None
        own = sequences if is_sequence else context
        for row, value in enumerate(values):
            if value is not None:
                own[row] += _field(_FIELD_1, key + _field(_FIELD_2, value))
    if lists:
        pairs = zip(context, sequences, strict=True)
        records = [_field(_FIELD_1, one) + _field(_FIELD_2, other) for one, other in pairs]
    else:
        records = [_field(_FIELD_1, one) if batch.num_columns else b"" for one in context]
    array = pa.array(records, pa.large_binary())
    return frame(array) if framed else array


def _field(tag: bytes, content: bytes) -> bytes:
    return tag + varint(len(content)) + content


def _of_steps(column: pa.Array) -> Iterator[bytes | None]:
    """Yields each list as a FeatureList.

    A null step is a Feature without a kind.
    """
    values, edges = shared.list_parts(column)
    steps = [_field(_FIELD_1, feature or b"") for feature in _features(values)]
    yield from _joined(steps, edges, column)


def _features(column: pa.Array) -> Iterator[bytes | None]:
    """Yields each value or list as a Feature; a null as ``None``."""
    column = shared.plain(column)
    values, edges = column, list(range(len(column) + 1))
    if shared.is_list(column.type):
        values, edges = shared.list_parts(column)
        if values.null_count:
            raise ValueError("found a null inside a list, which tf.Example cannot hold")
    kind = values.type
    if pa.types.is_int64(kind):
        tag, pieces = _INT64_LIST, [varint((one or 0) & _WORD) for one in values.to_pylist()]
    elif pa.types.is_float32(kind):
        data = values.fill_null(0).to_numpy(zero_copy_only=False).tobytes()
        tag, pieces = _FLOAT_LIST, [data[at : at + 4] for at in range(0, len(data), 4)]
    elif shared.is_text(kind):
        texts = values.cast(pa.large_binary()).to_pylist()
        tag, pieces = _BYTES_LIST, [_field(_FIELD_1, one or b"") for one in texts]
    else:
        raise TypeError(kind)
    for content in _joined(pieces, edges, column):
        if content is None or tag == _BYTES_LIST:
            yield None if content is None else _field(tag, content)
        else:  # packed numbers; without numbers the field is left out
            yield _field(tag, _field(_FIELD_1, content) if content else b"")


def _joined(
    pieces: Sequence[bytes], edges: Sequence[int], like: pa.Array
) -> Iterator[bytes | None]:
    for row, is_valid in enumerate(like.is_valid().to_pylist()):
        yield b"".join(pieces[edges[row] : edges[row + 1]]) if is_valid else None


def take(batch: pa.RecordBatch, rows: npt.NDArray[np.integer[Any]]) -> pa.RecordBatch:
    """Returns rows of a batch: ``columns.take``."""
    batch.validate()
    try:
        return batch.take(pa.array(rows))
    except IndexError as error:
        raise ValueError(str(error)) from error


def frame(records: pa.Array) -> pa.LargeBinaryArray:
    """Frames each value as a TFRecord record: ``records.frame``."""
    if not shared.is_text(records.type):
        raise TypeError(f"records: found {records.type}, expected a binary or string array")
    records.validate()
    if records.null_count:
        raise ValueError("found a null among records")
    return pa.array(map(_framed, records.cast(pa.large_binary()).to_pylist()), pa.large_binary())


def _framed(record: bytes) -> bytes:
    length = _LENGTH.pack(len(record))
    return b"".join((length, shared.masked_crc(length), record, shared.masked_crc(record)))


def unframe(data: bytes | memoryview | pa.Buffer) -> npt.NDArray[np.int64]:
    """Finds the whole records at the start of TFRecord data: ``records.unframe``."""
    data = data.to_pybytes() if isinstance(data, pa.Buffer) else bytes(data)
    starts, start = [0], 0
    while start + shared.HEADER_BYTES <= len(data):
        length = data[start : start + _LENGTH.size]
        if data[start + _LENGTH.size : start + shared.HEADER_BYTES] != shared.masked_crc(length):
            raise shared.DamagedRecordError(len(starts) - 1, start, "length")
        end = start + shared.HEADER_BYTES + _LENGTH.unpack(length)[0]
        if end + shared.FOOTER_BYTES > len(data):
            break
        if data[end : end + shared.FOOTER_BYTES] != shared.masked_crc(
            data[start + shared.HEADER_BYTES : end]
        ):
            raise shared.DamagedRecordError(len(starts) - 1, start, "data")
        start = end + shared.FOOTER_BYTES
        starts.append(start)
    return np.array(starts, np.int64)


def parse_examples(*_: Any, **__: Any) -> None:
    """Declines: protobuf's parser defines the values."""


def parse_csv(*_: Any, **__: Any) -> None:
    """Declines: ``sources/csv/parser.py`` defines the values."""


def quote_transition(
    data: bytes, previous: int, delimiter: int, quote: int
) -> tuple[int, int, int]:
    """Returns the quote automaton's state after a text: ``columns.quote_transition``."""
    before = re.escape(bytes((delimiter,))) + rb"\n\r"
    opening = re.compile(rb"(?<=[" + before + rb"])" + re.escape(bytes((quote,))))
    text = bytes((previous,)) + data

    def after(state: int) -> int:
        place = 1
        while place < len(text):
            if state == _INSIDE:
                place = text.find(quote, place) + 1
                if not place:
                    return _INSIDE
                state = 1
            elif state == 1 and text[place] == quote:
                state, place = _INSIDE, place + 1
            else:
                found = opening.search(text, place)
                if found is None:
                    return 0
                state, place = _INSIDE, found.end()
        return state

    return after(0), after(1), after(_INSIDE)


def resize(
    pixels: npt.NDArray[np.uint8],
    box: tuple[float, float, float, float],
    size: tuple[int, int],
) -> npt.NDArray[np.uint8]:
    """Resizes a part of an image: ``columns.resize``."""
    import PIL.Image

    height, width = size
    whole = PIL.Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0])
    resized = whole.resize((width, height), PIL.Image.Resampling.BILINEAR, box)
    return np.asarray(resized).reshape(height, width, pixels.shape[2])


def decode_jpegs(*_: Any, **__: Any) -> None:
    """Declines: ``reader/images.py`` defines the pixels."""


cut_jpegs = decode_jpegs


def find_repeats(records: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Finds records that repeat a hash: ``columns.find_repeats``."""
    firsts: dict[bytes, int] = {}
    found = [firsts.setdefault(one.tobytes()[:16], place) for place, one in enumerate(records)]
    pairs = [(first, place) for place, first in enumerate(found) if first != place]
    return np.array(pairs, np.int64).reshape(-1, 2)


def merge_counts(
    parts: Sequence[Sequence[npt.NDArray[Any]]], most: int, points: int
) -> tuple[npt.NDArray[Any], ...]:
    """Adds up the counts of equal numbers of columns: ``columns.merge_counts``."""
    found = []
    columns = (
        [np.split(one, ends[:-1]) for one in (values, counts.astype(np.int64))]
        for values, counts, ends in parts
    )
    for runs in zip(*(zip(*column, strict=True) for column in columns), strict=True):
        values, counts = add_equal(*map(np.concatenate, zip(*runs, strict=True)))
        is_long = len(values) > most
        found.append(points_of(values, counts, points) if is_long else (values, counts, 0.0))
    values, counts, moved = zip(*found, strict=True)
    ends = np.cumsum(list(map(len, values)))
    return np.concatenate(values), np.concatenate(counts), ends, np.array(moved)


def deflate(parts: pa.Array) -> pa.LargeBinaryArray:
    """Compresses parts as raw deflate blocks; other bytes than ``parts.deflate``'s."""
    from isal import isal_zlib

    compressed = []
    for part in parts:
        stream = isal_zlib.compressobj(1, isal_zlib.DEFLATED, -15)
        compressed.append(stream.compress(part.as_buffer()) + stream.flush(isal_zlib.Z_SYNC_FLUSH))
    return pa.array(compressed, pa.large_binary())


def read_parts(*_: Any, **__: Any) -> None:
    """Declines: ``reader/parts.py`` reads one part after the other."""


def order_rows(key: int, parts: Sequence[int], rows: Sequence[int]) -> npt.NDArray[np.int64]:
    """Returns the order of the rows of parts: ``parts.order_rows``.

    Rows are sorted by the upper half of a hash of the part and their number, then by the number.
    """
    orders, before = [np.zeros(0, np.int64)], 0
    for part, count in zip(parts, rows, strict=True):
        start = mix_int(mix_int(part + GOLDEN) ^ key)
        numbers = np.arange(count, dtype=np.uint64)
        random = mix(np.uint64(start) + numbers * np.uint64(GOLDEN)) >> np.uint64(32)
        orders.append(np.argsort(random, kind="stable") + before)
        before += count
    return np.concatenate(orders)


def pack_stripes(*_: Any, **__: Any) -> None:
    """Declines: ``core/layout/stripes.py`` writes Arrow streams."""


def unpack_stripes(schema: pa.Schema, pieces: Sequence[tuple[bytes, int, int]]) -> pa.RecordBatch:
    """Refuses: only kernels pack what it would read.

    Raises:
      ValueError: always.
    """
    raise ValueError(
        f"found {len(pieces)} pieces of rows with {len(schema)} columns that another worker's C++ "
        "kernels packed, and no kernels here. Install beam-pipelines with or without a C++ "
        "compiler on all workers."
    )
