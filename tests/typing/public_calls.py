"""Calls of the public interface, for type checkers only: nothing here runs."""

from __future__ import annotations

import datetime
from collections.abc import Mapping

import pandas as pd
import pyarrow as pa

import beam_pipelines as bp


def convert() -> bp.Dataset:
    """Every form of a recipe is taken, and a dataset is given."""
    bp.convert("recipe.yaml", "out", overwrite=True, resume=False, quiet=False)
    bp.convert({"name": "rows", "sources": {"rows": "rows.csv"}}, "out")
    bp.convert("clicks.yaml", "out/{date}", date=datetime.date(2026, 11, 21))
    made: bp.Plan = bp.plan("recipe.yaml", policy=bp.PolicyOptions(environment="SERVING"))
    recipe: bp.Recipe = made.recipe
    print(made.describe(), bp.plan(recipe).describe())
    return bp.convert(made, "out", beam_options=["--direct_num_workers=2"])


def use(dataset: bp.Dataset) -> None:
    """The attributes of a dataset have types."""
    rows: Mapping[str, int] = dataset.splits
    label: str | None = dataset.label
    first_feature: str = dataset.schema.feature[0].name
    examples: int = dataset.statistics["train"].num_examples
    head: pa.Table = dataset.head(5, split="train")
    frame: pd.DataFrame = dataset.to_pandas(5)
    print(rows, label, first_feature, examples, head, frame, dataset.report)


def check(folder: str) -> None:
    """The functions do the same as the commands."""
    opened: bp.Dataset = bp.open(folder)
    found: bp.Description = bp.describe("recipe.yaml", quiet=True)
    anomalies = bp.validate(opened.folder, schema="s.pbtxt")
    new: bp.Dataset = bp.transform(folder, "new.csv", "out/new", sources={"planes": "planes.csv"})
    lines: list[str] = list(bp.inspect(folder, 3, split="train"))
    shards: int = bp.verify(folder).shards
    graph: str = bp.make_graph(folder)
    several: bp.Dataset = bp.open([folder, new.folder])
    names: tuple[str, ...] = several.labels()
    paths: list[str] = several.shards("train")
    try:
        bp.load(folder, "train", batch_size=512, seed=1)
    except (bp.DataError, bp.RecipeError) as error:
        print(error)
    print(found.schema, anomalies["train"].anomaly_info, lines, shards, graph, names, paths)
