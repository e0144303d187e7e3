"""Parquet shards have the rows of TFRecord shards, for every reader."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

import beam_pipelines as bp
from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.dataset.inspect import inspect_examples
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.pipeline.convert import convert
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from tests.sources.test_tfrecord_sequences import sequence, write_records
from tests.support.runs import plan_in

pytestmark = pytest.mark.end_to_end

ROWS = 3_000
STEPS = [[[1.0, 2.0], [3.0]], [[4.0], None], [], [None, [5.0]]]
RECIPES = {
    "rows": """
name: visits
sources: {visits: visits.jsonl}
split: {train: 0.75, eval: 0.25}
encode: {place: [vocabulary], score: z_score}
output: {num_shards: 2, FORMAT}
""",
    "sequences": """
name: visits
sources: {visits: visits.jsonl}
keep: [id, place, score, tags]
sequence: {group_by: place, order_by: id}
output: {num_shards: 2, FORMAT}
""",
    "steps": """
name: visits
sources: {visits: steps.tfrecord}
sequence: {features: [x]}
output: {num_shards: 2, shuffle: false, FORMAT}
""",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with columns of every kind, and records with steps."""
    folder = tmp_path_factory.mktemp("data")
    chosen = random.Random(5)
    with (folder / "visits.jsonl").open("w") as file:
        for number in range(ROWS):
            row: dict[str, Any] = {
                "id": number,
                "place": chosen.choice(["Rom", "Øslo", "パリ"]),
                "score": chosen.choice([None, 1.5, -0.0]),
                "note": "".join(chosen.choices("abc ", k=1_000)),
                "embedding": [[chosen.random(), 1.0], [0.5, 2.0], [0.25, 3.0]],
                "tags": chosen.choice([[], ["a"], ["b", "ç"]]),
                "is_new": number % 3 == 0,
                "day": f"2026-11-{1 + number % 28:02d}",
            }
            if number % 7 == 0:
                del row["tags"]
            file.write(json.dumps(row) + "\n")
    records = [sequence({"id": [n]}, {"x": STEPS[n % len(STEPS)]}) for n in range(50)]
    write_records(folder / "steps.tfrecord", *records)
    return folder


@pytest.fixture(scope="module")
def datasets(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """Kind and format -> the dataset."""
    found = {}
    for kind, text in RECIPES.items():
        for name, keys in (("records", "format: tfrecord"), ("parquet", "format: parquet")):
            found[kind, name] = output = tmp_path_factory.mktemp("d") / f"{kind}-{name}"
            convert(plan_in(data, text.replace("FORMAT", keys)), str(output), quiet=True)
    return found


def of_records(folder: Path) -> Iterator[dict[str, Any]]:
    """Yields the rows of TFRecord shards as TensorFlow reads them."""
    for path in sorted(folder.glob("examples/*/*")):
        for record in tf.data.TFRecordDataset(str(path), "GZIP").as_numpy_iterator():
            found = tf.train.SequenceExample.FromString(record)
            row = {name: values_of(one) for name, one in found.context.feature.items()}
            for name, steps in found.feature_lists.feature_list.items():
                row[name] = [values_of(one) for one in steps.feature]
            yield row


def values_of(feature: tf.train.Feature) -> list[Any] | None:
    kind = feature.WhichOneof("kind")
    return None if kind is None else list(getattr(feature, kind).value)


def of_parquet(folder: Path) -> Iterator[dict[str, Any]]:
    """Yields the rows of Parquet shards as DuckDB reads them."""
    for path in sorted(folder.glob("parquet/*/*")):
        found = duckdb.sql(f"FROM read_parquet('{path}')")
        yield from (dict(zip(found.columns, row, strict=True)) for row in found.fetchall())


def plain(value: Any) -> Any:
    """Returns a value as TensorFlow has it: bytes, and no nested shapes."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def flat(value: Any) -> list[Any] | None:
    """Returns a feature's values in one list, or ``None``."""
    if value is None:
        return None
    if not isinstance(value, list):
        return [plain(value)]
    return [item for one in value for item in flat(one) or ()]


def test_duckdb_reads_the_rows_of_tensorflow(datasets: dict[tuple[str, str], Path]) -> None:
    """Values and order are equal, shard by shard."""
    wanted = list(of_records(datasets["rows", "records"]))
    found = list(of_parquet(datasets["rows", "parquet"]))
    assert not (datasets["rows", "parquet"] / "examples").exists()
    assert len(wanted) == len(found) == ROWS
    for row, other in zip(wanted, found, strict=True):
        assert row == {n: v for n, value in other.items() if (v := flat(value)) is not None}


def test_sequences_are_lists(datasets: dict[tuple[str, str], Path]) -> None:
    """A feature list is a list; empty steps are null."""
    for kind in ("sequences", "steps"):
        wanted = list(of_records(datasets[kind, "records"]))
        found = list(of_parquet(datasets[kind, "parquet"]))
        assert len(wanted) == len(found) > 0
        for row, other in zip(wanted, found, strict=True):
            for name, value in row.items():
                own = plain(other[name])
                if name in ("x", "tags") and kind == "steps":
                    assert own == value
                elif isinstance(value[0] if value else None, list) or None in value:
                    steps = [None if one is None else flat(one) for one in own]
                    assert steps == value
                else:
                    assert flat(own) == value


def test_types_are_those_of_the_features(datasets: dict[tuple[str, str], Path]) -> None:
    """Shapes are fixed-size lists, and all shards have one schema."""
    schemas = {
        str(pq.read_schema(path))
        for path in datasets["rows", "parquet"].glob("parquet/*/*.parquet")
    }
    assert len(schemas) == 1
    schema = pads.dataset(datasets["rows", "parquet"] / "parquet" / "Split-train").schema
    assert {field.name: str(field.type).replace("element", "item") for field in schema} == {
        "id": "int64",
        "place": "int64",
        "score": "float",
        "note": "string",
        "embedding": "fixed_size_list<item: fixed_size_list<item: float>[2]>[3]",
        "tags": "list<item: string>",
        "is_new": "int64",
        "day": "int64",
    }
    assert len(pd.read_parquet(datasets["rows", "parquet"] / "parquet" / "Split-eval")) > 500


def equal(one: Any, other: Any) -> bool:
    """Whether values of two batches are equal, with their types."""
    if isinstance(one, tuple):
        return all(equal(*pair) for pair in zip(one, other, strict=True))
    if isinstance(one, pa.Array):
        return bool(one.type == other.type and one.to_pylist() == other.to_pylist())
    one, other = np.asarray(one), np.asarray(other)
    return one.dtype == other.dtype and one.shape == other.shape and one.tolist() == other.tolist()


@pytest.mark.parametrize("kind", RECIPES)
@pytest.mark.parametrize("as_", ["numpy", "arrow", "records"])
def test_batches_are_those_of_tfrecords(datasets, kind, as_):
    """Without a shuffle, every batch has the same values and types."""
    records, alone = (bp.open(datasets[kind, name]) for name in ("records", "parquet"))
    for split in records.splits:
        options: dict[str, Any] = {"batch_size": 64, "as_": as_, "shuffle": False}
        pairs = zip(records.batches(split, **options), alone.batches(split, **options), strict=True)
        for wanted, found in pairs:
            assert list(wanted) == list(found)
            assert all(equal(wanted[name], found[name]) for name in wanted)


def test_shuffled_ranks_and_states(datasets: dict[tuple[str, str], Path]) -> None:
    """Ranks divide an epoch; a state resumes it; columns can be chosen."""
    dataset = bp.open(datasets["rows", "parquet"])
    readers = [
        dataset.batches("train", 50, columns=["id"], rank=rank, world_size=2) for rank in range(2)
    ]
    batches = [list(reader) for reader in readers]
    ids = [int(value) for own in batches for batch in own for value in batch["id"]]
    assert sorted(ids) == sorted(set(ids))
    assert len(ids) == dataset.splits["train"]
    assert ids != sorted(ids)
    reader = dataset.batches("train", 50, columns=["id"], rank=1, world_size=2)
    for _ in range(7):
        next(reader)
    state = json.loads(json.dumps(reader.state_dict()))
    other = dataset.batches("train", 50, columns=["id"], rank=1, world_size=2)
    other.load_state_dict(state)
    rest = [batch["id"].tolist() for batch in other]
    assert rest == [batch["id"].tolist() for batch in batches[1][7:]]
    taken = dataset.batches("train", columns=["id"], shuffle=False)
    assert taken.take([5, 0, 700])["id"].tolist() == [
        np.concatenate([batch["id"] for batch in taken])[row] for row in (5, 0, 700)
    ]


def test_other_commands_read_parquet(datasets: dict[tuple[str, str], Path]) -> None:
    """Verify, inspect and head do what they do for TFRecords."""
    records, alone = (datasets["rows", name] for name in ("records", "parquet"))
    assert verify_dataset(str(records)).rows == verify_dataset(str(alone)).rows == ROWS
    assert bp.open(alone).head(20) == bp.open(records).head(20)
    shown = [
        "".join(inspect_examples(str(folder), 3)).replace(str(folder), "")
        for folder in (records, alone)
    ]
    assert shown[0].splitlines()[1:4] == shown[1].splitlines()[1:4]
    tensors = next(iter(bp.open(alone).batches("eval", 8, as_="tf", shuffle=False)))
    wanted = next(iter(bp.open(records).batches("eval", 8, as_="tf", shuffle=False)))
    assert tensors["id"].numpy().tolist() == wanted["id"].numpy().tolist()


def test_damage_is_found(datasets: dict[tuple[str, str], Path], tmp_path: Path) -> None:
    """Changed bytes and missing ones name the file."""
    alone = tmp_path / "parquet"
    shutil.copytree(datasets["rows", "parquet"], alone)
    paths = sorted(alone.glob("parquet/Split-train/*"))
    content = bytearray(paths[0].read_bytes())
    content[500] ^= 1
    paths[0].write_bytes(content)
    with pytest.raises(DataError, match=rf"{paths[0].name}.*row group with CRC-32"):
        list(bp.open(alone).batches("train"))
    with pytest.raises(DataError, match="CRC-32"):
        verify_dataset(str(alone))
    paths[0].write_bytes(bytes(content[:-100]))
    with pytest.raises(DataError, match=r"expected .* bytes as dataset\.json says"):
        bp.open(alone).batches("train")


WRONG = {
    "format: parquet, record: note": "record: found it with the format 'parquet'",
    "format: parquet, compression: gzip": "compression: found it with 'format: parquet'",
    "format: parquet, part_size: 1 MiB": "part_size: found it with 'format: parquet'",
    "format: avro": "format: found 'avro', expected tfrecord or parquet",
}


@pytest.mark.parametrize("keys", WRONG)
def test_wrong_formats(keys: str) -> None:
    """The error says what was found and expected, at its line."""
    text = f"name: a\nsources: {{a: a.csv}}\noutput: {{{keys}}}\n"
    with pytest.raises(RecipeError, match=r"recipe\.yaml:3") as error:
        parse_recipe(text, "recipe.yaml", ".")
    assert WRONG[keys] in str(error.value)
