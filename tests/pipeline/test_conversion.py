"""Invariants of whole conversions."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.pipeline import convert
from tests.support.contents import TIMED, contents
from tests.support.kernels import without_kernels
from tests.support.read_examples import read_records
from tests.support.runs import plan_in, short_ranges

pytestmark = pytest.mark.end_to_end

ROWS = 6_000
RANGE_BYTES = 40_000

RECIPE = """
name: visits
sources:
  visits: {path: visits.csv, types: {comment: text}}
  users: {path: users.jsonl, key: user}
from: visits
join:
  - {source: users, on: user, how: inner, prefix: user_, strategy: STRATEGY}
filter: seconds >= 10
derive:
  long: seconds > 300
drop: [seconds]
encode:
  day: {cast: float32}
label: long
split: {train: 0.7, eval: 0.3, by: [user]}
output: {num_shards: 3, shuffle_seed: 5}
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of visits, and one of most users.

    The visits have multi-line cells, quotes and nulls.
    """
    folder = tmp_path_factory.mktemp("data")
    rng = random.Random(1)
    lines = ["user,day,seconds,comment"]
    for _ in range(ROWS):
        comment = rng.choice(["", "fine", '"two\nlines"', '"a ""quote"""', "NA", "é"])
        lines.append(
            f"u{rng.randrange(300)},{rng.randrange(30)},{rng.choice(['', rng.randrange(600)])},{comment}"
        )
    (folder / "visits.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    users = [
        json.dumps({"user": f"u{number}", "age": number % 90, "home": {"city": f"c{number % 7}"}})
        for number in range(250)
    ]
    (folder / "users.jsonl").write_text("\n".join(users) + "\n")
    return folder


@pytest.fixture(autouse=True)
def _small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cuts the small tables into several ranges."""
    short_ranges(monkeypatch, RANGE_BYTES)


def converted(
    data: Path, output: Path, *options: str, recipe: str = RECIPE, **arguments: Any
) -> Manifest:
    """Converts and returns the manifest."""
    text = recipe.replace("STRATEGY", arguments.pop("strategy", "broadcast"))
    options = options or ("--direct_num_workers=1",)
    plan = plan_in(data, text)
    return convert.convert(plan, str(output), beam_options=options, quiet=True, **arguments)


def records(dataset: Path) -> dict[str, bytes]:
    """Returns file -> decompressed bytes, of shards, schema and statistics."""
    paths = [path for path in dataset.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(dataset)): gzip.decompress(path.read_bytes())
        if path.suffix == ".gz"
        else path.read_bytes()
        for path in paths
        if path.relative_to(dataset).parts[0] in ("examples", "schema", "statistics")
    }


def examples(dataset: Path, split: str) -> list[tf.train.Example]:
    """Reads a split with TensorFlow alone."""
    return [tf.train.Example.FromString(record) for record in read_records(dataset, split)]


def value(example: tf.train.Example, name: str) -> Any:
    """Returns a feature's only value, or None if it is absent."""
    feature = example.features.feature.get(name)
    kind = feature.WhichOneof("kind") if feature else None
    return getattr(feature, kind).value[0] if kind else None


def expected_rows(data: Path) -> Counter[tuple[Any, ...]]:
    """Computes the converted rows with Python's own csv and json modules."""
    import csv

    users = {
        user["user"]: user
        for user in map(json.loads, (data / "users.jsonl").read_text().splitlines())
    }
    rows: Counter[tuple[Any, ...]] = Counter()
    with open(data / "visits.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["user"] in users and row["seconds"] and int(row["seconds"]) >= 10:
                user = users[row["user"]]
                comment = None if row["comment"] in ("", "NA") else row["comment"].encode()
                long = int(int(row["seconds"]) > 300)
                rows[
                    row["user"].encode(),
                    float(row["day"]),
                    comment,
                    long,
                    user["age"],
                    user["home"]["city"].encode(),
                ] += 1
    return rows


def test_every_row_arrives_once_with_its_values(data: Path, tmp_path: Path) -> None:
    """TensorFlow reads all rows of csv and json from the shards.

    Users keep their split.
    """
    manifest = converted(data, tmp_path / "out")
    names = ("user", "day", "comment", "long", "user_age", "user_home.city")
    found = {
        split: [
            tuple(value(example, name) for name in names)
            for example in examples(tmp_path / "out", split)
        ]
        for split in ("train", "eval")
    }
    assert Counter(found["train"] + found["eval"]) == expected_rows(data)
    assert not {row[0] for row in found["train"]} & {row[0] for row in found["eval"]}
    counts = manifest.counts
    assert counts.read == ROWS == counts.written + counts.filtered + counts.dropped
    for split, rows in found.items():
        shards = manifest.splits[split].shards
        assert len(shards) == 3
        assert sum(shard.rows for shard in shards) == len(rows)
        assert max(shard.rows for shard in shards) - min(shard.rows for shard in shards) <= 1


def test_the_way_does_not_matter(data: Path, tmp_path: Path) -> None:
    """Workers, processes and join strategies do not change a byte.

    Without the kernels the records are the same.
    """
    converted(data, tmp_path / "one")
    expected = contents(tmp_path / "one", TIMED)
    ways: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
        "processes": (("--direct_num_workers=2", "--direct_running_mode=multi_processing"), {}),
        "threads": (("--direct_num_workers=4", "--direct_running_mode=multi_threading"), {}),
        "hash": (("--direct_num_workers=1",), {"strategy": "hash"}),
    }
    for name, (options, arguments) in ways.items():
        converted(data, tmp_path / name, *options, **arguments)
        found = contents(tmp_path / name, TIMED)
        assert found == expected, name
    with without_kernels():  # another compressor: the same records in other bytes
        converted(data, tmp_path / "reference")
    assert records(tmp_path / "reference") == records(tmp_path / "one")


@pytest.mark.parametrize("shuffle", ["true", "false"])
def test_shard_sizes(tmp_path: Path, shuffle: str) -> None:
    """Shards are within 25 % of the asked size.

    Their rows differ by at most 5 %.
    """
    rng = np.random.default_rng(3)
    lines = ["a,b,c"] + [
        f"{a},{b:.6f},{'x' * (a % 50)}"
        for a, b in zip(rng.integers(0, 10**6, 60_000), rng.random(60_000), strict=True)
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    recipe = (
        f"name: t\nsources: {{t: {{path: t.csv}}}}\noutput: {{shard_size: 200 KB, shuffle: "
        f"{shuffle}}}"
    )
    shards = converted(tmp_path, tmp_path / "out", recipe=recipe).splits["train"].shards
    assert len(shards) > 3
    assert all(150_000 <= shard.bytes <= 250_000 for shard in shards)
    rows = [shard.rows for shard in shards]
    assert max(rows) <= 1.05 * min(rows)


def test_empty_split_and_more_shards_than_rows(tmp_path: Path) -> None:
    """Empty splits and shards are files that TensorFlow reads."""
    (tmp_path / "t.csv").write_text("a\n1\n2\n")
    recipe = (
        "name: t\nsources: {t: {path: t.csv}}\nsplit: {train: 0.99, eval: 0.01}\noutput: "
        "{num_shards: 3}"
    )
    manifest = converted(tmp_path, tmp_path / "out", recipe=recipe)
    assert manifest.splits["eval"].rows == 0
    assert len(examples(tmp_path / "out", "train")) == 2
    assert examples(tmp_path / "out", "eval") == []
    verify_dataset(str(tmp_path / "out"))


def test_a_key_of_the_base_source_has_to_be_unique(tmp_path: Path) -> None:
    """A repeated key is an error with its number of rows."""
    (tmp_path / "t.csv").write_text(
        "id,v\n" + "".join(f"{number % 5000},{'x' * 20}\n" for number in range(5001))
    )
    with pytest.raises(DataError, match=r"(?s)0.*2 "):
        converted(
            tmp_path, tmp_path / "out", recipe="name: t\nsources: {t: {path: t.csv, key: id}}"
        )


def test_output_that_exists(data: Path, tmp_path: Path) -> None:
    """A dataset is replaced only with --overwrite, and other files never."""
    converted(data, tmp_path / "out")
    before = contents(tmp_path / "out", TIMED)
    with pytest.raises(RecipeError, match="there is a dataset already"):
        converted(data, tmp_path / "out")
    converted(data, tmp_path / "out", overwrite=True)
    assert contents(tmp_path / "out", TIMED) == before
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("meow")
    with pytest.raises(RecipeError, match="expected an empty or new folder"):
        converted(data, tmp_path / "photos", overwrite=True)
    assert (tmp_path / "photos" / "cat.jpg").exists()


def test_a_failed_overwrite_keeps_the_old_dataset(data: Path, tmp_path: Path) -> None:
    """When the new conversion fails, the old dataset is complete."""
    converted(data, tmp_path / "out")
    before = contents(tmp_path / "out", TIMED)
    broken = RECIPE.replace("seconds > 300", "CAST(comment AS INTEGER) > 1").replace(
        "STRATEGY", "broadcast"
    )
    with pytest.raises(DataError):
        converted(data, tmp_path / "out", recipe=broken, overwrite=True)
    assert contents(tmp_path / "out", TIMED) == before
    verify_dataset(str(tmp_path / "out"))


def test_an_input_that_changes_during_the_run_is_noticed(data, tmp_path, monkeypatch):
    """A base file that changes after its read fails the run."""
    source = tmp_path / "v.csv"
    source.write_text("a,b\n1,2\n3,4\n")
    original = convert.first_pass_result.check_anomalies

    def change(*arguments: Any) -> Any:
        source.write_text("a,b\n1,2\n3,5\n")
        return original(*arguments)

    monkeypatch.setattr(convert.first_pass_result, "check_anomalies", change)
    recipe = "name: v\nsources: {v: {path: v.csv}}"
    with pytest.raises(DataError, match=r"v\.csv: the file changed during the run"):
        converted(tmp_path, tmp_path / "out", recipe=recipe)
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_a_right_source_that_changes_during_the_run_is_noticed(data, tmp_path, monkeypatch):
    """A joined file that changes during the run fails it."""
    (tmp_path / "visits.csv").write_bytes((data / "visits.csv").read_bytes())
    users = tmp_path / "users.jsonl"
    users.write_bytes((data / "users.jsonl").read_bytes())
    original = convert.first_pass_result.check_anomalies

    def change(*arguments: Any) -> Any:
        users.write_bytes((data / "users.jsonl").read_bytes().replace(b'"age": 1,', b'"age": 2,'))
        return original(*arguments)

    monkeypatch.setattr(convert.first_pass_result, "check_anomalies", change)
    with pytest.raises(DataError, match=r"users\.jsonl: the file changed during the run"):
        converted(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_null_label_is_an_error(tmp_path: Path) -> None:
    """A row without a label is not written silently."""
    (tmp_path / "t.csv").write_text("a,y\n1,2\n3,\n")
    with pytest.raises(DataError, match="label 'y': found 1 row without one"):
        converted(
            tmp_path, tmp_path / "out", recipe="name: t\nsources: {t: {path: t.csv}}\nlabel: y"
        )


def test_anomalies_stop_before_anything_is_written(data: Path, tmp_path: Path) -> None:
    """Data that violate the schema leave no shard."""
    (tmp_path / "t.csv").write_text("a\n1\n2\n")
    (tmp_path / "s.pbtxt").write_text(
        'feature { name: "a" type: BYTES }\nfeature { name: "b" type: INT presence { min_fraction: '
        "1 } }"
    )
    with pytest.raises(DataError, match=r"(?s)nothing was written.*train  a .*train  b "):
        converted(
            tmp_path,
            tmp_path / "out",
            recipe="name: t\nsources: {t: {path: t.csv}}\nschema: s.pbtxt",
        )
    assert not list((tmp_path / "out").rglob("*.tfrecord*"))
