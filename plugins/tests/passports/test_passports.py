"""Passports agree with the manifest, the schema and the rows.

test_other_programs.py opens datasets by them with the programs that they are for.
"""

from __future__ import annotations

import hashlib
import json
import statistics

import pytest
import yaml

import beam_pipelines as bp
from beam_pipelines.cli import main as main_module

ABOUT = """\
description: Orders of a shop.
license: CC-BY-4.0
url: https://example.org/orders
citation: Orders, 2026.
creators: [Example]
published: 2026-01-31
"""
ROWS = [(row, row / 4, "ab"[row % 2], "" if row % 5 == 0 else row % 3) for row in range(40)]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("passports")
    lines = (",".join(map(str, row)) for row in ROWS)
    (folder / "orders.csv").write_text("id,price,kind,stars\n" + "\n".join(lines) + "\n")
    recipe = {
        "name": "orders",
        "sources": {"orders": str(folder / "orders.csv")},
        "split": {"train": 0.5, "eval": 0.5},
        "output": {"compression": "none"},
    }
    bp.convert(recipe, folder / "out")
    (folder / "about.yaml").write_text(ABOUT)
    return folder


def passport(folder, *options):
    return main_module.run(["passport", str(folder / "out"), *options])


def test_croissant(dataset, capsys):
    """The file has checksum, shards, rows and statistics."""
    about = str(dataset / "about.yaml")
    assert passport(dataset, "--for", "croissant", "--about", about, "--overwrite") == 0
    assert capsys.readouterr().err == ""
    found = json.loads((dataset / "out/croissant.json").read_text())
    container, shards = found["distribution"]
    manifest = (dataset / "out/dataset.json").read_bytes()
    assert container["sha256"] == hashlib.sha256(manifest).hexdigest()
    matched = sorted((dataset / "out").glob(shards["includes"]))
    entries = [
        entry for split in json.loads(manifest)["splits"].values() for entry in split["shards"]
    ]
    assert matched == sorted(dataset / "out" / entry["path"] for entry in entries)
    examples = found["recordSet"][1]
    assert examples["annotation"][0]["value"] == 40
    fields = {field["name"]: field for field in examples["field"]}
    price = {one["name"]: one["value"] for one in fields["price"]["annotation"]}
    values = [row[1] for row in ROWS]
    assert price["mean"] == pytest.approx(statistics.fmean(values))
    assert (price["minimum"], price["maximum"]) == (min(values), max(values))
    assert fields["stars"]["arrayShape"] == "-1"
    assert "isArray" not in fields["id"]


def test_croissant_identifiers(tmp_path):
    """Each is one IRI without blanks, whatever the columns' names."""
    (tmp_path / "a.csv").write_text("x,x/mean,x mean,x~2Fmean,größe,split\n1,2,3,4,5,6\n")
    bp.convert(tmp_path / "a.csv", tmp_path / "out")
    assert passport(tmp_path, "--for", "croissant") == 0
    fields = json.loads((tmp_path / "out/croissant.json").read_text())["recordSet"][1]["field"]
    found = {field["name"]: field["@id"] for field in fields[1:]}
    assert found == {
        "x": "examples/features/x",
        "x/mean": "examples/features/x~2Fmean",
        "x mean": "examples/features/x~20mean",
        "x~2Fmean": "examples/features/x~7E2Fmean",
        "größe": "examples/features/größe",
        "split": "examples/features/split",
    }
    every = [each["@id"] for field in fields for each in (field, *field.get("annotation", ()))]
    assert len(set(every)) == len(every)


def test_recommended_keys_that_lack_are_named(dataset, capsys):
    """A warning names the keys that Croissant recommends."""
    assert passport(dataset, "--for", "croissant", "--overwrite") == 0
    assert "license, citation, published" in capsys.readouterr().err


def test_hugging_face(dataset):
    """The header has license, size, splits and features."""
    about = str(dataset / "about.yaml")
    assert passport(dataset, "--for", "huggingface", "--about", about, "--overwrite") == 0
    _, header, body = (dataset / "out/README.md").read_text().split("---\n", 2)
    card = yaml.safe_load(header)
    manifest = json.loads((dataset / "out/dataset.json").read_text())
    assert card["license"] == "cc-by-4.0"
    assert card["size_categories"] == ["n<1K"]
    assert [(one["name"], one["num_examples"]) for one in card["dataset_info"]["splits"]] == [
        (name, split["rows"]) for name, split in manifest["splits"].items()
    ]
    assert card["dataset_info"]["features"] == [
        {"name": "id", "dtype": "int64"},
        {"name": "price", "dtype": "float32"},
        {"name": "kind", "dtype": "string"},
        {"name": "stars", "list": "int64"},
    ]
    assert "Orders of a shop." in body


def test_files_that_are_there_stay(dataset, capsys):
    """A file that is there is replaced only on request."""
    readme = dataset / "out/README.md"
    readme.write_text("mine")
    assert passport(dataset, "--for", "huggingface") == 2
    assert "found a file. Add --overwrite to replace it." in capsys.readouterr().err
    assert readme.read_text() == "mine"


def test_what_tensorflow_datasets_cannot_read(tmp_path, capsys):
    """Compressed shards are an error with the setting that helps."""
    (tmp_path / "a.csv").write_text("a\n1\n2\n")
    bp.convert(tmp_path / "a.csv", tmp_path / "out")
    assert passport(tmp_path, "--for", "tfds") == 1
    error = capsys.readouterr().err
    assert "found shards with gzip compression" in error
    assert "--set output.compression=none" in error
    assert not (tmp_path / "out/features.json").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("licence: MIT\n", "found an unknown key 'licence'. Did you mean 'license'?"),
        ("version: '1'\n", "expected a version of three numbers such as 1.0.0"),
        ("published: today\n", "expected a date such as 2026-01-31"),
        ("- MIT\n", "expected a mapping such as {license: CC-BY-4.0}"),
        ("", "found an empty file"),
    ],
)
def test_wrong_about(text, message, dataset, tmp_path, capsys):
    """A wrong file of facts is an error with its place."""
    about = tmp_path / "about.yaml"
    about.write_text(text)
    assert passport(dataset, "--about", str(about)) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("keys", [{"also": "parquet"}, {"format": "parquet"}])
def test_passports_name_parquet_files(tmp_path, keys, capsys):
    """Files and types are those of Parquet, which programs read by themselves."""
    lines = "\n".join(json.dumps({"id": n, "vector": [n, 1.5], "note": "ab"}) for n in range(9))
    (tmp_path / "rows.jsonl").write_text(f"{lines}\n")
    recipe = {"name": "rows", "sources": {"rows": str(tmp_path / "rows.jsonl")}, "output": keys}
    bp.convert(recipe, tmp_path / "out")
    assert passport(tmp_path) == 0
    header = yaml.safe_load((tmp_path / "out/README.md").read_text().split("---")[1])
    assert header["dataset_info"]["features"] == [
        {"name": "id", "dtype": "int64"},
        {"name": "vector", "list": "float32", "length": 2},
        {"name": "note", "dtype": "string"},
    ]
    files = {"split": "train", "path": "parquet/Split-train/*.parquet"}
    assert header["configs"] == [{"config_name": "default", "data_files": [files]}]
    assert "parquet" in header["tags"]
    shards = json.loads((tmp_path / "out/croissant.json").read_text())["distribution"][1]
    assert shards["encodingFormat"] == "application/x-parquet"
    assert len(list((tmp_path / "out").glob(shards["includes"]))) == 1
    if "format" in keys:
        assert passport(tmp_path, "--for", "tfds") == 1
        assert "found parquet shards, expected uncompressed tf.Examples" in capsys.readouterr().err
