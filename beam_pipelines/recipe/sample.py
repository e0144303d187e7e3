"""The recipe's key for rows that are sampled by class."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from beam_pipelines.recipe import values
from beam_pipelines.recipe.keys import recipe_key, section

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
    rates: Mapping[str, float] = recipe_key(
        values.ValueReader(_read_rates, _of_classes(_read_rate.schema)),
        {},
        "none",
        "Class: rows that each of its rows becomes on average. Other classes stay.",
    )
    weight: str | None = recipe_key(
        values.read_text, None, "none", "New column: rows of its class that each row stands for."
    )
    splits: tuple[str, ...] = recipe_key(
        values.read_texts, (), "`train`, or else the first split", "Splits whose rows are sampled."
    )
    seed: int = recipe_key(
        values.read_integer(0, (1 << 63) - 1), 0, "0", "Another seed, other rows."
    )

    def without_sampling(self) -> Sample | None:
        """Returns what data that are not sampled keep: the column of weights."""
        return None if self.weight is None else dataclasses.replace(self, rates={})


def _check(value: values.Value, _: Sample) -> None:
    if "rates" not in value.keys:
        value.wrong("found no 'rates', expected some, as {rates: {0: 0.1, 1: 3}}.")


read_sample = section(Sample, "a mapping such as {rates: {0: 0.1}, weight: sample_weight}", _check)
