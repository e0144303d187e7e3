"""Renamed columns: they stay what they were, under another name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import beam_pipelines as bp
from beam_pipelines.core.arrow.columns import shape_of
from beam_pipelines.core.errors import RecipeProblems
from tests.sources.support import write
from tests.transforms.test_split_key import plan_in, rows_of


def test_all_keys_know_the_new_names(tmp_path: Path) -> None:
    """Renaming may exchange names.

    A join uses the old names. All other keys use the new ones.
    """
    write(tmp_path / "a.csv", "a,b\n1,2\n3,x\n5,\n")
    write(tmp_path / "c.csv", "a,c\n1,7\n3,8\n")
    recipe = """
sources: {a: a.csv, c: {path: c.csv, key: a}}
from: a
join: [{source: c, on: a}]
rename: {a: b, b: a, c: d}
filter: b < 5
derive: {e: d + b}
drop: [d]
split: {column: b, train: {before: 3}, eval: {after: 3}}
"""
    assert rows_of(tmp_path, recipe) == [
        ("train", {"b": 1, "a": "2", "e": 8}),
        ("eval", {"b": 3, "a": "x", "e": 11}),
    ]
    rejecting = f"{recipe}on_error: {{reject: 1}}\n".replace("d + b", "CAST(a AS INT)")
    assert rows_of(tmp_path, rejecting) == [("train", {"b": 1, "a": "2", "e": 2})]


@pytest.mark.parametrize(
    ("split", "renamed"),
    [
        ("split: {train: 0.5, eval: 0.5}", "split: {train: 0.5, eval: 0.5}"),
        ("split: {train: 0.5, eval: 0.5, by: id}", "split: {train: 0.5, eval: 0.5, by: number}"),
    ],
)
def test_a_rename_moves_no_row(tmp_path: Path, split: str, renamed: str) -> None:
    """Splits follow from values."""
    lines = "\n".join(f"{number},x{number}" for number in range(40))
    write(tmp_path / "t.csv", f"id,name\n{lines}\n")
    source = "sources: {t: t.csv}\nsplit_\n"
    old = rows_of(tmp_path, source.replace("split_", split))
    change = f"{renamed}\nrename: {{id: number, name: a}}"
    new = rows_of(tmp_path, source.replace("split_", change))
    assert len(old) == 40
    assert sorted((part, row["id"]) for part, row in old) == sorted(
        (part, row["number"]) for part, row in new
    )


@pytest.mark.parametrize(
    ("rename", "message"),
    [
        ("{aa: c}", "found column 'aa', which is not there"),
        ("{a: b}", "found 'b', which another column is called"),
        ("{a: c, b: c}", "found 'c', which another column is called"),
        ('{a: "x\\0"}', "NUL"),
    ],
)
def test_names_that_cannot_be(tmp_path: Path, rename: str, message: str) -> None:
    """Unknown columns and names that occur twice are errors of the recipe."""
    write(tmp_path / "a.csv", "a,b\n1,2\n")
    with pytest.raises(RecipeProblems, match=message):
        rows_of(tmp_path, f"sources: {{a: a.csv}}\nrename: {rename}")


def test_shapes_and_sparse_tensors_stay(tmp_path: Path) -> None:
    """Arrays keep their shape; a sparse tensor has the renamed columns."""
    pq.write_table(pa.table({"x": [[[1.0, 2.0]], [[3.0, 4.0]]]}), tmp_path / "x.parquet")
    plan = plan_in(tmp_path, "sources: {x: x.parquet}\nrename: {x: y}")
    assert shape_of(plan.split.schema.field("y")) == (1, 2)
    write(tmp_path / "s.libsvm", "1 1:0.5 3:2\n0 2:1\n")
    plan = plan_in(
        tmp_path, "sources: {s: s.libsvm}\nrename: {features_index: at, features_value: of}"
    )
    assert [sparse.columns for sparse in plan.sparse] == [("at", "of")]


@pytest.mark.end_to_end
def test_images_keep_their_class_names(tmp_path: Path) -> None:
    """Renamed images keep their class names, and are decoded on loading."""
    for number, name in enumerate(("cat", "dog")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        Image.fromarray(np.full((4, 4, 3), 40 * number, np.uint8)).save(
            tmp_path / "photos" / name / "a.png"
        )
    rename = "{image/encoded: image, image/class/label: kind}"
    write(
        tmp_path / "r.yaml",
        "name: t\nsources: {p: {path: photos, format: images}}\n"
        f"rename: {rename}\nkeep: [image, kind]\nlabel: kind\n",
    )
    bp.convert(str(tmp_path / "r.yaml"), str(tmp_path / "out"))
    assert (tmp_path / "out" / "labels.txt").read_text() == "0:cat\n1:dog\n"
    images = {"image": bp.Image((4, 4))}
    rows = bp.load(str(tmp_path / "out"), "train", batch_size=2, images=images)
    features, label = next(iter(rows))
    assert features["image"].shape == (2, 4, 4, 3)
    assert sorted(label.numpy().ravel().tolist()) == [0, 1]
