"""The recipe's key for rows of several splits."""

from __future__ import annotations

import dataclasses
from typing import Literal

from beam_pipelines.recipe.keys import recipe_key, section
from beam_pipelines.recipe.values import (
    Reader,
    Value,
    read_choice,
    read_text,
    read_texts,
)
from beam_pipelines.recipe.yaml import Scalar

_read_action = read_choice(("warn", "error"))


@dataclasses.dataclass(frozen=True)
class Leaks:
    """The action for rows of one split that are also in another."""

    action: Literal["warn", "error"] = recipe_key(
        _read_action, "warn", "`warn`", "Whether a leak is a warning or stops the run."
    )
    entity: tuple[str, ...] = recipe_key(
        read_texts, (), "none", "Columns whose combined value may be in one split only."
    )
    time: str | None = recipe_key(
        read_text, None, "none", "Column of times that may not overlap between splits."
    )


_read_mapping = section(Leaks, "warn, error, or a mapping such as {entity: user, action: error}")


def _read(value: Value) -> Leaks | None:
    if isinstance(value.tree, Scalar):
        action = _read_action(value)
        return None if action is None else Leaks(action)
    return _read_mapping(value)


read_leaks: Reader[Leaks] = Reader(_read, {"anyOf": [_read_action.schema, _read_mapping.schema]})
