"""The recipe's key for columns whose values are protected."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from beam_pipelines.recipe import values
from beam_pipelines.recipe.keys import check_known
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
      bits: of ``keyed_hash``: 64 or 128.
      fingerprint: of the key, which planning puts here.
    """

    kind: str
    key: str = ""
    bits: int = 128
    fingerprint: str = ""


def _read_key(value: values.Value) -> str:
    text = values.read_text(value) or ""
    if text == ENVIRONMENT:
        value.expected("env: and the name of an environment variable, or the path of a file")
    return text


def _read_hash(value: values.Value) -> Protection:
    if not isinstance(value.tree, dict):
        return Protection(KEYED_HASH, _read_key(value))
    given = dict(value.items())
    check_known(given, ["key", "bits"])
    if "key" not in given:
        value.wrong("found no 'key', expected one, for example 'key: env:HASH_KEY'.")
    key = _read_key(given["key"]) if "key" in given else ""
    bits = values.read_choice(("64", "128"))(given["bits"]) if "bits" in given else "128"
    return Protection(KEYED_HASH, key, int(bits or 128))


def _read_one(value: values.Value) -> Protection:
    if isinstance(value.tree, dict) and [*value.tree] == [KEYED_HASH]:
        ((_, item),) = value.items()
        return _read_hash(item)
    if not isinstance(value.tree, Scalar) or value.tree.text != DROP:
        value.expected(_EXAMPLE)
    return Protection(DROP)


def _read(value: values.Value) -> Mapping[str, Protection] | None:
    return values.read_entries(value, _read_one, f"'column: protection' a line; {_EXAMPLE}")


def _mapping(**items: Any) -> dict[str, Any]:
    return {"type": "object", "properties": items, "additionalProperties": False}


_HASH = _mapping(key=values.read_text.schema, bits={"enum": [64, 128]})
_ONE = _mapping(keyed_hash={"anyOf": [{"type": "string"}, _HASH]})
read_protect: values.ValueReader[Mapping[str, Protection]] = values.ValueReader(
    _read,
    {
        "type": "object",
        "additionalProperties": {"anyOf": [{"enum": [DROP]}, _ONE]},
        "minProperties": 1,
    },
)
