"""Plans the columns that ``duplicates``, ``leaks`` and ``pii`` look at."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import pyarrow as pa

from beam_pipelines.core.columns import type_name
from beam_pipelines.core.errors import Problem, missing_column
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.transforms.near_hashes import LEAST_SIMILARITY
from beam_pipelines.transforms.near_rows import NEAR_LEAKS, NEAR_ROWS


class Known(NamedTuple):
    """The columns of selected rows before ``drop`` and ``keep``.

    Attributes:
      schema: of the columns.
      broken: derived columns that failed; they are not in the schema, and no problem here.
      problems: gets those that are found.
    """

    schema: pa.Schema
    broken: Collection[str]
    problems: list[Problem]

    def note_unknown(
        self, names: tuple[str, ...], path: tuple[str | int, ...], is_list: bool = True
    ) -> None:
        """Notes columns that are not there."""
        for index, name in enumerate(names):
            if name not in self.schema.names and name not in self.broken:
                message = missing_column(name, self.schema.names)
                self.problems.append(Problem((*path, index) if is_list else path, message))


def equal_columns(recipe: Recipe, written: tuple[str, ...], known: Known) -> tuple[str, ...]:
    """Returns the columns that ``duplicates`` compares; notes unknown ones."""
    if recipe.duplicates is None or recipe.duplicates.near is not None:
        return ()
    known.note_unknown(recipe.duplicates.by, ("duplicates", "by"))
    return recipe.duplicates.by or written


def near_columns(recipe: Recipe, known: Known) -> dict[str, str]:
    """Returns the columns of similar values that chunks get, by their names.

    It notes unknown ones, and those of another type.
    """
    duplicates = None if recipe.duplicates is None else recipe.duplicates.near
    leaks = None if recipe.leaks is None or len(recipe.split.names) == 1 else recipe.leaks.near
    found = {}
    for name, key, near in ((NEAR_ROWS, "duplicates", duplicates), (NEAR_LEAKS, "leaks", leaks)):
        if near is None:
            continue
        path = (key, "near", "column")
        known.note_unknown((near.column,), path, is_list=False)
        if near.column in known.schema.names:
            kind = known.schema.field(near.column).type
            if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
                message = f"column '{near.column}' is {type_name(kind)}, expected text or images"
                known.problems.append(Problem(path, message))
            elif pa.types.is_binary(kind) and near.similarity < LEAST_SIMILARITY:
                message = (
                    f"found {near.similarity:g} for images, expected a similarity from "
                    f"{LEAST_SIMILARITY:g} to 1"
                )
                known.problems.append(Problem((key, "near", "similarity"), message))
            found[name] = near.column
    return found


def leak_columns(
    recipe: Recipe, written: tuple[str, ...], known: Known
) -> tuple[tuple[str, ...], ...]:
    """Returns the columns of rows and of the entity of ``leaks``."""
    if recipe.leaks is None or len(recipe.split.names) == 1:
        return ()
    entity = recipe.leaks.entity
    known.note_unknown(entity, ("leaks", "entity"))
    return (written, *((entity,) if entity else ()))


def time_column(recipe: Recipe, known: Known) -> str | None:
    """Returns the column of times of ``leaks``, or ``None``.

    Splits by the same column do not overlap. It notes a column of another type.
    """
    if recipe.leaks is None or recipe.leaks.time is None:
        return None
    name = recipe.leaks.time
    if name not in known.schema.names:
        known.note_unknown((name,), ("leaks", "time"), is_list=False)
        return None
    kind = known.schema.field(name).type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if not is_number and (not pa.types.is_temporal(kind) or pa.types.is_duration(kind)):
        message = (
            f"column '{name}' is {type_name(kind)}, expected a date, timestamp, time or number"
        )
        known.problems.append(Problem(("leaks", "time"), message))
    return None if recipe.split.time_column == name or len(recipe.split.names) == 1 else name


def scanned_columns(recipe: Recipe, written: tuple[str, ...], known: Known) -> tuple[str, ...]:
    """Returns the columns to look for personal data in; notes unknown ones."""
    if recipe.pii is None:
        return ()
    known.note_unknown(recipe.pii.allow, ("pii", "allow"))
    return tuple(name for name in written if name not in recipe.pii.allow)
