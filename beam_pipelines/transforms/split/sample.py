"""Classes of rows, and samples by class."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.core.arrow.hashing import GOLDEN, mix, mix_int
from beam_pipelines.core.arrow.python_values import python_values
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import DataError, Problem, missing_column
from beam_pipelines.core.formatting import shorten
from beam_pipelines.recipe.sections import Sample

# Their counts and names are one element, of at most 1 MiB.
MOST_CLASSES = 4096
_CLASS_SEED = 0x636C617373  # "class"
_SHOWN_CHARACTERS = 60


@dataclasses.dataclass(frozen=True)
class Coded:
    """The classes of the rows of a batch.

    Attributes:
      codes: int64[rows], the number of each row's class in the batch.
      classes: uint64[classes], the hash of each class, the same in all batches.
      firsts: int64[classes], a row of each.
    """

    codes: npt.NDArray[np.int64]
    classes: npt.NDArray[np.uint64]
    firsts: npt.NDArray[np.int64]

    @property
    def of_rows(self) -> npt.NDArray[np.uint64]:
        """The class of each row, uint64[rows]."""
        return self.classes[self.codes]


def code_classes(batch: pa.RecordBatch, columns: tuple[str, ...], key: str) -> Coded:
    """Finds the classes of a batch.

    Args:
      batch: rows.
      columns: one or more; a null is a value.
      key: of the recipe, for messages.

    Raises:
      DataError: there are too many classes.
    """
    hashes = _native.hash_rows([batch.column(name) for name in columns], _CLASS_SEED)
    coded = pa.array(hashes).dictionary_encode()
    codes = coded.indices.to_numpy().astype(np.int64)
    classes: npt.NDArray[np.uint64] = coded.dictionary.to_numpy()
    _check_number(len(classes), key)
    firsts = np.empty(len(classes), np.int64)
    firsts[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return Coded(codes, classes, firsts)


def name_classes(batch: pa.RecordBatch, columns: tuple[str, ...], coded: Coded) -> dict[int, str]:
    """Returns class -> its values, as text."""
    rows = batch.select(list(columns)).take(pa.array(coded.firsts))
    values = zip(*(python_values(rows.column(name)) for name in columns), strict=True)
    shown = (", ".join(map(show_value, of_class)) for of_class in values)
    return dict(zip(coded.classes.tolist(), shown, strict=True))


def show_value(value: Any) -> str:
    """Returns a value of a class as a recipe writes it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return shorten(text, _SHOWN_CHARACTERS)


def merge_names(named: Iterable[Mapping[int, str]], key: str) -> dict[int, str]:
    """Returns the names of all classes.

    Raises:
      DataError: there are too many.
    """
    merged: dict[int, str] = {}
    for names in named:
        merged.update(names)
        _check_number(len(merged), key)
    return merged


def _check_number(classes: int, key: str) -> None:
    if classes > MOST_CLASSES:
        raise DataError(
            f"{key}: found more than {MOST_CLASSES:,} classes, expected at most as many. Name "
            "columns with fewer values, or make some with 'derive'."
        )


# Another stream of numbers than those of splits, shuffle and statistics.
_SEED = 0x736D706C  # "smpl"
SAMPLE = "sample.by"


@dataclasses.dataclass(frozen=True)
class SamplePlan:
    """A sampling that is ready to run.

    Attributes:
      column: of the classes.
      splits: numbers of the splits that are sampled.
      names: of the classes that the recipe names.
      classes: the hash of each of them.
      rates: of each of them; empty: all rows stay.
      weight: column of the weights, or ``None``.
      seed: of the recipe.
    """

    column: str
    splits: tuple[int, ...]
    names: tuple[str, ...] = ()
    classes: tuple[int, ...] = ()
    rates: tuple[float, ...] = ()
    weight: str | None = None
    seed: int = 0

    def keys_of(self, address: tuple[int, int], rows: int) -> npt.NDArray[np.uint64]:
        """Returns the hash of each row's address."""
        seed = _SEED
        for number in (self.seed, *address):
            seed = mix_int(seed + GOLDEN + number)
        return mix(np.arange(rows, dtype=np.uint64) * np.uint64(GOLDEN) + np.uint64(seed))


@dataclasses.dataclass(frozen=True)
class Sampled:
    """What becomes of the rows of a chunk.

    Attributes:
      copies: int64[rows], how often each is written.
      weights: float32[rows].
      counts: ``sampled_out/<split>`` and ``repeated/<split>``, and of classes with a rate
        ``class_found/<number>`` and ``class_kept/<number>``.
    """

    copies: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float32]
    counts: Mapping[str, int]


def plan_sample(
    sample: Sample | None,
    label: str | None,
    splits: tuple[str, ...],
    schema: pa.Schema,
    problems: list[Problem],
) -> SamplePlan | None:
    """Plans the sampling of rows with some columns; ``None`` without one.

    Args:
      sample: of the recipe.
      label: of the recipe: the column of the classes, if the sample names none.
      splits: their names.
      schema: columns of the rows.
      problems: gets columns, classes and splits that cannot be sampled.
    """
    if sample is None:
        return None
    column = sample.by or label
    found = list(_problems(sample, column, splits, schema))
    problems += found
    if found:
        return None
    wanted = sample.splits or (("train",) if "train" in splits else splits[:1])
    plan = SamplePlan(
        column or "",
        tuple(splits.index(name) for name in wanted),
        weight=sample.weight,
        seed=sample.seed,
    )
    names = tuple(sample.rates)
    classes = _hash_classes(plan.column, names, schema, problems)
    return dataclasses.replace(
        plan, names=names, classes=classes, rates=tuple(sample.rates.values())
    )


def _problems(
    sample: Sample, column: str | None, splits: tuple[str, ...], schema: pa.Schema
) -> Iterator[Problem]:
    place = ("sample", "by") if sample.by else ("sample",)
    if column is None:
        yield Problem(place, "found no 'by' and no 'label', expected the column of the classes.")
    elif column not in schema.names:
        yield Problem(place, missing_column(column, schema.names))
    elif pa.types.is_list(schema.field(column).type):
        kind = type_name(schema.field(column).type)
        yield Problem(place, f"column '{column}' is {kind}, expected one value in a row.")
    if sample.weight in schema.names:
        message = f"found '{sample.weight}', but the rows have this column. Choose a new name."
        yield Problem(("sample", "weight"), message)
    for index, name in enumerate(sample.splits):
        if name not in splits:
            known = ", ".join(splits)
            message = f"found the split '{name}', expected {known}."
            yield Problem(("sample", "splits", index), message)


def _hash_classes(
    column: str, names: tuple[str, ...], schema: pa.Schema, problems: list[Problem]
) -> tuple[int, ...]:
    """Returns the hash of each class that the recipe names."""
    kind, key = schema.field(column).type, ("sample",)
    found: dict[int, str] = {}
    for name in names:
        try:
            text = pa.array([None if name == "null" else name], pa.string())
            batch = pa.record_batch([text.cast(kind)], [column])
        except (pa.ArrowException, ValueError):
            message = f"found the class '{name}', expected values of column '{column}': "
            problems.append(Problem(key, f"{message}{type_name(kind)}."))
            continue
        (number,) = code_classes(batch, (column,), SAMPLE).classes.tolist()
        if number in found:
            message = f"found the class '{found[number]}' again as '{name}', expected it once."
            problems.append(Problem(key, message))
        found[number] = name
    return tuple(found)


def check_named(sample: SamplePlan, found: set[str]) -> None:
    """Raises ``DataError`` if a class that the recipe names does not occur.

    Args:
      sample: its plan.
      found: named classes that occur, by name.
    """
    missing = [name for name in sample.names if name not in found]
    if missing:
        raise DataError(
            f"sample: found no row of class {', '.join(missing)} in column '{sample.column}' of "
            "the splits that are sampled, expected some; nothing was written. Mend the class, or "
            "leave it out of the recipe."
        )


def sample_rows(
    plan: SamplePlan, chunk: Chunk, assignment: npt.NDArray[np.uint8], names: tuple[str, ...]
) -> Sampled:
    """Chooses the rows of a chunk.

    Args:
      plan: of the sampling.
      chunk: before its rows are divided.
      assignment: split of each row.
      names: of the splits.
    """
    rows = chunk.batch.num_rows
    copies, weights = np.ones(rows, np.int64), np.ones(rows, np.float32)
    is_sampled = np.isin(assignment, plan.splits)
    counts: dict[str, int] = {}
    if plan.rates:
        coded = code_classes(chunk.batch, (plan.column,), SAMPLE)
        copies, weights = _by_rates(plan, chunk, coded, is_sampled)
        counts = _count_named(plan, coded, copies, is_sampled)
    for number in plan.splits:
        own_copies = copies[assignment == number]
        counts[f"sampled_out/{names[number]}"] = int((own_copies == 0).sum())
        counts[f"repeated/{names[number]}"] = int(np.maximum(own_copies - 1, 0).sum())
    return Sampled(copies, weights, counts)


def _by_rates(
    plan: SamplePlan, chunk: Chunk, coded: Coded, is_sampled: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    known = dict(zip(plan.classes, plan.rates, strict=True))
    of_class = np.array([known.get(number, 1.0) for number in coded.classes.tolist()])
    rates = np.where(is_sampled, of_class[coded.codes], 1.0) if len(of_class) else np.empty(0)
    whole = np.floor(rates)
    # 53 bits, which a float64 holds exactly.
    places = (plan.keys_of(chunk[:2], len(rates)) >> np.uint64(11)) / float(1 << 53)
    copies = whole.astype(np.int64) + (places < rates - whole)
    return copies, (1 / rates).astype(np.float32)


def _count_named(
    plan: SamplePlan, coded: Coded, copies: npt.NDArray[np.int64], is_sampled: npt.NDArray[np.bool_]
) -> dict[str, int]:
    """Returns the rows of each named class before and after."""
    counts: dict[str, int] = {}
    found = np.bincount(coded.codes[is_sampled], minlength=len(coded.classes)).tolist()
    kept = np.zeros(len(coded.classes), np.int64)
    np.add.at(kept, coded.codes[is_sampled], copies[is_sampled])
    for number, before, after in zip(coded.classes.tolist(), found, kept.tolist(), strict=True):
        if number in plan.classes and before:
            index = plan.classes.index(number)
            counts[f"class_found/{index}"] = before
            counts[f"class_kept/{index}"] = after
    return counts


def with_weights(
    batch: pa.RecordBatch, sampled: Sampled, rows: npt.NDArray[Any], weight: str | None
) -> pa.RecordBatch:
    """Returns rows with the column of their weights.

    Args:
      batch: the chosen rows.
      sampled: of the chunk.
      rows: numbers of the rows in the chunk.
      weight: name of the column; ``None``: no column.
    """
    if weight is None:
        return batch
    weights = pa.array(sampled.weights[rows])
    return batch.append_column(weight, weights)
