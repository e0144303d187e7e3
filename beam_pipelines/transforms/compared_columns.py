"""Plans the columns whose similar values are compared."""

from __future__ import annotations

import pyarrow as pa

from beam_pipelines.checks.check import Known
from beam_pipelines.core.columns import type_name
from beam_pipelines.core.errors import Problem
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.transforms.near_hashes import LEAST_SIMILARITY
from beam_pipelines.transforms.near_rows import NEAR_LEAKS, NEAR_ROWS


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
