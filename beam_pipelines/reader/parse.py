"""Parses rows of batches, and finds rows by their numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core._native.shared import FOOTER_BYTES, HEADER_BYTES
from beam_pipelines.core.arrow.binary_arrays import is_valid, offsets_of
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.process.file_locks import Lock
from beam_pipelines.reader import arrays, columns
from beam_pipelines.reader.features import ReadFeature
from beam_pipelines.reader.images import decode_images, prepare_pictures
from beam_pipelines.reader.order import Int64s
from beam_pipelines.reader.parts import Block, ReadSplit, read_part
from beam_pipelines.tfrecord.protobuf_parser import Layout, WireError, parse_sequences

Values = npt.NDArray[Any]
# Name of the records in batches of serialized records, as ``Dataset.head`` has it.
RECORD = "record"
_NO_EXAMPLE = "the record is damaged, or no tf.Example"


def make_steps(lists: pa.LargeListArray, feature: ReadFeature, as_: str) -> columns.FeatureValues:
    """Returns a feature list's steps, ready to be cut into batches.

    Steps that the schema gives one value each are the values of a ``Ragged``. Other steps are a
    ``Ragged`` themselves, within that of the rows.

    Args:
      lists: rows of steps: null where the feature list is missing, or a step has no kind; steps of
        one value each, if all have one and should.
      feature: as the schema has it.
      as_: ``arrow``; any other: numpy arrays.

    Raises:
      WrongRowError: a step has other than one value, or a value does not fit in the type.
    """
    steps, rows = lists.values, offsets_of(lists)
    if feature.steps == "one":
        if not pa.types.is_fixed_size_list(steps.type):
            _check_steps(feature, rows, offsets_of(steps), 1)
        return columns.make_column(arrays.with_values(lists, steps.values), feature, as_)
    places = offsets_of(steps)
    values_of_rows = places[rows]
    if as_ == "arrow":
        return columns.DenseColumn(columns.arrow_lists(lists, feature, values_of_rows))
    values = columns.values_of(steps.values, feature, values_of_rows)
    if feature.padding is None:
        inner = columns.RaggedColumn(columns.DenseColumn(values), places, is_valid(steps))
        return columns.RaggedColumn(inner, rows, is_valid(lists))
    if isinstance(values, pa.Array):
        sizes = _padded_steps(np.diff(offsets_of(values)), rows, places, feature, 0)
        return columns.PaddedTexts(sizes, values, values_of_rows)
    return _padded_steps(values, rows, places, feature, feature.padding)


def _padded_steps(
    values: Values,
    rows: columns.Offsets,
    places: columns.Offsets,
    feature: ReadFeature,
    padding: Any,
) -> columns.FeatureValues:
    """Returns steps with any number of values, padded."""
    if feature.steps == "several":
        return _PaddedSteps(values, rows, places, padding, feature.length)
    _check_steps(feature, rows, places, 0)
    # A step without a value is padding.
    whole = np.full(len(places) - 1, padding, values.dtype)
    whole[np.diff(places) == 1] = values
    return columns.PaddedColumn(whole, rows, padding, feature.length)


class _PaddedSteps(NamedTuple):
    """Steps with any number of values, padded in both dimensions."""

    values: Values
    rows: columns.Offsets
    places: columns.Offsets
    padding: Any
    length: int | None

    def cut(self, start: int, end: int) -> Values:
        """Returns [rows, most steps of a row, most values of a step]."""
        rows = self.rows[start : end + 1]
        steps = columns.padded(self.values, self.places[rows[0] : rows[-1] + 1], self.padding)
        return columns.padded(steps, rows - rows[0], self.padding, self.length)


def _check_steps(
    feature: ReadFeature, rows: columns.Offsets, places: columns.Offsets, least: int
) -> None:
    """Checks that each step has ``least`` to one values."""
    lengths = np.diff(places)
    is_wrong = (lengths > 1) | (lengths < least)
    if not is_wrong.any():
        return
    step = int(np.argmax(is_wrong))
    row = int(np.searchsorted(rows, step, side="right")) - 1
    expected = "one" if least else "one or none"
    raise arrays.WrongRowError(
        row,
        f"feature '{feature.name}': found {lengths[step]:,} values in step {step - rows[row]:,}, "
        f"expected {expected} as the schema says. Convert again with --overwrite",
    )


class BlockRows(NamedTuple):
    """Rows of blocks, in the order of the batches.

    Attributes:
      blocks: those with the rows.
      records: int64[n], the rows' numbers among the records of all blocks.
      seed: of random crops.
      epochs: int64[n], the number of each row's epoch.
    """

    blocks: Sequence[Block]
    records: Int64s
    seed: int = 0
    epochs: Int64s = np.zeros(0, np.int64)

    def chunks(self) -> list[pa.LargeBinaryArray]:
        """Returns the framed records of all blocks."""
        return [frames for block in self.blocks for frames in block.records()]

    def tables(self) -> list[pa.Table]:
        """Returns the columns of all blocks; none if one has records."""
        if not all(block.is_columnar for block in self.blocks):
            return []
        return [table for block in self.blocks for table in block.frames]

    def place(self, row: int) -> str:
        """Returns file and record of a row, for errors."""
        record = int(self.records[row])
        for block in self.blocks:
            for part, rows in zip(block.parts, block.rows_of_parts.tolist(), strict=True):
                if record < rows:
                    return block.split.place(part, record)
                record -= rows
        raise AssertionError


def gather_rows(blocks: Sequence[Block], parts: Int64s, starts: Int64s, ends: Int64s) -> BlockRows:
    """Finds rows in blocks.

    Args:
      blocks: with all the rows.
      parts: int64[n], numbers of parts among those of all blocks.
      starts, ends: int64[n], the rows of each, in the part's order.
    """
    if not len(parts):
        return BlockRows([], np.zeros(0, np.int64))
    first = np.cumsum(np.concatenate([[0], *(block.rows_of_parts for block in blocks)]))
    records = np.cumsum([0, *(len(block.order) for block in blocks)])
    order = np.concatenate(
        [block.order + base for block, base in zip(blocks, records[:-1], strict=True)]
    )
    counts = ends - starts
    behind = np.cumsum(counts)
    taken = np.arange(behind[-1]) + np.repeat(first[parts] + starts - behind + counts, counts)
    return BlockRows(blocks, order[taken])


def parse_rows(
    rows: BlockRows, features: Sequence[ReadFeature], as_: str
) -> dict[str, columns.FeatureValues]:
    """Parses rows.

    Args:
      rows: of the batches.
      features: to parse; with ``records`` none.
      as_: kind of the batches.

    Returns:
      Feature -> its values in all rows; of ``records``, ``record`` -> serialized bytes, an Arrow
      array.

    Raises:
      DataError: a record is damaged, or has other values than the schema or an argument promises.
    """
    if as_ == "records":
        return {RECORD: columns.DenseColumn(_records(rows))}
    sizes = {
        feature.name: math.prod(feature.shape)
        for feature in features
        if feature.shape is not None and feature.fill is None
    } | {feature.name: 1 for feature in features if feature.steps == "one"}
    found = parse_lists(rows, features, sizes)
    try:
        return {
            feature.name: _column(found[feature.name], feature, as_, rows) for feature in features
        }
    except arrays.WrongRowError as error:
        raise DataError(f"{rows.place(error.row)}: {error.message}.") from error


def parse_lists(
    rows: BlockRows, features: Sequence[ReadFeature], sizes: Mapping[str, int]
) -> dict[str, pa.Array]:
    """Parses rows to lists of values or ids.

    A list is null where a feature is missing.

    Args:
      rows: of tf.Examples or tf.SequenceExamples.
      features: to parse, by their names and types.
      sizes: feature -> number of its values, or of those of a step. Its lists have this size, if
        all have so many.

    Raises:
      DataError: a record is damaged, or has values of another kind.
    """
    context = {feature.name: feature.stored for feature in features if feature.steps is None}
    lists = {feature.name: feature.stored for feature in features if feature.steps is not None}
    names = [*context, *lists]
    ids = {feature.name: feature.lookup for feature in features if feature.lookup is not None}

    def with_ids(columns: Sequence[pa.Array]) -> dict[str, pa.Array]:
        found = zip(names, columns, strict=True)
        return {name: ids[name].ids_of(one) if name in ids else one for name, one in found}

    if tables := rows.tables():
        return with_ids(_of_tables(tables, rows, context, lists))
    # With lists of any size, ``make_column`` finds the row that has another one.
    for of in (sizes, {}) if sizes else ({},):
        batch = _native.parse_examples(
            rows.chunks(), context, True, lists, rows=rows.records, sizes=of, ids=ids
        )
        if batch is not None:
            return dict(zip(names, batch.columns, strict=True))
    try:  # records that the kernel declines
        both = parse_sequences(_records(rows).to_pylist(), Layout(context, lists))
        return with_ids([*both[0], *both[1]])
    except WireError as error:
        what = f"feature '{error.feature}': {error.found}" if error.feature else _NO_EXAMPLE
        where = rows.place(error.record)
        raise DataError(f"{where}: {what}. Convert again with --overwrite.") from error


def _of_tables(
    tables: Sequence[pa.Table],
    rows: BlockRows,
    context: Mapping[str, pa.DataType],
    lists: Mapping[str, pa.DataType],
) -> list[pa.Array]:
    """Returns the columns of Parquet shards as parsed features."""
    from beam_pipelines.reader.row_groups import columns_of

    types = [(name, type_, False) for name, type_ in context.items()]
    types += [(name, type_, True) for name, type_ in lists.items()]
    try:
        return columns_of(tables, rows.records, types)
    except DataError as error:
        raise DataError(f"{rows.place(0)}: {error}") from error


def _column(
    lists: pa.Array, feature: ReadFeature, as_: str, rows: BlockRows
) -> columns.FeatureValues:
    if feature.length is not None:
        lists = columns.cut_lists(lists, feature.length)
    if feature.steps is not None:
        return make_steps(lists, feature, as_)
    column = columns.make_column(lists, feature, as_)
    if feature.image is None:
        return column
    contents = column.cut(0, len(lists))
    how = feature.name, contents, feature.image, rows.seed, rows.epochs
    if feature.image.device is not None:
        return prepare_pictures(*how)
    return columns.DenseColumn(decode_images(*how))


def _records(rows: BlockRows) -> pa.LargeBinaryArray:
    """Returns the serialized records of rows."""
    import pyarrow.compute as pc

    frames = pa.chunked_array(rows.chunks(), pa.large_binary()).take(pa.array(rows.records))
    return pc.binary_slice(frames.combine_chunks(), HEADER_BYTES, -FOOTER_BYTES)


# Parts that are kept for later rows, of about 256 KiB each.
HELD_PARTS = 64


class RowFinder:
    """Reads the parts with some rows, and keeps the last ones.

    Threads may share it.
    """

    def __init__(self, split: ReadSplit) -> None:
        self._split = split
        self._firsts = np.cumsum(split.rows_of_parts) - split.rows_of_parts
        self._held: dict[int, pa.LargeBinaryArray | pa.Table] = {}
        self._lock = Lock()

    def find(self, rows: Sequence[int]) -> BlockRows:
        """Returns rows, in the order of their numbers in ``rows``.

        Raises:
          IndexError: there is no such row.
          DataError: a shard is missing, damaged, or another file than the index is of.
        """
        numbers = np.asarray(rows, np.int64)
        is_wrong = (numbers < 0) | (numbers >= self._split.rows)
        if is_wrong.any():
            raise IndexError(
                f"row: found {numbers[is_wrong][0]:,}, expected 0 to {self._split.rows - 1:,}"
            )
        if not len(numbers):
            return BlockRows([], numbers)
        parts = np.searchsorted(self._firsts, numbers, side="right") - 1
        needed, which = np.unique(parts, return_inverse=True)
        frames = [self._frames(part) for part in needed.tolist()]
        counts = self._split.rows_of_parts[needed]
        records: Int64s = (np.cumsum(counts) - counts - self._firsts[needed])[which] + numbers
        return BlockRows([Block(self._split, needed.tolist(), frames, records, counts)], records)

    def _frames(self, part: int) -> pa.LargeBinaryArray | pa.Table:
        with self._lock:
            frames = self._held.pop(part, None)
        if frames is None:
            frames = read_part(*self._split.find(part))
        with self._lock:
            self._held[part] = frames  # the last one is the last used
            if len(self._held) > HELD_PARTS:
                del self._held[next(iter(self._held))]
        return frames
