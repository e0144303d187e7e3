"""The recipe's key for nulls inside lists."""

from __future__ import annotations

from beam_pipelines.recipe.text.yaml import Scalar
from beam_pipelines.recipe.values import TEXT, Value, reader

DROP, FILL = "drop", "fill"
_EXPECTED = "'drop', or a mapping with a value, as {fill: 0}"
_CHOICE = {
    "anyOf": [
        {"enum": [DROP]},
        {
            "type": "object",
            "properties": {FILL: TEXT},
            "required": [FILL],
            "additionalProperties": False,
        },
    ]
}


@reader(type="object", additionalProperties=_CHOICE, minProperties=1)
def read_list_nulls(value: Value) -> dict[str, tuple[str, ...]] | None:
    """Column -> ``("drop",)`` or ``("fill", VALUE)``."""
    if not value.keys:
        value.expected("a mapping, as {tags: drop, scores: {fill: 0}}")
        return None
    read = {column: _choice(item) for column, item in value.items()}
    return {column: choice for column, choice in read.items() if choice is not None}


def _choice(value: Value) -> tuple[str, ...] | None:
    tree = value.tree
    if isinstance(tree, dict) and value.keys == {FILL}:
        filled = tree[FILL]
        if isinstance(filled, Scalar):
            return (FILL, filled.text)
    elif isinstance(tree, Scalar) and tree.text == DROP:
        return (DROP,)
    value.expected(_EXPECTED)
    return None
