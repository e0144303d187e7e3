"""The recipe's key for rows that occur twice."""

# ruff: noqa: RUF009 (recipe_key returns dataclass fields)

from __future__ import annotations

import dataclasses
from typing import Literal

from beam_pipelines.recipe.keys import recipe_key, section
from beam_pipelines.recipe.near import Near, read_near
from beam_pipelines.recipe.values import Value, read_choice, read_texts, reader
from beam_pipelines.recipe.yaml import Scalar

ROWS = "rows"


@reader(**read_texts.schema)
def _read_by(value: Value) -> tuple[str, ...] | None:
    """The columns to compare; none: whole rows."""
    if isinstance(value.tree, Scalar) and value.tree.text == ROWS:
        return ()
    return read_texts(value)


@dataclasses.dataclass(frozen=True)
class Duplicates:
    """The action for rows with the values of an earlier row.

    Attributes:
      by: columns to compare; empty: all that are written.
      near: the column whose similar values are duplicates, in place of equal ones, or ``None``.
    """

    by: tuple[str, ...] = recipe_key(
        _read_by, (), "`rows`", "Whole rows, or the columns whose values are compared."
    )
    near: Near | None = recipe_key(
        read_near, None, "none", "A column whose similar values are duplicates, not equal rows."
    )
    action: Literal["warn", "drop", "error"] = recipe_key(
        read_choice(("warn", "drop", "error")),
        "warn",
        "`warn`",
        "Whether later ones are a warning, are left out, or stop the run.",
    )

    @property
    def drops(self) -> bool:
        """Whether later rows are left out."""
        return self.action == "drop"


def _check(value: Value, _: Duplicates) -> None:
    """Notes ``by`` with ``near``."""
    if {"by", "near"} <= value.keys:
        value.wrong("found both 'by' and 'near', expected one of them.", "near")


read_duplicates = section(Duplicates, "a mapping such as {by: rows, action: drop}", _check)
