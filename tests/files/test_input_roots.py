"""``--input_root``: a command reads files below it, and no others.

This holds for every name in a recipe and for every link.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from beam_pipelines.cli import main as main_module
from beam_pipelines.core import _native
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.files.beam import files, input_roots
from beam_pipelines.files.beam.input_roots import OutsideRootError, only_below
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from tests.support.image_files import encode
from tests.support.image_sets import cifar10_batch, cifar10_meta, colour_digits
from tests.support.manifests import small_manifest

SCHEMA = 'feature { name: "a" type: INT }\nfeature { name: "b" type: BYTES }\n'
MODULE = "def preprocessing_fn(inputs):\n    return inputs\n"


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders with the same files, one of them a readable root.

    The other one's name begins like the root's.
    """
    inside, outside = tmp_path / "data", tmp_path / "data-secret"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "a.csv").write_text("a,b\n1,x\n2,y\n")
        (folder / "b.csv").write_text("a,c\n1,x\n2,y\n")
        (folder / "schema.pbtxt").write_text(SCHEMA)
        (folder / "features.py").write_text(MODULE)
        (folder / "train-images-idx3-ubyte").write_bytes(
            struct.pack(">HBBIII", 0, 8, 3, 2, 2, 2) + bytes(8)
        )
        (folder / "train-labels-idx1-ubyte").write_bytes(
            struct.pack(">HBBI", 0, 8, 1, 2) + bytes(2)
        )
        (folder / "pictures" / "cat").mkdir(parents=True)
        (folder / "pictures" / "cat" / "1.png").write_bytes(
            encode(np.zeros((2, 2), np.uint8), "png")
        )
        (folder / "batches").mkdir()
        (folder / "batches" / "data_batch_1").write_bytes(cifar10_batch(*colour_digits(1)))
        (folder / "batches" / "batches.meta").write_bytes(cifar10_meta())
        examples = folder / "set" / "examples" / "Split-train"
        examples.mkdir(parents=True)
        (examples / "a.tfrecord").write_bytes(
            b"".join(_native.frame(pa.array([b""], pa.binary())).to_pylist())
        )
        (folder / "set" / "schema.pbtxt").write_text(SCHEMA)
        (folder / "set" / "dataset.json").write_text(
            json.dumps(small_manifest() | {"schema": "schema.pbtxt"})
        )
    return inside, outside


def plan(text: str, directory: Path, *roots: Path | str) -> None:
    """Plans a recipe in a folder."""
    make_plan(
        parse_recipe(f"name: t\n{text}", "recipe.yaml", str(directory)),
        input_roots=[str(root) for root in roots],
    )


def refused(text: str, directory: Path, *roots: Path | str) -> list[str]:
    """Returns the problems of a recipe as ``path: message``.

    Each of them has to be about a root.
    """
    with pytest.raises(RecipeProblems) as error:
        plan(text, directory, *roots)
    assert all(
        "expected a path below --input_root" in problem.message for problem in error.value.problems
    )
    return [".".join(map(str, problem.path)) for problem in error.value.problems]


GOOD = {
    "source": "sources: {t: a.csv}",
    "pattern": "sources: {t: '*a.csv'}",
    "schema": "sources: {t: a.csv}\nschema: schema.pbtxt",
    "join": "sources: {t: a.csv, u: {path: b.csv, key: a}}\nfrom: t\njoin: [{source: u, on: a}]",
    "module": "sources: {t: a.csv}\npreprocessing_fn: features.py",
    "labels": "sources: {t: train-images-idx3-ubyte}",
    "images": "sources: {t: {path: pictures, format: images}}",
    "cifar": "sources: {t: {path: batches/*, format: cifar}}",
    "records": "sources: {t: {path: set/examples/Split-train/a.tfrecord, schema: schema.pbtxt}}",
    "dataset": "sources: {t: set/examples/Split-train/*}",
}


@pytest.mark.parametrize("case", GOOD)
def test_below_the_root(folders: tuple[Path, Path], case: str) -> None:
    """Every file of a recipe is read below one of the roots."""
    inside, outside = folders
    plan(GOOD[case], inside, inside)
    plan(GOOD[case], inside, outside, inside.parent)


@pytest.mark.parametrize("case", GOOD)
def test_outside_of_the_root(folders: tuple[Path, Path], case: str) -> None:
    """A recipe outside of the root is refused.

    The error names the part of the recipe.
    """
    inside, outside = folders
    found = refused(GOOD[case], outside, inside)
    assert {path.split(".")[0] for path in found} <= {"sources", "schema", "preprocessing_fn"}
    assert "sources.t" in found


NAMED = {
    "from the root": ("sources: {t: OUT/a.csv}", "sources.t"),
    "from above": ("sources: {t: ../data-secret/a.csv}", "sources.t"),
    "a pattern": ("sources: {t: '../data-s*/a.csv'}", "sources.t"),
    "one of two": ("sources: {t: [a.csv, OUT/b.csv]}", "sources.t"),
    "file URL": ("sources: {t: 'file://OUT/a.csv'}", "sources.t"),
    "other storage": ("sources: {t: 'gs://bucket/a.csv'}", "sources.t"),
    "schema": ("sources: {t: a.csv}\nschema: OUT/schema.pbtxt", "schema"),
    "module": ("sources: {t: a.csv}\npreprocessing_fn: ../data-secret/features.py", "preprocessing_fn"),
    "schema of records": ("sources: {t: {path: set/examples/Split-train/a.tfrecord, schema: OUT/schema.pbtxt}}", "sources.t"),
    "a joined source": ("sources: {t: a.csv, u: {path: OUT/b.csv, key: a}}\nfrom: t\njoin: [{source: u, on: a}]", "sources.u"),
    "no such file": ("sources: {t: OUT/nothing.csv}", "sources.t"),
}  # fmt: skip


@pytest.mark.parametrize("case", NAMED)
def test_paths_that_lead_out(folders: tuple[Path, Path], case: str) -> None:
    """A name outside is refused without a hint on its existence."""
    inside, outside = folders
    text, where = NAMED[case]
    assert refused(text.replace("OUT", str(outside)), inside, inside) == [where]


LINKS = {
    "file": ("a.csv", "sources: {t: a.csv}"),
    "file of a pattern": ("a.csv", "sources: {t: '[a]*.csv'}"),
    "schema": ("schema.pbtxt", GOOD["schema"]),
    "module": ("features.py", GOOD["module"]),
    "labels": ("train-labels-idx1-ubyte", GOOD["labels"]),
    "folder of images": ("pictures", GOOD["images"]),
    "picture": ("pictures/cat/1.png", GOOD["images"]),
    "class names": ("batches/batches.meta", GOOD["cifar"]),
    "manifest": ("set/dataset.json", GOOD["dataset"]),
    "schema of a dataset": ("set/schema.pbtxt", GOOD["dataset"]),
}


@pytest.mark.parametrize("case", LINKS)
def test_links_that_lead_out(folders: tuple[Path, Path], case: str) -> None:
    """A link within the root is followed before the check.

    A link that stays inside passes.
    """
    inside, outside = folders
    name, text = LINKS[case]
    (inside / name).rename(inside / "moved")
    (inside / name).symlink_to(inside / "moved")
    plan(text, inside, inside)
    (inside / name).unlink()
    (inside / name).symlink_to(outside / name)
    assert refused(text, inside, inside)


def test_a_manifest_that_leads_out(folders: tuple[Path, Path]) -> None:
    """The paths in a manifest are within the dataset."""
    inside, _ = folders
    manifest = small_manifest() | {"schema": "../../data-secret/schema.pbtxt"}
    (inside / "set" / "dataset.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="schema"):
        plan(GOOD["dataset"], inside, inside)


@pytest.mark.parametrize(
    ("path", "root", "is_below"),
    [
        ("gs://b/data/a.csv", "gs://b/data", True),
        ("gs://b/data/a.csv", "gs://b/data/", True),
        ("gs://b/data/a.csv", "gs://b", True),
        ("GS://b/data/a.csv", "gs://b/data", True),
        ("gs://b/data/../data/a.csv", "gs://b/data", True),
        ("gs://b/data-secret/a.csv", "gs://b/data", False),
        ("gs://b/data/../secret/a.csv", "gs://b/data", False),
        ("gs://bb/data/a.csv", "gs://b", False),
        ("s3://b/data/a.csv", "gs://b/data", False),
        ("/gs:/b/data/a.csv", "gs://b/data", False),
        ("/data/a.csv", "/", True),
    ],
)
def test_urls(path: str, root: str, is_below: bool) -> None:
    """URLs are compared by whole names, once ``..`` is resolved."""
    with only_below([root]):
        if is_below:
            input_roots.check(path)
        else:
            with pytest.raises(OutsideRootError):
                input_roots.check(path)


def test_only_while_a_plan_is_made(folders: tuple[Path, Path]) -> None:
    """A process's own files, such as its output, are not restricted."""
    inside, outside = folders
    plan("sources: {t: a.csv}", inside, inside)
    with files.open_read(str(outside / "a.csv")) as file:
        assert file.read()


COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "convert": lambda recipe: ["convert", recipe, "--output", "out", "--quiet"],
    "dry run": lambda recipe: ["convert", recipe, "--dry_run"],
    "describe": lambda recipe: ["describe", recipe, "--quiet"],
    "validate": lambda recipe: ["validate", recipe, "--quiet"],
    "plan": lambda recipe: ["plan", recipe],
    "bare": lambda recipe: ["convert", recipe.replace("recipe.yaml", "a.csv"), "--dry_run"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(folders, monkeypatch, capsys, command):
    """Every command that opens a recipe's files takes the option.

    It refuses with the recipe's line and status 2.
    """
    inside, outside = folders
    monkeypatch.chdir(inside.parent)
    recipe = outside / "recipe.yaml"
    recipe.write_text("name: t\nsources:\n  t: a.csv\n")
    arguments = COMMANDS[command](str(recipe))
    assert main_module.run([*arguments, "--input_root", str(inside)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"expected a path below --input_root {os.path.realpath(inside)}" in printed.err
    assert command == "bare" or "recipe.yaml:3: sources.t: found" in printed.err
    assert not Path("out").exists()
    if command in ("dry run", "bare"):
        assert (
            main_module.run([*arguments, "--input_root", str(inside), "--input-root", str(outside)])
            == 0
        )


def test_a_root_that_is_not_there(folders, capsys):
    """A misspelt root is told apart from a file outside."""
    inside, _ = folders
    assert (
        main_module.run(
            ["convert", str(inside / "a.csv"), "--dry_run", "--input_root", str(inside / "nothing")]
        )
        == 2
    )
    assert "which is no folder, expected one, or a URL" in capsys.readouterr().err
