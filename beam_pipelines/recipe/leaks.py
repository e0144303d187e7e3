"""The recipe's key for leaks between splits and from the label."""

# ruff: noqa: RUF009 (recipe_key returns dataclass fields)
from __future__ import annotations

import dataclasses
from typing import Literal

from beam_pipelines.recipe.keys import recipe_key, section
from beam_pipelines.recipe.near import Near, read_near
from beam_pipelines.recipe.values import (
    Reader,
    Value,
    read_choice,
    read_share,
    read_text,
    read_texts,
)
from beam_pipelines.recipe.yaml import Scalar

_read_action = read_choice(("warn", "error"))
_read_bound = read_share(
    "a number above 0.5 and at most 1, as 0.99", lambda bound: 0.5 < bound <= 1
)


@dataclasses.dataclass(frozen=True)
class Leaks:
    """The action for leaks between splits and from the label.

    Attributes:
      near: a column; rows of a split may not be similar to one of another.
      time: a column; rows of a split may not be later than the first row of one below it.
      bound: least AUC, or share of the label's information, at which one feature tells the label.
    """

    action: Literal["warn", "error"] = recipe_key(
        _read_action, "warn", "`warn`", "Whether a leak is a warning or stops the run."
    )
    entity: tuple[str, ...] = recipe_key(
        read_texts, (), "none", "Columns whose combined value may be in one split only."
    )
    near: Near | None = recipe_key(
        read_near, None, "none", "A column whose similar values may be in one split only."
    )
    time: str | None = recipe_key(
        read_text, None, "none", "Column of times that may not overlap between splits."
    )
    bound: float = recipe_key(
        _read_bound, 0.99, "0.99", "AUC or share of information at which a feature is a leak."
    )


_read_mapping = section(Leaks, "warn, error, or a mapping such as {entity: user, action: error}")


def _read(value: Value) -> Leaks | None:
    if isinstance(value.tree, Scalar):
        action = _read_action(value)
        return None if action is None else Leaks(action)
    return _read_mapping(value)


read_leaks: Reader[Leaks] = Reader(_read, {"anyOf": [_read_action.schema, _read_mapping.schema]})
