"""Stages on tables: read, join, select, split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa

from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import RecipeError
from beam_pipelines.integrations.beam.batches import (
    ToBatches,
    planned,
    read_sections,
    schema_of,
    shared_folder,
    to_chunk,
)
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.places import place_in
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.sources.wrapping.derived import with_derived
from beam_pipelines.transforms import read
from beam_pipelines.transforms.join import join
from beam_pipelines.transforms.join.plan import plan_join
from beam_pipelines.transforms.select import select
from beam_pipelines.transforms.split import split


class ReadBatches(beam.PTransform):
    """Reads files of any format; the first bad row fails the pipeline.

    Input: the pipeline. Output: RecordBatches of some thousand rows, the same ones in every run, in
    any order.

    The files are listed, and types inferred from a sample, while the pipeline is built.

    Args:
      path: a file or pattern, or several.
      options: other keys of a recipe's source, without ``key``: ``format``, ``columns``, ``types``,
        ``nulls``, ``delimiter``, ….
    """

    def __init__(self, path: str | Sequence[str], **options: Any) -> None:
        super().__init__()
        self._plan = plan_files("ReadBatches", "source", {"path": path, **options})
        if self._plan.source.key:
            raise RecipeError(
                "ReadBatches: found 'key', expected it of the right side of a join only: nothing "
                "checks it here."
            )

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[pa.RecordBatch]:
        return begin | "Read" >> read.ReadChunks(self._plan) | ToBatches(self._plan.schema)


def plan_files(stage: str, name: str, options: Mapping[str, Any]) -> SourcePlan:
    """Plans a source from its section of a recipe.

    Raises:
      RecipeError: an option is wrong, or does not match the files.
    """
    recipe = read_sections(stage, sources={name: dict(options)}, **{"from": name})
    if place_in(recipe.sources[name].options) is not None:
        raise RecipeError(
            f"{stage}: found 'url', expected files: a pipeline of its own reads a database at no "
            "one snapshot. Convert the table with a recipe."
        )
    source = recipe.sources[name]
    return planned(stage, lambda: with_derived(plan_source(source, ""), source.derive))


class JoinBatches(beam.PTransform):
    """Joins batches with the rows of files.

    Input: batches. Output: for each batch with rows one with the columns of both, in order.

    Args:
      source: right side, as in a recipe: ``{"path": "users.csv", "key": "user_id"}``.
      on: a column of both sides, or several, or a mapping left -> right.
      how: ``left`` or ``inner``.
      prefix: of the names of added columns.
      strategy: ``auto``, ``broadcast`` or ``hash``.
      temp_location: as in ``shared_folder``, for a hash join, and for the check of a key.
    """

    def __init__(
        self,
        source: Mapping[str, Any],
        on: Any,
        how: str = "left",
        prefix: str = "",
        strategy: str = "auto",
        temp_location: str | None = None,
    ) -> None:
        super().__init__()
        step = {"source": "right", "on": on, "how": how, "prefix": prefix, "strategy": strategy}
        options = {key: value for key, value in step.items() if value != ""}
        left = {"path": "*"}
        self._join = read_sections(
            "JoinBatches",
            sources={"left": left, "right": dict(source)},
            join=[options],
            **{"from": "left"},
        ).join
        self._right = plan_files("JoinBatches", "right", source)
        self._temp_location = temp_location

    def expand(self, batches: beam.PCollection[pa.RecordBatch]) -> beam.PCollection[pa.RecordBatch]:
        left = SourcePlan(
            Source("left", ()),
            "arrow",
            (),
            schema_of(batches, "JoinBatches"),
            schema_of(batches, "JoinBatches"),
            (),
        )
        plan = planned("JoinBatches", lambda: plan_join(self._join, left, {"right": self._right}))
        meets = self._right.source.key or any(step.strategy == "hash" for step in plan.steps)
        given, pipeline = self._temp_location, batches.pipeline
        folder = shared_folder("JoinBatches", given, pipeline) if meets else ""
        joined = (
            batches | "ToChunks" >> beam.Map(to_chunk) | join.JoinChunks(plan, folder, reject=False)
        )
        if self._right.source.key:
            counted = batches.pipeline | "CheckKey" >> join.CountRightSources(
                plan, folder, reject=False
            )
            # Rows wait for the check of the declared key.
            joined = joined | "AwaitKey" >> beam.Map(
                lambda chunk, _: chunk, beam.pvalue.AsList(counted.keys)
            )
        return joined | ToBatches(plan.schema)


class SelectBatches(beam.PTransform):
    """Filters rows, derives and drops columns, by SQL expressions.

    Input: batches. Output: a batch, in order, for each one with rows left.

    Args:
      filter: condition; rows for which it is not true are left out.
      derive: new column -> expression, in order.
      drop: columns to leave out.
      keep: the only columns to keep.
    """

    def __init__(
        self,
        filter: str | None = None,  # noqa: A002 - the recipe's word
        derive: Mapping[str, str] | None = None,
        drop: Sequence[str] | None = None,
        keep: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        self._recipe = read_sections(
            "SelectBatches", filter=filter, derive=derive, drop=drop, keep=keep
        )

    def expand(self, batches: beam.PCollection[pa.RecordBatch]) -> beam.PCollection[pa.RecordBatch]:
        schema = schema_of(batches, "SelectBatches")
        plan = planned("SelectBatches", lambda: select.plan_select(self._recipe, schema))
        return (
            batches
            | "ToChunks" >> beam.Map(_unaddressed)
            | select.SelectChunks(plan)
            | ToBatches(plan.schema)
        )


class AssignSplit(beam.PTransform):
    """Divides rows into splits by a stable hash, or by time.

    The same row, or the same value of ``by``, always gets the same split.

    Input: batches. Output: a dict, split name -> batches.

    Args:
      split: as in a recipe: ``{"train": 0.8, "eval": 0.2, "by": ["user_id"]}``, or by time.
    """

    def __init__(self, split: Mapping[str, Any]) -> None:
        super().__init__()
        self._recipe = read_sections("AssignSplit", split=dict(split))
        if self._recipe.split.files:
            raise RecipeError(
                "AssignSplit: found splits by files, expected fractions or times: a batch knows no "
                "file."
            )
        if self._recipe.split.stratify:
            raise RecipeError(
                "AssignSplit: found 'stratify', expected shares without it: a stage knows no row "
                "counts. Convert with a recipe instead."
            )

    def expand(
        self, batches: beam.PCollection[pa.RecordBatch]
    ) -> dict[str, beam.PCollection[pa.RecordBatch]]:
        schema = schema_of(batches, "AssignSplit")
        plan = planned("AssignSplit", lambda: split.plan_split(self._recipe, schema))
        chunks = (batches | "ToChunks" >> beam.Map(_unaddressed) | split.SplitChunks(plan)).chunks
        return {
            name: chunks | f"Take_{name}" >> ToBatches(plan.schema, name) for name in plan.names
        }


def _unaddressed(batch: pa.RecordBatch) -> Chunk:
    """Returns a chunk for a stage that ignores addresses."""
    return Chunk(0, 0, batch, {}, path="a batch")
