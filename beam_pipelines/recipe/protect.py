"""The recipe's key for columns whose values are protected."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from beam_pipelines.recipe import values
from beam_pipelines.recipe.text.yaml import Scalar

KEYED_HASH, DROP = "keyed_hash", "drop"
# A key that is in an environment variable.
ENVIRONMENT = "env:"
_EXAMPLE = "drop or {keyed_hash: env:NAME}"


@dataclasses.dataclass(frozen=True)
class Protection:
    """What becomes of the values of a column.

    Attributes:
      kind: ``keyed_hash`` or ``drop``.
      key: of ``keyed_hash``: ``env:`` and a variable's name, or a path. Not the key itself.
      fingerprint: of the key, which planning puts here.
    """

    kind: str
    key: str = ""
    fingerprint: str = ""


def _read_key(value: values.Value) -> str:
    text = values.read_text(value) or ""
    if text == ENVIRONMENT:
        value.expected("env: and the name of an environment variable, or the path of a file")
    return text


def _read_one(value: values.Value) -> Protection:
    if isinstance(value.tree, dict) and [*value.tree] == [KEYED_HASH]:
        ((_, item),) = value.items()
        return Protection(KEYED_HASH, _read_key(item))
    if not isinstance(value.tree, Scalar) or value.tree.text != DROP:
        value.expected(_EXAMPLE)
    return Protection(DROP)


def _read(value: values.Value) -> Mapping[str, Protection] | None:
    return values.read_entries(value, _read_one, f"'column: protection' a line; {_EXAMPLE}")


_HASHED = {
    "type": "object",
    "properties": {KEYED_HASH: {"type": "string"}},
    "additionalProperties": False,
}
read_protect: values.ValueReader[Mapping[str, Protection]] = values.ValueReader(
    _read,
    {
        "type": "object",
        "additionalProperties": {"anyOf": [{"enum": [DROP]}, _HASHED]},
        "minProperties": 1,
    },
)
