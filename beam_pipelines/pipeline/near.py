"""Plans how similar values are compared."""

from __future__ import annotations

import pyarrow as pa

from beam_pipelines.pipeline.plan import Plan
from beam_pipelines.pipeline.run_options import RunFolders
from beam_pipelines.recipe.near import Near
from beam_pipelines.transforms.join.plan import count_partitions
from beam_pipelines.transforms.near_rows import PARTITIONS, NearRule


def near_rule(plan: Plan, name: str, near: Near) -> NearRule:
    """Returns how the values of a column are compared.

    Args:
      plan: of the run.
      name: that chunks have the column by.
      near: of the recipe.
    """
    kind = plan.select.seen.field(near.column).type
    partitions = PARTITIONS * count_partitions(plan.base)
    return NearRule(name, near.similarity, partitions, bool(pa.types.is_binary(kind)))


def near_folders(folders: RunFolders, name: str) -> tuple[str | None, str | None, str | None]:
    """Returns the folders of the three exchanges of similar values."""
    first, second, third = (
        folders.exchange_of(f"{name} {part}") for part in ("bands", "values", "near")
    )
    return first, second, third
