"""Spans and versions of a recipe's sources in a TFX pipeline."""

from __future__ import annotations

import dataclasses
import datetime
import pathlib

import pytest

from beam_pipelines.core.errors import RecipeError
from beam_pipelines.recipe.joins import Join
from beam_pipelines.recipe.model import Recipe, Source
from tests.integrations.tfx.support import artifacts, need_tfx, run_script, write_clicks

need_tfx()
pytestmark = pytest.mark.tfx

FILES = [
    "days/2026-11-19.csv", "days/2026-11-21.csv", "days/20261118.csv", "days/2026/11/20/part.csv",
    "months/202611.csv", "numbers/span-9/a.csv", "numbers/span-12/a.csv", "wide/00009.csv",
    "wide/00012.csv", "versions/3/v1/a.csv", "versions/3/v2/a.csv", "versions/2/v7/a.csv",
    "day_versions/2026-11-19/v04.csv", "day_versions/2026-11-19/v05.csv", "plain.csv",
]  # fmt: skip
# 2026-11-19 in days since 1970-01-01: 56 years of 365 days, 14 leap days, and the 323rd day of the
# year, counted from 1.
NOV_19 = 56 * 365 + 14 + 322


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A folder with files of many spans and versions."""
    folder = tmp_path_factory.mktemp("tree")
    for name in FILES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a\n1\n")
    return folder


def recipe_of(folder: pathlib.Path, *paths: str) -> Recipe:
    """Returns a recipe with a source for each path.

    All are joined to the first.
    """
    names = "abc"[: len(paths)]
    sources = {name: Source(name, (path,)) for name, path in zip(names, paths, strict=True)}
    joins = tuple(Join(name, (("a", "a"),)) for name in names[1:])
    return Recipe("r", sources, "a", join=joins, directory=str(folder))


def static(span: int):
    """TFX's range config of one span."""
    from tfx.proto import range_config_pb2

    return range_config_pb2.RangeConfig(
        static_range=range_config_pb2.StaticRange(start_span_number=span, end_span_number=span)
    )


@pytest.mark.parametrize(
    ("paths", "span", "expected", "filled"),
    [
        (["days/{date}.csv"], None, (NOV_19 + 2, None), ["days/2026-11-21.csv"]),
        (["days/{date}.csv"], NOV_19, (NOV_19, None), ["days/2026-11-19.csv"]),
        (["days/{YYYY}-{MM}-{DD}.csv"], None, (NOV_19 + 2, None), ["days/2026-11-21.csv"]),
        (["days/{YYYY}/{MM}/{DD}/*.csv"], None, (NOV_19 + 1, None), ["days/2026/11/20/*.csv"]),
        (["days/{date:%Y%m%d}.csv"], NOV_19 - 1, (NOV_19 - 1, None), ["days/20261118.csv"]),
        (["days/{date:%Y/%m/%d}/*.csv"], None, (NOV_19 + 1, None), ["days/2026/11/20/*.csv"]),
        (["days/{date}.csv", "months/{date:%Y%m}.csv"], None, (NOV_19 + 2, None), ["days/2026-11-21.csv", "months/202611.csv"]),
        (["days/{date}.csv", "plain.csv"], None, (NOV_19 + 2, None), ["days/2026-11-21.csv", "plain.csv"]),
        (["days/{date}.csv", "days/{YYYY}-{MM}-{DD}.csv"], None, (NOV_19 + 2, None), ["days/2026-11-21.csv"] * 2),
        (["months/{date:%Y%m}.csv"], NOV_19, (NOV_19, None), ["months/202611.csv"]),
        (["days/{date:%Y}-{date:%j}.csv"], NOV_19, (NOV_19, None), ["days/2026-323.csv"]),
        (["numbers/span-{SPAN}/*.csv"], None, (12, None), ["numbers/span-12/*.csv"]),
        (["numbers/span-{SPAN}/*.csv"], 9, (9, None), ["numbers/span-9/*.csv"]),
        (["wide/{SPAN:5}.csv"], None, (12, None), ["wide/00012.csv"]),
        (["wide/{SPAN:5}.csv"], 9, (9, None), ["wide/00009.csv"]),
        (["versions/{SPAN}/v{VERSION}/*.csv"], None, (3, 2), ["versions/3/v2/*.csv"]),
        (["versions/{SPAN}/v{VERSION}/*.csv"], 2, (2, 7), ["versions/2/v7/*.csv"]),
        (["day_versions/{date}/v{VERSION:2}.csv"], None, (NOV_19, 5), ["day_versions/2026-11-19/v05.csv"]),
        (["plain.csv"], None, (0, None), ["plain.csv"]),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, list) else None,
)  # fmt: skip
def test_spans_are_found_and_filled_in(tree, paths, span, expected, filled):
    """The latest or named span and its latest version are filled in.

    A day becomes the recipe's date.
    """
    from beam_pipelines.integrations.tfx.spans import fill_spans, resolve_spans
    from beam_pipelines.recipe import path_dates

    recipe = recipe_of(tree, *paths)
    spans = resolve_spans(recipe, None if span is None else static(span))
    assert spans == expected
    done = fill_spans(recipe, spans)
    found = [path for source in done.sources.values() for path in source.path]
    assert [
        path_dates.fill_date(path, done.date) if done.date else path for path in found
    ] == filled
    is_day = expected[0] > 20000
    assert done.date == (
        datetime.date(2026, 11, 19) + datetime.timedelta(days=expected[0] - NOV_19)
        if is_day
        else None
    )


@pytest.mark.parametrize(
    ("paths", "span", "message"),
    [
        (["absent/{date}.csv"], None, "Cannot find matching"),
        (["days/{date}.csv"], 1, "Cannot find matching"),
        (["days/{date}.csv", "days/{YYYY}/{MM}/{DD}/*.csv"], None, "Latest span should be the same"),
        (["days/{date}.csv", "numbers/span-{SPAN}/*.csv"], None, "Spec setup should the same"),
        (["plain.csv"], 3, "Span or Date spec should be specified"),
        (["versions/v{VERSION}/*.csv"], None, "Span or Date spec is not present"),
        (["days/{SPAN}/{date}.csv"], None, "exclusively"),
        (["days/{date:%Y}-{date:%j}.csv"], None, "found no source whose path names one whole day"),
        (["months/{date:%Y%m}.csv"], None, "found no source whose path names one whole day"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, list) else None,
)  # fmt: skip
def test_what_cannot_be_resolved_is_an_error(tree, paths, span, message):
    """A span that TFX refuses is a RecipeError with TFX's reason.

    A day that no source's path can hold is an error that says how to write it.
    """
    from beam_pipelines.integrations.tfx.spans import resolve_spans

    with pytest.raises(RecipeError, match=message) as caught:
        resolve_spans(recipe_of(tree, *paths), None if span is None else static(span))
    assert str(caught.value).startswith("r: found ")


def test_sources_that_are_not_read_do_not_count(tree):
    """A source that nothing joins may have any path."""
    from beam_pipelines.integrations.tfx.spans import resolve_spans

    recipe = recipe_of(tree, "days/{date}.csv", "numbers/span-{SPAN}/*.csv")
    assert resolve_spans(dataclasses.replace(recipe, join=())) == (NOV_19 + 2, None)


PIPELINE = """
from beam_pipelines.integrations.tfx.component import RecipeExampleGen
from tfx import v1 as tfx

static = tfx.proto.RangeConfig(static_range=tfx.proto.StaticRange(start_span_number={span}, end_span_number={span}))
components = [
    RecipeExampleGen(recipe="recipe.yaml").with_id("latest"),
    RecipeExampleGen(recipe="recipe.yaml", range_config=static).with_id("static"),
]
tfx.orchestration.LocalDagRunner().run(
    tfx.dsl.Pipeline(
        pipeline_name="spans",
        pipeline_root="pipeline",
        components=components,
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config("metadata.db"),
    )
)
"""


def test_artifacts_have_span_and_version(tmp_path):
    """A pipeline converts the latest span and a named one.

    Both numbers are on the artifacts, the day is in the manifest.
    """
    import json

    for number, name in enumerate(("2026-11-19/v1", "2026-11-19/v2", "2026-11-20/v1")):
        write_clicks(tmp_path / "clicks" / f"{name}.csv", rows=100 + number, seed=number)
    (tmp_path / "recipe.yaml").write_text(
        "name: clicks\nsources: {clicks: 'clicks/{date}/v{VERSION}.csv'}\nlabel: clicked\n"
    )
    (tmp_path / "spans.py").write_text(PIPELINE.format(span=NOV_19))
    run_script(tmp_path, "spans.py")
    for node, span, version, rows in (("latest", NOV_19 + 1, 1, 102), ("static", NOV_19, 2, 101)):
        found = {artifact.type: artifact for artifact in artifacts(tmp_path, f"/{node}/")}
        assert (found["Examples"].properties["span"], found["Examples"].properties["version"]) == (
            span,
            version,
        )
        assert (
            found["ExampleStatistics"].properties["span"]
            == found["ExampleAnomalies"].properties["span"]
            == span
        )
        manifest = json.loads(
            (tmp_path / found["Examples"].uri / ".." / "dataset.json").read_text()
        )
        assert (manifest["span"], manifest["counts"]["written"]) == (span, rows)
