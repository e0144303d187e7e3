"""``import beam_pipelines as bp``: the functions and the dataset for Python."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import beam_pipelines as bp
from beam_pipelines.recipe.model import Recipe

pytestmark = pytest.mark.end_to_end

ROWS = 400
RECIPE = {
    "name": "rows",
    "sources": {"rows": "rows.csv"},
    "split": {"train": 0.75, "eval": 0.25},
    "label": "kind",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with ``rows.csv``."""
    folder = tmp_path_factory.mktemp("api")
    lines = (
        f"{number},{'ab'[number % 2]},{number / 4 if number % 3 else ''}\n"
        for number in range(ROWS)
    )
    (folder / "rows.csv").write_text("number,kind,quarter\n" + "".join(lines))
    return folder


def recipe_in(folder: Path, **more: object) -> dict[str, object]:
    """Returns the recipe, with the path of its source."""
    return {**RECIPE, "sources": {"rows": str(folder / "rows.csv")}, **more}


@pytest.fixture(scope="module")
def dataset(folder: Path) -> bp.Dataset:
    """Returns a converted dataset."""
    return bp.convert(recipe_in(folder), folder / "out")


def test_a_mapping_becomes_a_dataset(dataset: bp.Dataset, folder: Path) -> None:
    """Splits, label, schema, statistics and the report are at hand, and verified."""
    assert list(dataset.splits) == ["train", "eval"]
    assert sum(dataset.splits.values()) == ROWS
    assert dataset.label == "kind"
    assert [feature.name for feature in dataset.schema.feature] == ["number", "kind", "quarter"]
    assert {
        name: found.num_examples for name, found in dataset.statistics.items()
    } == dataset.splits
    assert Path(dataset.report).exists()
    assert bp.verify(dataset.folder).rows == ROWS
    assert repr(dataset) == (
        f"Dataset({str(folder / 'out')!r}, train: {dataset.splits['train']} rows, "
        f"eval: {dataset.splits['eval']} rows)"
    )


def test_head_gives_the_first_examples_of_a_split(dataset: bp.Dataset) -> None:
    """``head`` gives as many examples as asked for, at most all.

    A missing feature is null.
    """
    head = dataset.head(7, "eval")
    assert head.num_rows == 7
    assert dataset.head(10_000).num_rows == dataset.splits["train"]
    assert dataset.head(0).num_rows == 0
    for row in head.to_pylist():
        (number,) = row["number"]
        assert row["kind"] == ["ab"[number % 2].encode()]
        assert row["quarter"] == ([number / 4] if number % 3 else None)
    with pytest.raises(
        ValueError,
        match=r"found no split 'evla', expected one of train, eval\. Did you mean 'eval'",
    ):
        dataset.head(split="evla")


def test_to_pandas_has_plain_columns(dataset: bp.Dataset) -> None:
    """``to_pandas`` has plain columns.

    A column has one value a row, texts are str, and a column with nulls stays a list.
    """
    frame = dataset.to_pandas(20)
    assert frame["number"].dtype == "int64"
    assert set(frame["kind"]) == {"a", "b"}
    assert [value is None for value in frame["quarter"]] == [
        not number % 3 for number in frame["number"]
    ]


def test_every_form_of_a_recipe_gives_the_same_plan(folder: Path) -> None:
    """A mapping, a YAML file, a Recipe and a plan."""
    path = folder / "recipe.yaml"
    path.write_text(
        "name: rows\nsources: {rows: rows.csv}\nsplit: {train: 0.75, eval: 0.25}\nlabel: kind\n"
    )
    plan = bp.plan(path)
    assert isinstance(plan, bp.Plan)
    assert isinstance(plan.recipe, Recipe)
    assert bp.plan(plan.recipe).describe() == plan.describe()
    assert bp.plan(recipe_in(folder)).split == plan.split
    assert bp.convert(plan, folder / "planned").splits == bp.convert(path, folder / "file").splits


def test_errors_name_the_line(folder: Path) -> None:
    """Errors name the line of a file and of a mapping.

    This includes problems that planning finds.
    """
    path = folder / "wrong.yaml"
    path.write_text("name: rows\nsources: {rows: rows.csv}\nlabel: knd\n")
    with pytest.raises(bp.RecipeError, match=r"wrong.yaml:3: label: .*'knd'.*Did you mean 'kind'"):
        bp.plan(path)
    with pytest.raises(bp.RecipeError, match=r"recipe:\d+: drpo: .*Did you mean 'drop'"):
        bp.convert(recipe_in(folder, drpo=["quarter"]), folder / "never")
    assert not (folder / "never").exists()
    with pytest.raises(bp.RecipeError, match="expected an empty or new folder"):
        bp.convert(recipe_in(folder), folder)


def test_describe_and_validate_read_without_writing(dataset: bp.Dataset, folder: Path) -> None:
    """``describe`` and ``validate`` read without writing.

    The description equals the dataset's; a schema that does not fit is an error.
    """
    found = bp.describe(recipe_in(folder))
    assert found.rows == dataset.splits
    assert found.schema == dataset.schema
    assert found.statistics == dataset.statistics
    assert not any(one.anomaly_info for one in found.anomalies.values())
    assert list(bp.validate(dataset.folder)) == ["train", "eval"]
    schema = folder / "narrow.pbtxt"
    schema.write_text('feature { name: "number" type: BYTES presence { min_count: 1 } }')
    with pytest.raises(bp.DataError, match="number"):
        bp.validate(dataset.folder, schema=str(schema))
    with pytest.raises(bp.DataError, match="number"):
        bp.validate(recipe_in(folder), schema=str(schema))


def test_payloads_have_one_column(tmp_path: Path) -> None:
    """Records that are no examples are shown as they are."""
    (tmp_path / "lines.txt").write_text("a\nbb\nccc\n")
    recipe = {
        "name": "lines",
        "sources": {"lines": {"path": str(tmp_path / "lines.txt"), "format": "lines"}},
        "output": {"record": "line"},
    }
    made = bp.convert(recipe, tmp_path / "out")
    assert sorted(made.head().column("record").to_pylist()) == [b"a", b"bb", b"ccc"]
    assert made.head().schema == pa.schema([("record", pa.large_binary())])


def test_an_unknown_name() -> None:
    """It is an error, like in any module."""
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        bp.nothing  # noqa: B018
