"""The recipe's key for rows that are sampled by class."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from beam_pipelines.recipe.keys import recipe_key, section
from beam_pipelines.recipe.values import (
    Reader,
    Value,
    read_flag,
    read_integer,
    read_share,
    read_text,
    read_texts,
)

MOST_COPIES = 1_000
_read_rate = read_share(
    f"a number above 0 and up to {MOST_COPIES:,}, as 0.1 or 3; 'filter' leaves out whole classes",
    lambda rate: 0 < rate <= MOST_COPIES,
)
_read_rows = read_integer(1)
_read_part = read_share("a share above 0 and below 1, as 0.7 or 70%", lambda share: 0 < share < 1)


def _read_rates(value: Value) -> dict[str, float] | None:
    if not isinstance(value.tree, dict) or not value.tree:
        value.expected("a mapping, one 'class: rate' a line, as {0: 0.1, 1: 3}")
        return None
    return {name: rate for name, item in value.items() if (rate := _read_rate(item)) is not None}


def _read_mix(value: Value) -> dict[str, float] | None:
    if not isinstance(value.tree, dict) or len(value.tree) < 2:
        value.expected("a mapping of two classes or more, as {web: 0.7, app: 0.3}")
        return None
    shares = {name: share for name, item in value.items() if (share := _read_part(item))}
    total = math.fsum(shares.values())
    if len(shares) == len(value.tree) and abs(total - 1) > 1e-9:
        value.wrong(f"found shares that add up to {total:.10g}, expected 1.")
    return shares


def _read_limit(value: Value) -> Mapping[str, int] | int | None:
    if not isinstance(value.tree, dict) or not value.tree:
        return _read_rows(value)
    return {name: rows for name, item in value.items() if (rows := _read_rows(item)) is not None}


def _of_classes(items: Mapping[str, object]) -> dict[str, object]:
    return {"type": "object", "additionalProperties": items, "minProperties": 1}


@dataclasses.dataclass(frozen=True)
class Sample:
    """How many rows of each class a split keeps.

    Attributes:
      by: the column of the classes; ``None``: the label.
      rates: class -> rows that each of its rows becomes on average.
      limit: most rows of every class, or class -> most rows.
      mix: class -> share of the rows that are written.
      repeat: with ``mix``: whether rows are repeated, so that none is left out.
      splits: none: ``train``, or else the first split.
    """

    by: str | None = recipe_key(read_text, None, "the `label`", "Column of the classes.")
    rates: Mapping[str, float] = recipe_key(
        Reader(_read_rates, _of_classes(_read_rate.schema)),
        {},
        "none",
        "Class: rows that each of its rows becomes on average. Other classes stay.",
    )
    limit: Mapping[str, int] | int | None = recipe_key(
        Reader(_read_limit, {"anyOf": [dict(_read_rows.schema), _of_classes(_read_rows.schema)]}),
        None,
        "none",
        "Most rows of each class in a split, or of some classes.",
    )
    mix: Mapping[str, float] = recipe_key(
        Reader(_read_mix, _of_classes(_read_part.schema)),
        {},
        "none",
        "Class: share of the rows that are written; as many as possible are.",
    )
    repeat: bool = recipe_key(
        read_flag, False, "false", "With `mix`: repeats rows, so that none is left out."
    )
    weight: str | None = recipe_key(
        read_text, None, "none", "New column: rows of its class that each row stands for."
    )
    splits: tuple[str, ...] = recipe_key(
        read_texts, (), "`train`, or else the first split", "Splits whose rows are sampled."
    )
    seed: int = recipe_key(read_integer(0, (1 << 63) - 1), 0, "0", "Another seed, other rows.")

    def without_sampling(self) -> Sample | None:
        """Returns what data that are not sampled keep: the column of weights."""
        return (
            None
            if self.weight is None
            else dataclasses.replace(self, rates={}, limit=None, mix={}, repeat=False)
        )


def _check(value: Value, sample: Sample) -> None:
    given = [key for key in ("rates", "limit", "mix") if key in value.keys]
    if len(given) != 1:
        found = " and ".join(f"'{key}'" for key in given) or "none of 'rates', 'limit' and 'mix'"
        value.wrong(f"found {found}, expected one of 'rates', 'limit' and 'mix'.")
    if sample.repeat and not sample.mix:
        value.wrong("found it without 'mix': a rate above 1 repeats the rows of a class.", "repeat")


read_sample = section(Sample, "a mapping such as {rates: {0: 0.1}, weight: sample_weight}", _check)
