"""A reader gives every row once, resumes, and explains damage."""

from __future__ import annotations

import functools
import json
import operator
import subprocess
import sys
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings

import beam_pipelines as bp
from beam_pipelines.core import _native
from beam_pipelines.core.errors import DataError
from beam_pipelines.reader import lanes, order, pipeline
from tests.dataset.test_loader import SCHEMA, write_dataset

ROWS = 400
MORE = """
feature { name: "pair" type: FLOAT presence { min_fraction: 1 min_count: 1 } shape { dim { size: 2 } } }
feature { name: "text" type: BYTES presence { min_fraction: 1 min_count: 1 } shape { dim { size: 1 } } }
"""


def finish(folder: str, **more) -> str:
    """Adds the fields of a whole manifest, which ``bp.open`` asks for."""
    path = Path(folder) / "dataset.json"
    manifest = json.loads(path.read_text())
    for split in manifest["splits"].values():
        for shard in split["shards"]:
            shard["crc32c"] = "00000000"
        split.setdefault("bytes", 0)
    counts = dict.fromkeys(("read", "added", "dropped", "filtered", "merged", "written"), 0)
    path.write_text(
        json.dumps(manifest | {"record": "example", "counts": counts, "sources": {}} | more)
    )
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A dataset of 400 rows in six shards, one of them empty."""
    return finish(write_dataset(tmp_path_factory.mktemp("reader"), [90, 0, 110, 1, 99, 100]))


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Makes windows of ten rows, groups of 64, chunks of two kilobytes."""
    monkeypatch.setattr(order, "WINDOW_BYTES", 8_000)
    monkeypatch.setattr(pipeline, "GROUP_ROWS", 64)
    monkeypatch.setattr(lanes, "CHUNK_BYTES", 2_000)


def batches(folder, **options):
    return bp.open(folder).batches("train", **{"batch_size": 32, **options})


def ids(reader):
    return [batch["id"].tolist() for batch in reader]


def test_every_row_once_an_epoch(folder):
    """An epoch has each row once, with its own values."""
    with batches(folder, fill={"half": -1.0}, epochs=2) as reader:
        assert len(reader) == 26
        found = list(reader)
    assert [len(batch["id"]) for batch in found] == ([32] * 12 + [16]) * 2
    numbers = np.concatenate([batch["id"] for batch in found])
    assert sorted(numbers[:ROWS]) == sorted(numbers[ROWS:]) == list(range(ROWS))
    assert numbers[:ROWS].tolist() != numbers[ROWS:].tolist()
    assert numbers.dtype == np.int64
    for batch in found:
        assert batch["odd"].tolist() == (batch["id"] % 2).tolist()
        assert batch["half"].dtype == np.float32
        assert batch["half"].tolist() == [n / 2 if n % 2 == 0 else -1 for n in batch["id"]]
        words = batch["words"]
        assert words.offsets[0] == 0
        assert words.is_present.all()  # also where there are no values
        for row, number in enumerate(batch["id"].tolist()):
            own = words.values[words.offsets[row] : words.offsets[row + 1]]
            assert own.tolist() == [b"w%d" % number] * (number % 10)


def test_missing_values(folder):
    """Without a fill value, missing values are marked."""
    for batch in batches(folder):
        half = batch["half"]
        assert half.is_present.tolist() == [n % 2 == 0 for n in batch["id"]]
        assert half.values.tolist() == [n / 2 for n in batch["id"] if n % 2 == 0]
        assert np.diff(half.offsets).tolist() == [n % 2 == 0 for n in batch["id"]]


def test_rows_are_those_of_tensorflow(folder):
    """In order, rows have the values that TensorFlow parses."""
    found = np.concatenate(
        functools.reduce(operator.iadd, ([b["id"]] for b in batches(folder, shuffle=False)), [])
    )
    paths = [shard.path for shard in bp.info(folder).split("train").shards]
    spec = {"id": tf.io.FixedLenFeature([], tf.int64)}
    records = tf.data.TFRecordDataset(paths, "GZIP").batch(ROWS)
    (parsed,) = records.map(lambda batch: tf.io.parse_example(batch, spec))
    assert found.tolist() == parsed["id"].numpy().tolist()


def test_arrays_may_be_written_to(folder):
    """Numbers are contiguous arrays of their own memory."""
    first, second = (next(batches(folder, fill={"half": 0})) for _ in range(2))
    for name in ("id", "odd", "half"):
        first[name] += 1
        assert first[name].flags.c_contiguous
        assert (first[name] == second[name] + 1).all()


def test_arrow(folder):
    """Arrow arrays have the values and nulls of the rows."""
    for batch in batches(folder, as_="arrow", columns=["words", "id", "half"]):
        assert list(batch) == ["words", "id", "half"]
        assert batch["id"].type == pa.int64()
        numbers = batch["id"].to_pylist()
        assert batch["half"].to_pylist() == [[n / 2] if n % 2 == 0 else None for n in numbers]
        expected = [[b"w%d" % n] * (n % 10) for n in numbers]
        assert batch["words"].to_pylist() == expected


def test_torch(folder):
    """Tensors share the memory of the arrays and have their values."""
    torch = pytest.importorskip("torch")
    for batch, expected in zip(batches(folder, as_="torch"), batches(folder), strict=True):
        assert isinstance(batch["id"], torch.Tensor)
        assert batch["id"].tolist() == expected["id"].tolist()
        assert batch["half"].values.dtype == torch.float32
        assert batch["half"].is_present.tolist() == expected["half"].is_present.tolist()
        assert batch["words"].values.tolist() == expected["words"].values.tolist()


def test_torch_missing(folder, monkeypatch):
    """Without PyTorch, asking for tensors says so."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ValueError, match="PyTorch cannot be imported"):
        batches(folder, as_="torch")


@pytest.mark.parametrize("compression", ["none", "zlib", "gzip"])
@pytest.mark.parametrize("as_", ["numpy", "arrow"])
def test_shapes_and_compressions(tmp_path, monkeypatch, compression, as_):
    """Vectors are [batch, n]; every compression is read, with kernels and without."""
    folder = write_dataset(tmp_path, [5, 6], compression, schema=SCHEMA + MORE)
    for path in tmp_path.glob("examples/*/t-*-of-00002*"):
        write = {"none": ""}.get(compression, compression.upper())
        records = [
            tf.train.Example.FromString(record.numpy())
            for record in tf.data.TFRecordDataset(str(path), write)
        ]
        with tf.io.TFRecordWriter(str(path), write) as writer:
            for record in records:
                feature = record.features.feature
                number = feature["id"].int64_list.value[0]
                feature["pair"].float_list.value.extend([number, -number])
                feature["text"].bytes_list.value.append(b"%d" % number)
                writer.write(record.SerializeToString())
    manifest = json.loads((tmp_path / "dataset.json").read_text())
    for shard in manifest["splits"]["train"]["shards"]:
        shard["bytes"] = (tmp_path / shard["path"]).stat().st_size
    (tmp_path / "dataset.json").write_text(json.dumps(manifest))
    finish(folder)

    def read():
        (batch,) = batches(folder, as_=as_, columns=["pair", "text", "id"])
        return {name: column.tolist() for name, column in batch.items()}

    found = read()
    assert sorted(found["id"]) == list(range(11))
    assert found["pair"] == [[n, -n] for n in found["id"]]
    assert found["text"] == [b"%d" % n for n in found["id"]]
    monkeypatch.setattr(_native, "KERNELS_AVAILABLE", False)
    assert read() == found


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_resumes_with_other_ranks(folder, data):
    """Global batches stay the same when other ranks resume."""
    world_size, other = data.draw(
        st.sampled_from([(1, 1), (1, 4), (4, 1), (2, 3), (3, 2), (6, 4), (12, 1)])
    )
    shuffle, epochs = data.draw(st.booleans()), data.draw(st.integers(1, 2))
    drop = data.draw(st.booleans())
    size = 24

    def global_batches(ranks, state, steps):
        readers = [
            batches(
                folder,
                batch_size=size // ranks,
                rank=rank,
                world_size=ranks,
                shuffle=shuffle,
                epochs=epochs,
                drop_remainder=drop,
                columns=["id"],
            )
            for rank in range(ranks)
        ]
        for reader in readers:
            if state is not None:
                reader.load_state_dict(state)
        found = [
            [number for reader in readers for number in next(reader)["id"].tolist()]
            for _ in range(steps)
        ]
        states = [reader.state_dict() for reader in readers]
        assert all(one == states[0] for one in states)
        is_over = state is None and steps == len(readers[0])
        for reader in readers:
            if is_over:
                assert next(reader, None) is None
            reader.close()
        return found, json.loads(json.dumps(states[0]))

    steps = epochs * (ROWS // size if drop else -(-ROWS // size))
    whole, _ = global_batches(1, None, steps)
    kill = data.draw(st.integers(0, steps))
    before, state = global_batches(world_size, None, kill)
    assert len(json.dumps(state)) <= 200
    after, _ = global_batches(other, state, steps - kill)
    assert before + after == whole
    assert (
        len(set(functools.reduce(operator.iadd, whole, []))) * epochs
        == len(functools.reduce(operator.iadd, whole, []))
        or drop
    )


def test_loops(folder):
    """A left loop goes on; the next pass has the next epoch."""
    reader = batches(folder, columns=["id"], epochs=1)
    first = next(reader)["id"].tolist()
    rest = ids(reader)
    second = ids(reader)
    whole = ids(batches(folder, columns=["id"], epochs=2))
    assert [first, *rest, *second] == whole
    reader.close()
    with pytest.raises(ValueError, match="closed"):
        next(reader)


def test_loads_no_tensorflow_and_no_beam(folder):
    """Opening and reading imports neither TensorFlow nor Beam nor tfx-bsl."""
    code = f"""
import sys
import beam_pipelines as bp
with bp.open({folder!r}).batches("train", batch_size=64) as reader:
    assert sum(len(batch["id"]) for batch in reader) == {ROWS}
found = {{name.partition(".")[0] for name in sys.modules}}
assert not found & {{"tensorflow", "apache_beam", "tfx_bsl", "tensorflow_transform"}}, found
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["idd"]}, "found no feature 'idd', expected .* Did you mean 'id'?"),
        ({"columns": "id"}, r"columns: found the text 'id', expected a list"),
        ({"columns": ["id", "id"]}, "each once"),
        ({"columns": []}, "one or more names"),
        ({"fill": {"halb": 0}}, "Did you mean 'half'?"),
        ({"fill": {"half": "0"}}, "fill: found '0' for feature 'half', expected a number"),
        ({"fill": {"half": 1}, "columns": ["id"]}, "not in columns"),
        ({"split": "trian"}, "found no split 'trian', .* Did you mean 'train'?"),
        ({"batch_size": 0}, "batch_size: found 0, expected an integer from 1"),
        ({"batch_size": 500, "drop_remainder": True}, "at most the 400 rows"),
        ({"rank": 2, "world_size": 2}, "rank: found 2, expected 0 to 1"),
        ({"epochs": 0}, "epochs: found 0"),
        ({"seed": -1}, "seed: found -1"),
        ({"as_": "pandas"}, "as_: found 'pandas', expected one of numpy, torch, arrow"),
    ],
)
def test_wrong_arguments(folder, options, message):
    """Wrong arguments are refused with what was found and expected."""
    with pytest.raises(ValueError, match=message):
        bp.open(folder).batches(**{"split": "train", **options})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 2}, "found seed 2, expected 1"),
        ({"rows": "00000000"}, "another dataset, split"),
        ({"order": 9}, "another version"),
        ({"row": ROWS}, "found row 400, expected 0 to 399"),
        ({"epoch": None}, "found epoch None"),
        ({"more": 1}, "expected what state_dict"),
    ],
)
def test_wrong_states(folder, change, message):
    """A state of something else is refused."""
    reader = batches(folder)
    with pytest.raises(ValueError, match=message):
        reader.load_state_dict(reader.state_dict() | change)


def test_no_rows_no_examples(folder, tmp_path):
    """A split without rows, other records and URLs are refused."""
    with pytest.raises(DataError, match="no rows in split 'eval'"):
        bp.open(folder).batches("eval")
    for record, found in (("raw", "raw records"), ("sequence_example", "tf.SequenceExamples")):
        other = tmp_path / record
        other.mkdir()
        finish(write_dataset(other, [3]), record=record)
        with pytest.raises(DataError, match=f"found {found}, expected tf.Examples"):
            bp.open(other).batches()


def damaged(tmp_path, damage, rows=None, schema=SCHEMA):
    """Writes 50 rows uncompressed and lets ``damage`` change the second shard's bytes."""
    folder = write_dataset(tmp_path, [20, 30], "none", schema=schema)
    manifest = json.loads((tmp_path / "dataset.json").read_text())
    shard = manifest["splits"]["train"]["shards"][1]
    path = tmp_path / shard["path"]
    path.write_bytes(damage(path.read_bytes()))
    shard["bytes"] = path.stat().st_size
    shard["rows"] = rows or shard["rows"]
    (tmp_path / "dataset.json").write_text(json.dumps(manifest))
    return finish(folder), str(path)


@pytest.mark.parametrize(
    ("damage", "rows", "message"),
    [
        (lambda data: data[:100] + b"\0\0\0" + data[103:], None, "record 1, offset .* the CRC of"),
        (lambda data: data[:-7], None, "record 29, .* the file ends within a record"),
        (lambda data: data, 31, "found 30 records, expected 31 as dataset.json says"),
        (lambda data: data, 29, "found more records, expected 29 as dataset.json says"),
    ],
)
@pytest.mark.parametrize("shuffle", [False, True])
def test_damaged_shards(tmp_path, damage, rows, message, shuffle):
    """Damaged, missing and extra records are errors that name the shard."""
    folder, path = damaged(tmp_path, damage, rows)
    reader = batches(folder, shuffle=shuffle)
    with pytest.raises(DataError, match=message) as caught:
        list(reader)
    assert path in str(caught.value)
    with pytest.raises(DataError, match=message):
        list(reader)


def test_changed_under_the_reader(tmp_path):
    """A file that changes or goes away after opening is an error."""
    folder, path = damaged(tmp_path, lambda data: data)
    reader = batches(folder)
    content = Path(path).read_bytes()
    Path(path).write_bytes(content + b"\0")
    with pytest.raises(DataError, match=r"expected .* bytes as dataset\.json says"):
        list(reader)
    with pytest.raises(DataError, match=r"expected .* bytes as dataset\.json says"):
        batches(folder)
    Path(path).unlink()
    with pytest.raises(DataError, match="found nothing, expected"):
        batches(folder)
    with pytest.raises(DataError, match="cannot be read"):
        list(reader)


def test_rows_that_contradict_the_schema(tmp_path):
    """A row that contradicts the schema is an error with its place."""
    schema = SCHEMA.replace(
        '"half" type: FLOAT presence {', '"half" type: FLOAT presence { min_fraction: 1'
    )
    schema = schema.replace("value_count { min: 1 max: 1 }", "shape { dim { size: 1 } }")
    (tmp_path / "a").mkdir()
    folder, _ = damaged(tmp_path / "a", lambda data: data, schema=schema)
    with pytest.raises(DataError, match=r"t-0000[01].*, record \d+: feature 'half': found nothing"):
        list(batches(folder))
    (tmp_path / "b").mkdir()
    schema = SCHEMA.replace('"id" type: INT', '"id" type: FLOAT')
    folder, _ = damaged(tmp_path / "b", lambda data: data, schema=schema)
    with pytest.raises(DataError, match=r"record 0: feature 'id': found int64 values"):
        list(batches(folder, shuffle=False))
    with pytest.raises(DataError, match=r"feature 'words': found \d values, expected 1 or none"):
        list(batches(folder, columns=["words"], fill={"words": b""}))
