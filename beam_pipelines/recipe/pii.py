"""The recipe's key for personal data."""

from __future__ import annotations

import dataclasses
from typing import Literal

from beam_pipelines.recipe.keys import recipe_key, section
from beam_pipelines.recipe.values import Reader, Value, read_choice, read_texts
from beam_pipelines.recipe.yaml import Scalar

_read_action = read_choice(("warn", "error"))


@dataclasses.dataclass(frozen=True)
class Pii:
    """The action for columns with personal data."""

    action: Literal["warn", "error"] = recipe_key(
        _read_action, "warn", "`warn`", "Whether a column with personal data stops the run."
    )
    allow: tuple[str, ...] = recipe_key(
        read_texts, (), "none", "Columns that may have personal data."
    )


_read_mapping = section(Pii, "warn, error, or a mapping such as {action: error, allow: [email]}")


def _read(value: Value) -> Pii | None:
    if isinstance(value.tree, Scalar):
        action = _read_action(value)
        return None if action is None else Pii(action)
    return _read_mapping(value)


read_pii: Reader[Pii] = Reader(_read, {"anyOf": [_read_action.schema, _read_mapping.schema]})
