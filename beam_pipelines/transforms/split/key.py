"""What decides a row's split, where its later columns do not.

Without ``by``, shares follow from the hash of the row as it was read and joined, before ``derive``,
``drop`` and ``keep``; so these do not move rows between splits.

Hash buckets are those of TFX's ExampleGen: SHA-256 of the serialized example, modulo the number of
buckets. The example of a CSV row is that of CsvExampleGen, and the record of a TFRecord that of
ImportExampleGen.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Collection, Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core import _native
from beam_pipelines.core.arrow import hashing
from beam_pipelines.core.arrow.binary_arrays import varint
from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.core.chunks import SPLIT_KEY
from beam_pipelines.core.errors import DataError, Problem, RecipeProblems
from beam_pipelines.recipe.splits import Split
from beam_pipelines.sources import format_of
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.tfrecord.protobuf_parser import deterministic
from beam_pipelines.transforms.read import read_range
from beam_pipelines.transforms.row_positions import RowPositions
from beam_pipelines.transforms.select.rename import Names

# Another seed than that of joins, or a join's partition would have rows of one split only.
SPLIT_SEED = 0x73706C6974  # "split"
# Tags of a Feature's fields.
_BYTES_LIST, _INT64_LIST, _VALUE = b"\x0a", b"\x1a", b"\x0a"


@dataclasses.dataclass(frozen=True)
class SplitKey:
    """How the keys of rows are computed from their columns.

    Attributes:
      kind: what a key is: of ``row`` the hash of its values, uint64; of ``example`` the SHA-256 of
        the tf.Example that TFX's CsvExampleGen makes of it, of ``record`` that of its only value,
        binary.
      columns: names, after ``rename``.
      features: their names in the source, which are those of an example's features.
      empty: features that have no values in any row. TFX gives them no type.
    """

    kind: Literal["row", "example", "record"]
    columns: tuple[str, ...]
    features: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()

    @property
    def field(self) -> pa.Field:
        """The column of the keys."""
        return pa.field(SPLIT_KEY, pa.uint64() if self.kind == "row" else pa.binary())

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        """Returns the key of each row."""
        columns = [batch.column(name) for name in self.columns]
        if self.kind == "row":
            return pa.array(_native.hash_rows(columns, SPLIT_SEED))
        if self.kind == "record":
            return hashing.sha256_digests(columns[0].cast(pa.binary()).to_pylist())
        return hashing.sha256_digests(_examples(columns, self))


def plan_split_key(
    split: Split,
    base: SourcePlan,
    rows: pa.Schema,
    rename: Names,
    is_grouped: bool,
    changes: bool,
    derived: Collection[str] = (),
) -> SplitKey | None:
    """Plans the keys of rows; ``None`` if they need none.

    Args:
      split: of the recipe.
      base: plan of the source whose rows become examples.
      rows: the columns of joined rows, renamed.
      rename: of the recipe: column -> new name.
      is_grouped: whether rows become sequences.
      changes: whether columns are derived or left out before the split.
      derived: columns that sources derive, which do not move rows, either.

    Raises:
      RecipeProblems: TFX's buckets of such a source cannot be reproduced.
    """
    if split.buckets:
        return _plan_buckets(split, base, rename, is_grouped)
    changes = changes or bool(split.stratify or derived)
    if len(split.fractions) < 2 or split.by or is_grouped or not changes:
        return None
    return SplitKey("row", tuple(name for name in rows.names if name not in derived))


def with_record_keys(split: Split, base: SourcePlan) -> SourcePlan:
    """Returns the source, with the keys of its records if needed."""
    if not split.buckets or split.by or format_of(base).tfx_rows != "records":
        return base
    return dataclasses.replace(base, schema=base.schema.append(pa.field(SPLIT_KEY, pa.binary())))


def counts_nulls(base: SourcePlan) -> bool:
    """Whether TFX makes a feature without values of a null."""
    return format_of(base).tfx_rows == "csv"


def _plan_buckets(
    split: Split, base: SourcePlan, rename: Names, is_grouped: bool
) -> SplitKey | None:
    problems = []
    if is_grouped:
        message = "found buckets with 'group_by', expected shares: TFX groups no rows."
        problems.append(Problem(("split",), message))
    by, kind, added = split.by, format_of(base).tfx_rows, format_of(base).added_columns
    columns = tuple(name for name in base.as_read.schema.names if name not in added)
    sources = format_of(base).sources_of(base)
    if not by and not kind:
        message = (
            f"found buckets of whole rows of format '{base.format}', expected a CSV file, or a "
            "TFRecord. Only their bytes in TFX are known: name one column with 'by'."
        )
        problems.append(Problem(("split",), message))
    if kind == "csv":
        of_source = {new: old for old, new in rename.items()}
        names = [of_source.get(name, name) for name in by] or columns
        for source in sources:
            problems += _csv_problems(source, names, bool(by))
    if problems:
        raise RecipeProblems(problems)
    if by or kind == "records":
        return None
    renamed = tuple(rename.get(name, name) for name in columns)
    hashed: Literal["example", "record"] = "example" if kind == "csv" else "record"
    empty = [name for name in columns if all(name in one.null_columns for one in sources)]
    return SplitKey(hashed, renamed, columns, tuple(empty))


def _csv_problems(base: SourcePlan, names: Collection[str], is_part: bool) -> Iterator[Problem]:
    """Yields why the features of rows are not those of TFX's CsvExampleGen.

    Args:
      base: plan of the source.
      names: of the columns whose features are needed.
      is_part: whether other columns do not matter.
    """
    source = base.source
    place = ("sources", source.name)
    if source.nulls != ("",):
        message = (
            f"found {list(source.nulls)} with a split by buckets, expected 'nulls: \"\"': to TFX, "
            "only an empty cell has no value."
        )
        yield Problem((*place, "nulls"), message)
    if not is_part and source.columns and format_of(base).has_own_names(source):
        message = "found 'columns' with a split by buckets, expected all: TFX hashes them all."
        yield Problem((*place, "columns"), message)
    for name in names:
        if name not in base.schema.names and not is_part:
            message = (
                f"found no column '{name}', which other sources of the union have, with a split by "
                "buckets, expected the same columns: TFX reads files of one header."
            )
            yield Problem((*place, "columns"), message)
    digits = _columns_of_numbers(base)
    for field in base.read_schema:
        if field.name not in names:
            continue
        if field.name in base.null_columns and source.infer == "sample":
            message = (
                f"column '{field.name}' has no value in the sample, and TFX's type depends on "
                "whether it has one. Set 'infer: full'."
            )
            yield Problem((*place, "infer"), message)
        elif field.type not in (pa.int64(), pa.float64(), pa.string()):
            message = (
                f"column '{field.name}' is {type_name(field.type)}, expected the type that TFX "
                "infers: int64, float64, or text for any other cell."
            )
            yield Problem((*place, "types"), message)
        elif field.name in digits:
            message = (
                f"column '{field.name}' is text, but the sample has only numbers, which TFX would "
                "read as such. Declare int64 or float64, or text if other cells come later."
            )
            yield Problem((*place, "types"), message)


def _columns_of_numbers(base: SourcePlan) -> set[str]:
    """Returns inferred columns of text that TFX takes for numbers."""
    first = base.ranges[0]
    states = RowPositions(base).quote_states(first)
    chunk = next(read_range(base, first, states, reject=True))
    found = set()
    for field in base.schema:
        if pa.types.is_string(field.type) and field.name not in base.source.types:
            cells = chunk.batch.column(field.name).drop_null().unique().to_pylist()
            if cells and all(map(_is_number, cells)):
                found.add(field.name)
    return found


def _is_number(cell: str) -> bool:
    with contextlib.suppress(ValueError):
        return -(1 << 63) <= int(cell) < 1 << 63
    with contextlib.suppress(ValueError):
        float(cell)
        return True
    return False


def _examples(cells: list[pa.Array], key: SplitKey) -> Iterator[bytes]:
    """Yields the tf.Examples of rows, as protobuf's deterministic mode writes them."""
    features = dict(zip(key.features, cells, strict=True))
    names = [name for name in key.features if name not in key.empty]
    columns = [_values(features[name]) for name in names]
    examples = _serialized(pa.RecordBatch.from_arrays(columns, names)) if names else []
    examples = examples or [b""] * len(cells[0])
    behind = _without_kind(key.empty)
    if not behind and not _has_prefix(key.features):
        yield from examples
        return
    yield from deterministic(example + behind for example in examples)


def _serialized(batch: pa.RecordBatch) -> list[bytes]:
    made: list[bytes] = _native.serialize(batch, framed=False).to_pylist()
    return made


def _values(column: pa.Array) -> pa.Array:
    """Returns a column with empty lists for nulls, floats as float32."""
    if pa.types.is_floating(column.type):
        column = pc.cast(column, pa.float32(), safe=False)
    if not column.null_count:
        return column
    ends = np.cumsum(column.is_valid().to_numpy(zero_copy_only=False), dtype=np.int32)
    offsets = pa.array(np.concatenate([np.zeros(1, np.int32), ends]))
    return pa.ListArray.from_arrays(offsets, column.drop_null())


def _without_kind(names: Collection[str]) -> bytes:
    """Returns features without a kind; appended to a tf.Example, it has them."""
    if not names:
        return b""
    keys = (_field(_VALUE, name.encode()) + b"\x12\x00" for name in names)
    return _field(b"\x0a", b"".join(_field(b"\x0a", key) for key in keys))


def _has_prefix(names: Collection[str]) -> bool:
    """Whether one name begins with another: protobuf's runtimes order such names differently."""
    ordered = sorted(name.encode() for name in names)
    return any(after.startswith(before) for before, after in itertools.pairwise(ordered))


def feature_digests(column: pa.Array, where: str, is_csv: bool) -> pa.Array:
    """Returns the SHA-256 of each value as a Feature: TFX's ``partition_feature_name``.

    Args:
      column: int64, string or binary.
      where: file and column, for messages.
      is_csv: whether a null is a feature without values, as CsvExampleGen writes it.

    Raises:
      DataError: a null, unless ``is_csv``.
    """
    if column.null_count and not is_csv:
        raise DataError(
            f"{where}: found {column.null_count} rows without a value in a chunk, expected "
            "one in each: TFX cannot split by such rows. Leave them out with 'filter:'."
        )
    kinds = column.dictionary_encode(null_encoding="encode")
    tag = _INT64_LIST if pa.types.is_integer(column.type) else _BYTES_LIST
    digests = hashing.sha256_digests(_feature(tag, value) for value in kinds.dictionary.to_pylist())
    return digests.take(kinds.indices)


def _feature(tag: bytes, value: int | str | bytes | None) -> bytes:
    if value is None:
        return tag + b"\x00"
    if isinstance(value, int):
        value = varint(value & (1 << 64) - 1)
    return _field(tag, _field(_VALUE, value.encode() if isinstance(value, str) else value))


def _field(tag: bytes, content: bytes) -> bytes:
    return tag + varint(len(content)) + content


def assign_buckets(digests: pa.Array, ends: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Assigns each key to a split, as TFX does.

    Args:
      digests: binary, SHA-256 of each row.
      ends: for each split the sum of its buckets and of those before it.

    Returns:
      uint8[rows], the numbers of splits.
    """
    fixed = digests.cast(pa.binary(32))
    words = np.frombuffer(fixed.buffers()[1], ">u4", 8 * len(fixed), 32 * fixed.offset)
    rest = np.zeros(len(fixed), np.uint64)
    for word in words.reshape(-1, 8).T.astype(np.uint64):
        rest = ((rest << np.uint64(32)) | word) % np.uint64(ends[-1])
    return np.searchsorted(np.array(ends, np.uint64), rest, side="right").astype(np.uint8)
