"""The stages in another pipeline, against plain Python."""

from __future__ import annotations

import collections
import json
import pathlib
import re

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from beam_pipelines.core.errors import RecipeError
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.integrations.beam import AsBatches, AssignSplit, BatchesOf, WriteShards
from tests.integrations.beam.reading import read_examples

pytestmark = pytest.mark.end_to_end

SCHEMA = pa.schema([("user", pa.int64()), ("ad", pa.string()), ("cost", pa.float64())])


def pipeline() -> beam.Pipeline:
    """A local pipeline in this process."""
    return beam.Pipeline(runner="FnApiRunner")


def rows_of(start: int, end: int) -> list[dict]:
    """Distinct rows with nulls."""
    return [
        {
            "user": number % 50,
            "ad": None if number % 11 == 0 else f"ad{number % 7}",
            "cost": number / 4,
        }
        for number in range(start, end)
    ]


def batch_of(start: int, end: int) -> pa.RecordBatch:
    """The same rows as a batch."""
    return pa.RecordBatch.from_pylist(rows_of(start, end), SCHEMA)


def write(batches: list, folder: pathlib.Path, **options) -> None:
    """Writes batches of ``SCHEMA`` as a dataset."""
    with pipeline() as p:
        _ = p | beam.Create(batches) | AsBatches(SCHEMA) | WriteShards(str(folder), **options)


def shards_of(folder: pathlib.Path) -> dict[str, bytes]:
    """Contents of all shards by path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*.tfrecord*"))
    }


def counted(rows: list[dict]) -> collections.Counter:
    """Rows and their numbers."""
    return collections.Counter(json.dumps(row, sort_keys=True) for row in rows)


def expected_rows() -> list[dict]:
    """The rows of ``whole``, by plain Python."""
    return [{"user": row["user"], "dear": int(row["cost"] > 500)} for row in rows_of(0, 3000)]


def dear(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A user's function, after which columns are unknown."""
    is_dear = pc.greater(batch["cost"], 500).cast(pa.int32())
    return pa.RecordBatch.from_arrays([batch["user"], is_dear], ["user", "dear"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> pathlib.Path:
    """A dataset from every stage."""
    output = tmp_path_factory.mktemp("whole") / "clicks"
    with pipeline() as p:
        splits = (
            p
            | beam.Create([batch_of(start, start + 100) for start in range(0, 3000, 100)])
            | beam.Map(dear)
            | AsBatches(pa.schema([("user", pa.int64()), ("dear", pa.int32())]))
            | AssignSplit({"train": 0.7, "eval": 0.3, "by": "user"})
        )
        _ = splits | WriteShards(str(output), num_shards=3)
    return output


def test_all_rows_are_written_once(whole):
    """The shards hold the rows that plain Python computes."""
    written = [row for split in ("train", "eval") for row in read_examples(whole, split)]
    assert counted(written) == counted(expected_rows())
    assert verify_dataset(str(whole)).rows == len(expected_rows())


def test_a_user_is_in_one_split(whole):
    """Rows with one value of the deciding column are in one split."""
    users = [{row["user"] for row in read_examples(whole, split)} for split in ("train", "eval")]
    assert users[0] & users[1] == set()
    assert all(users)


def test_manifest_tells_the_splits_as_they_are(whole):
    """The manifest has every row and the splits' real shares."""
    manifest = json.loads((whole / "dataset.json").read_text())
    total = len(expected_rows())
    assert manifest["counts"]["read"] == manifest["counts"]["written"] == total
    shares = manifest["recipe"]["split"]["fractions"]
    assert shares == {name: split["rows"] / total for name, split in manifest["splits"].items()}
    assert [len(split["shards"]) for split in manifest["splits"].values()] == [3, 3]
    assert not (whole / "_temporary").exists()


def test_order_of_arrival_does_not_matter(tmp_path):
    """The order of batches does not change the shards.

    Other batches do.
    """
    batches = [batch_of(start, start + 40) for start in range(0, 400, 40)]
    write(batches, tmp_path / "a" / "d", num_shards=2)
    write(batches[::-1], tmp_path / "b" / "d", num_shards=2)
    write(batches[1:], tmp_path / "c" / "d", num_shards=2)
    assert shards_of(tmp_path / "a" / "d") == shards_of(tmp_path / "b" / "d")
    assert shards_of(tmp_path / "a" / "d") != shards_of(tmp_path / "c" / "d")


def test_equal_batches_are_all_written(tmp_path):
    """Three batches of equal rows are written three times."""
    write([batch_of(0, 30)] * 3 + [batch_of(0, 0), batch_of(30, 50)], tmp_path / "d", num_shards=2)
    rows = [{**row, "cost": row["cost"]} for row in rows_of(0, 30) * 3 + rows_of(30, 50)]
    assert counted(read_examples(tmp_path / "d", "train")) == counted(rows)
    assert verify_dataset(str(tmp_path / "d")).rows == 110


def test_nothing_is_committed_of_data_that_do_not_pass(tmp_path):
    """A null label fails the pipeline, and there is no dataset."""
    with pytest.raises(Exception, match=r"label 'ad': found 10 rows without one"):
        write([batch_of(0, 100)], tmp_path / "d", label="ad")
    assert not (tmp_path / "d" / "dataset.json").exists()


def test_a_dataset_that_is_there_stays(tmp_path):
    """A folder with a dataset is refused early, unless ``overwrite`` is set."""
    write([batch_of(0, 10)], tmp_path / "d")
    with pytest.raises(RecipeError, match="there is a dataset already"):
        write([batch_of(0, 20)], tmp_path / "d")
    write([batch_of(0, 20)], tmp_path / "d", overwrite=True)
    assert verify_dataset(str(tmp_path / "d")).rows == 20


def test_columns_travel_through_beams_own_transforms(tmp_path):
    """Filter, Reshuffle and Flatten keep the columns.

    A user function can declare them.
    """
    with pipeline() as p:
        one = p | "One" >> beam.Create([batch_of(0, 40)]) | "A" >> AsBatches(SCHEMA)
        two = p | "Two" >> beam.Create([batch_of(40, 80)]) | "B" >> AsBatches(SCHEMA)
        both = (
            (one, two)
            | beam.Flatten()
            | beam.Filter(lambda batch: batch.num_rows)
            | beam.Reshuffle()
        )
        assert both.element_type == one.element_type
        mapped = both | beam.Map(lambda batch: batch.slice(1)).with_output_types(one.element_type)
        _ = mapped | WriteShards(str(tmp_path / "d"))
    rows = rows_of(1, 40) + rows_of(41, 80)
    assert counted(read_examples(tmp_path / "d", "train")) == counted(rows)


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (lambda: AssignSplit({"train": "*.csv", "eval": "*.tsv"}), "AssignSplit: "),
        (lambda: WriteShards("out", shard_size="many"), "WriteShards: output.shard_size: found 'many'"),
        (lambda: WriteShards("out", shard_sise="1MB"), "Did you mean 'shard_size'?"),
        (lambda: WriteShards("out", shuffle=False), "WriteShards: found 'shuffle: false' or 'record'"),
    ],
    ids=["files", "size", "unknown option", "order"],
)  # fmt: skip
def test_wrong_arguments_are_found_before_the_pipeline_runs(stage, message):
    """A stage refuses wrong arguments before the pipeline runs.

    The recipe's checks find them.
    """
    with pytest.raises(RecipeError, match=re.escape(message)):
        stage()


@pytest.mark.parametrize(
    ("apply", "message"),
    [
        (lambda b: b | AssignSplit({"train": 0.5, "eval": 0.5, "by": "usr"}), "Did you mean 'user'?"),
        (lambda b: b | beam.Map(dear) | WriteShards("out"), "WriteShards: found a PCollection of Any"),
        (lambda b: b | WriteShards("out", label="lable"), "WriteShards: label"),
        (lambda b: {"train": b, "eval": b | beam.Map(dear) | "B" >> AsBatches(pa.schema([("dear", pa.int32())]))} | WriteShards("out"), "expected the same columns"),
    ],
    ids=["column", "columns unknown", "label", "columns differ"],
)  # fmt: skip
def test_what_does_not_fit_the_columns_is_found_before_the_pipeline_runs(
    apply, message, tmp_path, monkeypatch
):
    """Columns are known and checked while the pipeline is built."""
    monkeypatch.chdir(tmp_path)  # in the repository "make demo" makes a folder "out"
    batches = (
        beam.Pipeline(runner="FnApiRunner") | beam.Create([batch_of(0, 1)]) | AsBatches(SCHEMA)
    )
    with pytest.raises(RecipeError, match=re.escape(message)):
        apply(batches)


def test_batches_of_other_columns_fail(tmp_path):
    """A batch without a declared column fails the pipeline with its name."""
    with pytest.raises(
        Exception,
        match="AsBatches, column 'cost': found no such column in a batch, expected double",
    ):
        write([batch_of(0, 5).drop_columns(["cost"])], tmp_path / "d")


def test_element_type_checks_elements():
    """The element type refuses elements that are not such batches."""
    kind = BatchesOf(SCHEMA)
    kind.type_check(batch_of(0, 1))
    with pytest.raises(TypeError, match="expected a RecordBatch with the columns"):
        kind.type_check(batch_of(0, 1).select(["ad"]))
    assert kind == BatchesOf(pa.schema(list(SCHEMA)))
    assert kind != BatchesOf(pa.schema([("ad", pa.string())]))
