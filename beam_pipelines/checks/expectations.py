"""The expectations of a recipe: conditions that its rows have to meet."""

from __future__ import annotations

import dataclasses
from typing import Literal

from beam_pipelines.recipe import values
from beam_pipelines.recipe.keys import json_schema, needed_key, read_keys, recipe_key


@dataclasses.dataclass(frozen=True)
class Expectation:
    """A condition on each row, or on whole columns: one of both."""

    name: str = needed_key(values.read_name, "Name of the expectation.", "short_hops")
    row: str | None = recipe_key(
        values.read_text,
        None,
        "none",
        "SQL condition of one row; a row for which it is false fails.",
    )
    column: str | None = recipe_key(
        values.read_text, None, "none", "SQL condition of aggregates of columns, over all rows."
    )
    severity: Literal["error", "warn"] = recipe_key(
        values.read_choice(("error", "warn")),
        "error",
        "`error`",
        "Whether a failed expectation stops the run or is a warning.",
    )
    budget: int | float = recipe_key(
        values.read_budget,
        0,
        "0",
        "With row: most rows that may fail, a number or a share below 1.",
    )

    @property
    def sql(self) -> str:
        """The condition."""
        return self.row or self.column or ""


def _read(value: values.Value) -> tuple[Expectation, ...] | None:
    if not isinstance(value.tree, list):
        value.expected("a list, one '- {name: …, row: …}' a line")
        return None
    found = [_read_one(value.at(index, tree)) for index, tree in enumerate(value.tree)]
    seen: dict[str, int] = {}
    for index, expectation in enumerate(found):
        first = seen.setdefault(expectation.name, index)
        if expectation.name and first != index:
            value.wrong(
                f"found '{expectation.name}' as in expect[{first}], expected another name.",
                index,
                "name",
            )
    return tuple(found)


def _read_one(value: values.Value) -> Expectation:
    found = read_keys(Expectation, value, "a mapping such as {name: far, row: distance > 0}")
    given = {"row", "column"} & value.keys
    if isinstance(value.tree, dict) and len(given) != 1:
        value.wrong(
            f"found {'both' if given else 'neither'} 'row' and 'column', expected one of them: "
            "'row: distance > 0' or 'column: avg(late) < 0.4'."
        )
    elif "column" in given and "budget" in value.keys:
        value.wrong("found it with 'column', expected it with 'row' only.", "budget")
    return Expectation(**{"name": "", **found})


read_expectations: values.ValueReader[tuple[Expectation, ...]] = values.ValueReader(
    _read, {"type": "array", "items": json_schema(Expectation)}
)
