"""The stages in another pipeline, against plain Python."""

from __future__ import annotations

import collections
import json
import pathlib
import re

import apache_beam as beam
import pyarrow as pa
import pytest

from beam_pipelines.analysis import statistics
from beam_pipelines.core.errors import RecipeError
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.integrations.beam import (
    AsBatches,
    AssignSplit,
    BatchesOf,
    ComputeStatistics,
    EncodeFeatures,
    InferSchema,
    JoinBatches,
    ReadBatches,
    SelectBatches,
    WriteShards,
)
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    """Two tables: clicks of fifty users, and countries.

    A few users have no country.
    """
    folder = tmp_path_factory.mktemp("tables")
    lines = [f"{row['user']},{row['ad'] or ''},{row['cost']}" for row in rows_of(0, 3000)]
    (folder / "clicks.csv").write_text("\n".join(["user,ad,cost", *lines]) + "\n")
    lines = [f"{user},{'de' if user % 2 else 'fr'}" for user in range(40)]
    (folder / "users.csv").write_text("\n".join(["user,country", *lines]) + "\n")
    (folder / "twice.csv").write_text("user,country\n1,de\n1,fr\n")
    return folder


def expected_rows() -> list[dict]:
    """The rows of ``whole``, by plain Python."""
    rows = [row for row in rows_of(0, 3000) if row["cost"] > 10 and row["user"] < 40]
    return [
        {**row, "dear": int(row["cost"] > 500), "c_country": "de" if row["user"] % 2 else "fr"}
        for row in rows
    ]


@pytest.fixture(scope="module", params=["broadcast", "hash"])
def whole(request, folder, tmp_path_factory) -> pathlib.Path:
    """A dataset from every stage on tables."""
    output = tmp_path_factory.mktemp("whole") / "clicks"
    right = {"path": str(folder / "users.csv"), "key": "user"}
    with pipeline() as p:
        splits = (
            p
            | ReadBatches(str(folder / "clicks.csv"), types={"cost": "float64"})
            | JoinBatches(right, on="user", how="inner", prefix="c_", strategy=request.param)
            | SelectBatches(filter="cost > 10", derive={"dear": "cost > 500"})
            | AssignSplit({"train": 0.7, "eval": 0.3, "by": "user"})
        )
        _ = splits | WriteShards(str(output), num_shards=3)
    return output


def test_all_rows_are_written_once(whole):
    """The shards hold the rows that plain Python reads, joins and selects."""
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


def test_encodings_are_fitted_on_train(tmp_path):
    """A vocabulary counts the strings of train.

    Its chain is fitted on its ids.
    """
    train = [batch_of(0, 700), batch_of(700, 1400)]
    other = [pa.RecordBatch.from_pylist([{"user": 1, "ad": "new", "cost": 0.0}], SCHEMA)]
    with pipeline() as p:
        splits = {
            "train": p | "Train" >> beam.Create(train) | "A" >> AsBatches(SCHEMA),
            "eval": p | "Eval" >> beam.Create(other) | "B" >> AsBatches(SCHEMA),
        }
        encode = {"ad": [{"fill": "none"}, "vocabulary"], "cost": "min_max"}
        encoded = splits | EncodeFeatures(encode, temp_location=str(tmp_path / "temp"))
        _ = encoded | WriteShards(str(tmp_path / "d"))
    counts = collections.Counter(row["ad"] or "none" for row in rows_of(0, 1400))
    # Ties in order of the text, the greater one first, as tf.Transform has it.
    order = sorted(counts, key=lambda text: (counts[text], text), reverse=True)
    numbers = {text: number for number, text in enumerate(order)}
    expected = collections.Counter(
        (row["user"], numbers[row["ad"] or "none"]) for row in rows_of(0, 1400)
    )
    rows = read_examples(tmp_path / "d", "train")
    assert collections.Counter((row["user"], row["ad"]) for row in rows) == expected
    assert max(row["cost"] for row in rows) == 1.0
    assert [row["ad"] for row in read_examples(tmp_path / "d", "eval")] == [-1]


def test_statistics_and_schema(tmp_path, folder):
    """Statistics equal plain Python's, and the schema is inferred from them."""
    seen = []
    with pipeline() as p:
        splits = (
            p
            | ReadBatches(str(folder / "clicks.csv"))
            | SelectBatches(keep=["user", "ad"])
            | AssignSplit({"train": 0.5, "eval": 0.5})
        )
        computed = splits | ComputeStatistics(slice_by=["user"], output=str(tmp_path))
        _ = computed | InferSchema(output=str(tmp_path / "schema.pbtxt"))
        _ = computed | beam.Map(
            lambda found: (tmp_path / "rows").write_text(str(sum(s.rows for s in found.values())))
        )
    assert (tmp_path / "rows").read_text() == "3000"
    seen = statistics.datasets.read_accumulators(str(tmp_path)).splits
    assert sum(split.columns["ad"].missing for split in seen.values()) == sum(
        row["ad"] is None for row in rows_of(0, 3000)
    )
    assert len(seen["train"].slices) == 50
    assert re.findall(r'name: "(\w+)"', (tmp_path / "schema.pbtxt").read_text())[:2] == [
        "user",
        "ad",
    ]


def test_columns_travel_through_beams_own_transforms(tmp_path, folder):
    """Filter, Reshuffle and Flatten keep the columns.

    A user function can declare them.
    """
    with pipeline() as p:
        one = p | "One" >> ReadBatches(str(folder / "users.csv"))
        two = p | "Two" >> ReadBatches(str(folder / "users.csv"))
        both = (
            (one, two)
            | beam.Flatten()
            | beam.Filter(lambda batch: batch.num_rows)
            | beam.Reshuffle()
        )
        assert both.element_type == one.element_type
        mapped = both | beam.Map(lambda batch: batch.slice(1)).with_output_types(one.element_type)
        _ = mapped | SelectBatches(filter="country = 'de'") | WriteShards(str(tmp_path / "d"))
    assert [row["country"] for row in read_examples(tmp_path / "d", "train")] == ["de"] * 40


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (lambda: ReadBatches("absent-*.csv"), "ReadBatches: sources.source.path: no file matches 'absent-*.csv'"),
        (lambda: ReadBatches("a.csv", delimeter=";"), "Did you mean 'delimiter'?"),
        (lambda: SelectBatches(drop=["a"], keep=["b"]), "SelectBatches: "),
        (lambda: AssignSplit({"train": "*.csv", "eval": "*.tsv"}), "AssignSplit: "),
        (lambda: EncodeFeatures({"a": "vocabluary"}), None),
        (lambda: WriteShards("out", shard_size="many"), "WriteShards: output.shard_size: found 'many'"),
        (lambda: WriteShards("out", shuffle=False), "WriteShards: found 'shuffle: false' or 'record'"),
        (lambda: ComputeStatistics(slice_by={"a": 1}), "ComputeStatistics: statistics.slice_by"),
    ],
    ids=["no file", "unknown option", "both", "files", "encoding", "size", "order", "slices"],
)  # fmt: skip
def test_wrong_arguments_are_found_before_the_pipeline_runs(stage, message):
    """A stage refuses wrong arguments before the pipeline runs.

    The recipe's checks find them.
    """
    if message is None:
        with pytest.raises(RecipeError, match="Did you mean 'vocabulary'"):
            _ = (
                beam.Pipeline(runner="FnApiRunner")
                | beam.Create([batch_of(0, 1)])
                | AsBatches(SCHEMA)
                | stage()
            )
        return
    with pytest.raises(RecipeError, match=re.escape(message)):
        stage()


@pytest.mark.parametrize(
    ("apply", "message"),
    [
        (lambda b: b | SelectBatches(filter="cots > 1"), "SelectBatches: filter: 'cots > 1'"),
        (lambda b: b | AssignSplit({"train": 0.5, "eval": 0.5, "by": "usr"}), "Did you mean 'user'?"),
        (lambda b: b | EncodeFeatures({"ad": "vocabulary"}), "found encodings that are fitted, but no temp_location"),
        (lambda b: b | beam.Map(lambda batch: batch.slice(1)) | SelectBatches(), "SelectBatches: found a PCollection of Any"),
        (lambda b: b | WriteShards("out", label="lable"), "WriteShards: label"),
        (lambda b: {"train": b, "eval": b | SelectBatches(drop=["ad"])} | ComputeStatistics(), "expected the same columns"),
    ],
    ids=[
        "expression",
        "column",
        "temp_location",
        "columns unknown",
        "label",
        "columns differ",
    ],
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


def test_a_key_that_is_declared_unique_is_checked(tmp_path, folder):
    """A repeated key of a right source fails the pipeline.

    Elsewhere 'key' is refused.
    """
    with pytest.raises(RecipeError, match="ReadBatches: found 'key'"):
        ReadBatches(str(folder / "users.csv"), key="user")
    right = {"path": str(folder / "twice.csv"), "key": "user"}
    p = pipeline()
    joined = (
        p | ReadBatches(str(folder / "clicks.csv")) | JoinBatches(right, on="user", strategy="hash")
    )
    _ = joined | WriteShards(str(tmp_path / "d"))
    with pytest.raises(Exception, match="right: found user=1 2 times, expected once"):
        p.run().wait_until_finish()
    assert not (tmp_path / "d" / "dataset.json").exists()


def test_element_type_checks_elements():
    """The element type refuses elements that are not such batches."""
    kind = BatchesOf(SCHEMA)
    kind.type_check(batch_of(0, 1))
    with pytest.raises(TypeError, match="expected a RecordBatch with the columns"):
        kind.type_check(batch_of(0, 1).select(["ad"]))
    assert kind == BatchesOf(pa.schema(list(SCHEMA)))
    assert kind != BatchesOf(pa.schema([("ad", pa.string())]))
