"""Small sections of a recipe: statistics, sample, sequences, bad rows, fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from beam_pipelines.recipe import values
from beam_pipelines.recipe.keys import plain_key, recipe_key, section


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Statistics beyond those of all rows."""

    weight: str | None = plain_key(values.read_text, None, "Column with the weight of each row.")
    slice_by: tuple[str, ...] = plain_key(
        values.read_texts, (), "Columns, each of whose values gets statistics of its own."
    )


MOST_COPIES = 1_000
_read_rate = values.read_share(
    f"a number above 0 and up to {MOST_COPIES:,}, as 0.1 or 3; 'filter' leaves out whole classes",
    lambda rate: 0 < rate <= MOST_COPIES,
)


def _read_rates(value: values.Value) -> dict[str, float] | None:
    return values.read_entries(value, _read_rate, "'class: rate' a line, as {0: 0.1, 1: 3}")


def _of_classes(items: Mapping[str, object]) -> dict[str, object]:
    return {"type": "object", "additionalProperties": items, "minProperties": 1}


@dataclasses.dataclass(frozen=True)
class Sample:
    """How many rows of each class a split keeps.

    Attributes:
      by: the column of the classes; ``None``: the label.
      rates: class -> rows that each of its rows becomes on average.
      splits: none: ``train``, or else the first split.
    """

    by: str | None = recipe_key(values.read_text, None, "the `label`", "Column of the classes.")
    rates: Mapping[str, float] = plain_key(
        values.ValueReader(_read_rates, _of_classes(_read_rate.schema)),
        {},
        "Class: rows that each of its rows becomes on average. Other classes stay.",
    )
    weight: str | None = plain_key(
        values.read_text, None, "New column: rows of its class that each row stands for."
    )
    splits: tuple[str, ...] = recipe_key(
        values.read_texts, (), "`train`, or else the first split", "Splits whose rows are sampled."
    )
    seed: int = plain_key(values.read_integer(0, (1 << 63) - 1), 0, "Another seed, other rows.")

    def without_sampling(self) -> Sample | None:
        """Returns what data that are not sampled keep: the column of weights."""
        return None if self.weight is None else dataclasses.replace(self, rates={})


def _check(value: values.Value, _: Sample) -> None:
    if "rates" not in value.keys:
        value.wrong("found no 'rates', expected some, as {rates: {0: 0.1, 1: 3}}.")


read_sample = section(Sample, "a mapping such as {rates: {0: 0.1}, weight: sample_weight}", _check)


@dataclasses.dataclass(frozen=True)
class Sequences:
    """How records become tf.SequenceExamples: by ``features``, ``group_by`` or both."""

    features: tuple[str, ...] = recipe_key(
        values.read_texts,
        (),
        "every list that `group_by` made and that is still a list after `encode`",
        "Features that are feature lists, with one step for each value.",
    )
    group_by: tuple[str, ...] = recipe_key(
        values.read_texts,
        (),
        "rows stay as they are",
        "Key columns: the selected rows that share a key become one row.",
    )
    order_by: tuple[str, ...] = recipe_key(
        values.read_texts,
        (),
        "the source's order",
        "Columns that order the rows of a key; ties keep the source's order.",
    )
    context: tuple[str, ...] = recipe_key(
        values.read_texts,
        (),
        "the key columns",
        "Columns with one value for all rows of a key. The others become lists.",
    )
    max_length: int | None = recipe_key(
        values.read_integer(1),
        None,
        "no limit",
        "Most rows of a sequence; more make several, one after the other.",
    )


def check_sequence(value: values.Value, _: object) -> None:
    """Notes keys of groups without ``group_by``."""
    if isinstance(value.tree, dict) and not value.keys & {"features", "group_by"}:
        value.wrong("found neither 'features' nor 'group_by', expected at least one of them.")
    for key in ("order_by", "context", "max_length"):
        if key in value.keys and "group_by" not in value.keys:
            value.wrong(
                f"found '{key}' without 'group_by', expected the key columns whose rows make a "
                "sequence.",
                key,
            )


@dataclasses.dataclass(frozen=True)
class OnError:
    """The number of bad rows that a run allows."""

    reject: int | float = plain_key(
        values.read_budget,
        0,
        "Most rows of a source that may be rejected: a number, or a share below 1.",
    )


@dataclasses.dataclass(frozen=True)
class Fit:
    """The rows that encodings are fitted on."""

    splits: tuple[str, ...] = recipe_key(
        values.read_texts,
        (),
        "`train`, or else the first split",
        "Splits whose rows are fitted on.",
    )
