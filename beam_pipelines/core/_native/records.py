"""C++ kernels for tf.Examples and TFRecord frames."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core._native import shared

__all__ = ["frame", "parse_examples", "serialize", "unframe"]


def serialize(
    batch: pa.RecordBatch,
    rows: pa.Array | npt.NDArray[np.integer[Any]] | None = None,
    lists: Collection[str] = (),
    framed: bool = True,
) -> pa.LargeBinaryArray:
    """Serializes rows as tf.Examples, or with ``lists`` as tf.SequenceExamples.

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
    shared.check_lists(batch.schema, lists)
    names = batch.schema.names
    flags = bytes(name in lists for name in names)
    capsules = None if rows is None else pa.array(rows).__arrow_c_array__()
    try:
        pair = shared.kernels.serialize(
            batch.__arrow_c_array__(),
            [name.encode() for name in names],
            flags,
            capsules,
            bool(lists),
            framed,
        )
    except TypeError as error:
        raise shared.type_error(batch.schema, str(error)) from None
    return shared.imported(pair)


def frame(records: pa.Array) -> pa.LargeBinaryArray:
    """Frames each value as a TFRecord record.

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
        pair = shared.kernels.frame(records.__arrow_c_array__())
    except TypeError:
        raise TypeError(
            f"records: found {records.type}, expected a binary or string array"
        ) from None
    return shared.imported(pair)


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
    pair, damage = shared.kernels.unframe(_one_text(data).__arrow_c_array__())
    found = shared.imported(pair)
    # Arrow's `to_numpy` imports pandas, which takes longer than a reader's first batch.
    starts = np.frombuffer(found.buffers()[1], np.int64, len(found))
    if damage:
        raise shared.DamagedRecordError(
            len(starts) - 1, int(starts[-1]), "length" if damage == 1 else "data"
        )
    return starts


def _one_text(data: bytes | memoryview | pa.Buffer) -> pa.LargeBinaryArray:
    """Returns an array whose only value is the bytes, without a copy."""
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
    offsets = pa.py_buffer(np.array([0, buffer.size], np.int64))
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, buffer])


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
    ids: Mapping[str, tuple[pa.Array, pa.Array, int]] | None = None,
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
      sizes: feature -> number of values in every record, or in every step of a feature list.
      ids: feature of texts -> the last arguments of ``look_up``, whose int64 are its values.

    Returns:
      n rows. A column for each feature, a large_list: null where the feature is missing or has no
      kind, empty where it has no values. One in ``sizes`` is a fixed_size_list without nulls. Then
      one for each feature list, a large_list of large_lists, or of the size: null where the list is
      missing; a step without a kind is null. A column's name ends before a NUL. ``None`` if a
      record is damaged or laid out as no known writer does, has a wanted feature twice, a feature
      has values of another kind, or another number of values than in ``sizes``.

    Raises:
      TypeError: records of another type.
      ValueError: a null, a value that is no frame, a row that is no record, offsets that contradict
        themselves, or an index of other texts.
    """
    chunks = [records] if isinstance(records, pa.Array) else list(records)
    for chunk in chunks:
        chunk.validate()
    given = sizes or {}, ids or {}
    wanted = [None if of is None else _wanted(of, *given) for of in (features, lists)]
    order = None
    if rows is not None:
        # `pa.array` imports pandas, which takes longer than a reader's first batch.
        buffers = [None, pa.py_buffer(np.ascontiguousarray(rows, np.int64))]
        order = pa.Array.from_buffers(pa.int64(), len(rows), buffers).__arrow_c_array__()
    pairs = [chunk.__arrow_c_array__() for chunk in chunks]
    try:
        pair = shared.kernels.parse_examples(pairs, order, *wanted, framed, is_closed)
    except TypeError:
        found = ", ".join(sorted({str(chunk.type) for chunk in chunks}))
        raise TypeError(f"records: found {found}, expected binary or string arrays") from None
    return None if pair is None else pa.RecordBatch._import_from_c_capsule(*pair)  # noqa: SLF001


def _wanted(
    types: Mapping[str, pa.DataType],
    sizes: Mapping[str, int],
    ids: Mapping[str, tuple[pa.Array, pa.Array, int]],
) -> tuple[list[bytes], bytes, list[int], list[Any]]:
    """Returns names, kinds of values, sizes of lists (-1: any), and ids."""
    kinds = b"".join(_KIND_FOR_TYPE[type_] for type_ in types.values())
    given: list[Any] = [ids.get(name) for name in types]
    given = [of and (*(one.__arrow_c_array__() for one in of[:2]), of[2]) for of in given]
    return [name.encode() for name in types], kinds, [sizes.get(name, -1) for name in types], given
