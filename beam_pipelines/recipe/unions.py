"""The keys of a source that is the rows of other sources."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from beam_pipelines.recipe.keys import needed_key, plain_key
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.recipe.values import read_choice, read_mapping, read_text, read_texts


def derive_key() -> Any:
    """Declares ``derive`` of a source, which a union has as well."""
    return plain_key(
        read_mapping,
        {},
        "New column: SQL expression, before the joins; each sees those above it.",
        omitted=True,
    )


@dataclasses.dataclass(frozen=True)
class Union:
    """Rows of several sources, one after the other, with columns by name."""

    union: tuple[str, ...] = needed_key(read_texts, "The sources, in order.", "[web, app]")
    missing: Literal["error", "fill"] = plain_key(
        read_choice(("error", "fill")),
        "error",
        "A column that some sources lack is an error, or null in their rows.",
    )
    origin: str | None = plain_key(
        read_text, None, "New column with the name of each row's source."
    )
    key: tuple[str, ...] = plain_key(
        read_texts, (), "Columns whose combined value must be unique in all of them."
    )
    derive: Mapping[str, str] = derive_key()


def unused_sources(recipe: Any) -> tuple[str, ...]:
    """Returns the sources that a recipe does not use."""
    used = {recipe.base, *(join.source for join in recipe.join)}
    for name in tuple(used):
        union = recipe.sources[name].union if name in recipe.sources else None
        used |= {*(union.union if union else ())}
    return tuple(name for name in recipe.sources if name not in used)


def unused_lines(names: Sequence[str]) -> list[str]:
    """Returns the warning of sources that nothing uses, or none."""
    if not names:
        return []
    join = f"'join: [{{source: {yaml_text(names[0])}, on: {{left_column: right_column}}}}]'"
    return [f"sources that nothing uses: {', '.join(names)}. Remove them, or add a join, as {join}"]
