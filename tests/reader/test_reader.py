"""A reader gives every row once, resumes, and explains damage."""

from __future__ import annotations

import contextlib
import functools
import json
import operator
import queue
import shutil
import threading
import zlib
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

import beam_pipelines as bp
from beam_pipelines.core.errors import DataError
from beam_pipelines.reader import order
from beam_pipelines.reader import reader as reader_module
from beam_pipelines.reader.pipeline import read_groups
from beam_pipelines.tfrecord import part_index
from tests.reader.datasets import write_records
from tests.reader.indexed import finish, ids, write_split_index
from tests.support.kernels import without_kernels
from tests.support.small_dataset import SCHEMA, write_dataset
from tests.support.wire import example

ROWS = 400
MORE = """
feature { name: "pair" type: FLOAT presence { min_fraction: 1 min_count: 1 } shape { dim { size: 2 } } }
feature { name: "text" type: BYTES presence { min_fraction: 1 min_count: 1 } shape { dim { size: 1 } } }
"""


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Makes windows of about eight parts, and groups of 64 rows."""
    monkeypatch.setattr(order, "WINDOW_BYTES", 12_000)
    monkeypatch.setattr(reader_module, "GROUP_ROWS", 64)


def batches(folder, **options):
    return bp.open(folder).batches("train", **{"batch_size": 32, **options})


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


def test_a_pass_may_end_in_a_thread_of_its_own(folder, monkeypatch):
    """Garbage is collected in any thread, and none can wait for itself."""
    wanted = []
    monkeypatch.setattr(
        reader_module, "read_groups", lambda reading, _: wanted.append(reading) or iter(())
    )
    with contextlib.suppress(AttributeError):  # the iterator has no close
        list(batches(folder))
    is_waiting, closed = threading.Event(), queue.Queue()

    def end(group):
        if group.behind[0].row == 32:  # the first one
            return group
        is_waiting.wait(60)
        try:
            groups.close()
            closed.put(None)
        except RuntimeError as error:
            closed.put(error)
        return group

    groups = read_groups(wanted[0], end)
    next(groups)
    is_waiting.set()
    assert closed.get(timeout=60) is None


def test_missing_values(folder):
    """Without a fill value, missing values are marked."""
    for batch in batches(folder):
        half = batch["half"]
        assert half.is_present.tolist() == [n % 2 == 0 for n in batch["id"]]
        assert half.values.tolist() == [n / 2 for n in batch["id"] if n % 2 == 0]
        assert np.diff(half.offsets).tolist() == [n % 2 == 0 for n in batch["id"]]


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


@pytest.mark.parametrize("compression", ["none", "zlib", "gzip"])
@pytest.mark.parametrize("as_", ["numpy", "arrow"])
def test_shapes_and_compressions(tmp_path, monkeypatch, compression, as_):
    """Vectors are [batch, n]; every compression is read, with kernels and without."""
    folder = write_dataset(
        tmp_path,
        [5, 6],
        compression,
        schema=SCHEMA + MORE,
        more=lambda numbers: {
            "pair": pa.array([[n, -n] for n in numbers], pa.list_(pa.float32())),
            "text": pa.array([b"%d" % n for n in numbers], pa.binary()),
        },
    )
    finish(folder)

    def read():
        (batch,) = batches(folder, as_=as_, columns=["pair", "text", "id"])
        return {name: column.tolist() for name, column in batch.items()}

    found = read()
    assert sorted(found["id"]) == list(range(11))
    assert found["pair"] == [[n, -n] for n in found["id"]]
    assert found["text"] == [b"%d" % n for n in found["id"]]
    with without_kernels():
        assert read() == found


@settings(max_examples=10)
@given(st.data())
def test_resumes_with_other_ranks(folder, data):
    """Global batches stay the same when other ranks resume."""
    world_size, other = data.draw(
        st.sampled_from([(1, 1), (1, 4), (4, 1), (2, 3), (3, 2), (6, 4), (12, 1)])
    )
    shuffle, epochs = data.draw(st.booleans()), data.draw(st.integers(1, 2))
    remainder = data.draw(st.sampled_from(["short", "drop", "pad"]))
    size, dataset = 24, bp.open(folder)

    def global_batches(ranks, state, steps):
        readers = [
            dataset.batches(
                batch_size=size // ranks,
                rank=rank,
                world_size=ranks,
                shuffle=shuffle,
                epochs=epochs,
                remainder=remainder,
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

    steps = epochs * (ROWS // size if remainder == "drop" else -(-ROWS // size))
    whole, _ = global_batches(1, None, steps)
    kill = data.draw(st.integers(0, steps))
    before, state = global_batches(world_size, None, kill)
    assert len(json.dumps(state)) <= 200
    after, _ = global_batches(other, state, steps - kill)
    assert [sorted(b) for b in before + after] == [sorted(b) for b in whole]
    for epoch in range(epochs):
        own = whole[epoch * len(whole) // epochs : (epoch + 1) * len(whole) // epochs]
        rows = functools.reduce(operator.iadd, own, [])
        if remainder != "drop":
            assert sorted(set(rows)) == list(range(ROWS))
        assert len(rows) - len(set(rows)) == (len(rows) - ROWS if remainder == "pad" else 0)


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["idd"]}, "found no feature 'idd', expected .* Did you mean 'id'?"),
        ({"columns": "id"}, r"columns: found 'id', expected a list, such as \['"),
        *(
            ({name: 0}, f"{name}: found 0, expected a mapping")
            for name in ("fill", "lookup", "keyed")
        ),
        ({"keyed": {"k": 1}}, "k: found 1, expected a list"),
        ({"columns": ["id", "id"]}, "each once"),
        ({"columns": []}, "one or more names"),
        ({"fill": {"halb": 0}}, "Did you mean 'half'?"),
        ({"fill": {"half": "0"}}, "fill: found '0' for feature 'half', expected a number"),
        ({"fill": {"half": 1}, "columns": ["id"]}, "not in columns"),
        ({"split": "trian"}, "found no split 'trian', .* Did you mean 'train'?"),
        *(({"split": one}, "found no split .*, expected one of") for one in (64, ["train"])),
        ({"batch_size": 0}, "batch_size: found 0, expected an integer from 1"),
        ({"batch_size": 500, "remainder": "drop"}, "at most the 400 rows"),
        ({"batch_size": 500, "remainder": "pad"}, "at most the 400 rows"),
        ({"remainder": "dropp"}, "Did you mean 'drop'?"),
        ({"rank": 1}, "expected both or neither"),
        ({"rank": 2, "world_size": 2}, "rank: found 2, expected 0 to 1"),
        ({"epochs": 0}, "epochs: found 0"),
        ({"seed": -1}, "seed: found -1"),
        ({"as_": "pandas"}, "as_: found 'pandas', expected one of numpy, torch, jax, arrow"),
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
        ({"rows": "00000000"}, "other names, weights or another 'shuffle'"),
        ({"order": 9}, "another version"),
        ({"row": ROWS}, "found row 400, expected 0 to 399"),
        ({"epoch": None}, "found epoch None"),
        ({"more": 1}, "Begin the epoch again"),
    ],
)
def test_wrong_states(folder, change, message):
    """A state of something else is refused."""
    reader = batches(folder)
    with pytest.raises(ValueError, match=message):
        reader.load_state_dict(reader.state_dict() | change)


def test_a_state_belongs_to_its_data(tmp_path):
    """A state is refused by other rows of the same sizes.

    Taken by equal ones.
    """
    records = [example({"id": ("int64", [100 + number])}) for number in range(40)]
    schema = (
        'feature { name: "id" type: INT presence { min_fraction: 1 } shape { dim { size: 1 } } }'
    )
    changed = [*records[:7], records[8], records[7], *records[9:]]
    found = {}
    for name, own in (("a", records), ("same", records), ("other", changed)):
        (tmp_path / name).mkdir()
        found[name] = bp.open(write_records(tmp_path / name, schema, own))
    reader = found["a"].batches(batch_size=10)
    next(reader)
    state = json.loads(json.dumps(reader.state_dict()))
    rest = found["same"].batches(batch_size=10)
    rest.load_state_dict(state)
    assert [batch["id"].tolist() for batch in rest] == [batch["id"].tolist() for batch in reader]
    with pytest.raises(DataError, match=r"found a state of other data"):
        found["other"].batches(batch_size=10).load_state_dict(state)
    mixture = bp.mix({found["a"].batches(batch_size=5): 1, found["same"].batches(batch_size=5): 1})
    another = bp.mix({found["a"].batches(batch_size=5): 1, found["other"].batches(batch_size=5): 1})
    with pytest.raises(DataError, match="other data"):
        another.load_state_dict(mixture.state_dict())
    with pytest.raises(ValueError, match="another 'shuffle'"):
        found["a"].batches(batch_size=10, shuffle=False).load_state_dict(state)


@pytest.mark.parametrize("content", [b"", bytes(64)])
def test_an_index_that_is_cut_or_zeroed_in_place(folder, tmp_path, content):
    """An open reader goes on with what it checked.

    The next one names the file.
    """
    own = tmp_path / "own"
    shutil.copytree(folder, own)
    expected = [batch["id"].tolist() for batch in batches(str(own))]
    reader = batches(str(own))
    first = next(reader)["id"].tolist()
    index = own / "index" / "Split-train.arrow"
    with index.open("r+b") as file:
        file.truncate(len(content))
        file.write(content)
    assert [first, *(batch["id"].tolist() for batch in reader)] == expected
    with pytest.raises(DataError, match=r"Split-train\.arrow: is damaged"):
        batches(str(own))


def test_no_rows_no_examples(folder, tmp_path):
    """A split without rows, and features of raw records are refused."""
    with pytest.raises(DataError, match="no rows in split 'eval'"):
        bp.open(folder).batches("eval")
    raw = finish(write_dataset(tmp_path, [3]), record="raw")
    with pytest.raises(DataError, match=r"found raw records, .* Give as_='records'"):
        bp.open(raw).batches()


def two_shards(folder, compression="none", schema=SCHEMA):
    """Writes 50 rows; returns the folder and the second shard's path."""
    found = finish(write_dataset(folder, [20, 30], compression, schema=schema))
    manifest = json.loads((folder / "dataset.json").read_text())
    return found, folder / manifest["splits"]["train"]["shards"][1]["path"]


def change_index(folder, change):
    """Lets ``change`` change the columns of the index."""
    path = Path(folder) / "index" / "Split-train.arrow"
    data = pa.py_buffer(path.read_bytes())
    index = part_index.parse_index(data, str(path), bp.open(folder).manifest["compression"])
    columns = {name: array.tolist() for name, array in index.columns._asdict().items()}
    change(columns)
    manifest = json.loads((Path(folder) / "dataset.json").read_text())
    write_split_index(folder, "train", manifest, list(zip(*columns.values(), strict=True)))


@pytest.mark.parametrize(
    ("compression", "damage", "message"),
    [
        ("none", lambda data: data[:-9] + b"\0" + data[-8:], "record 20, part .* CRC-32"),
        ("gzip", lambda data: data[:60] + b"\0\0\0" + data[63:], "record 0, part at byte 10: "),
        ("zlib", lambda data: data[:60] + b"\0\0\0" + data[63:], "record 0, part at byte 2: "),
        ("gzip", lambda data: b"\0" * len(data), "found damaged gzip data"),
        ("gzip", lambda data: data[:-1], r"expected .* bytes as dataset\.json says"),
        ("gzip", lambda data: data + b"\0", r"expected .* bytes as dataset\.json says"),
    ],
)
@pytest.mark.parametrize("shuffle", [False, True])
def test_damaged_shards(tmp_path, compression, damage, message, shuffle):
    """Damaged shards are errors that name file, record and byte."""
    folder, path = two_shards(tmp_path, compression)
    reader = batches(folder, shuffle=shuffle)
    path.write_bytes(damage(path.read_bytes()))
    for _ in range(2):
        with pytest.raises(DataError, match=message) as caught:
            list(reader)
        assert str(path) in str(caught.value)


def test_wrong_records(tmp_path):
    """A part with the right checksum and wrong records is an error."""
    folder, path = two_shards(tmp_path)
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)

    def expect(columns):
        part = data[columns["offset"][-1] :][: columns["bytes"][-1]]
        columns["crc32"][-1] = zlib.crc32(part)

    change_index(folder, expect)
    with pytest.raises(DataError, match=r"record 29, offset \d+: the CRC of the data"):
        list(batches(folder))


def test_index_that_contradicts_records(tmp_path):
    """An index with other numbers of records is an error."""
    folder, _ = two_shards(tmp_path, "gzip")

    def move(columns):
        columns["rows"][2:4] = [9, 11]

    change_index(folder, move)
    with pytest.raises(DataError, match=r"found 10 records in .* bytes, expected (9|11) in"):
        list(batches(folder))


def test_index_of_other_shards(tmp_path):
    """A missing, damaged or stale index is refused at once."""
    folder, path = two_shards(tmp_path)
    index = tmp_path / "index" / "Split-train.arrow"
    content = index.read_bytes()
    index.write_bytes(content[:-20])
    with pytest.raises(DataError, match="damaged or no index"):
        batches(folder)
    index.write_bytes(content)
    manifest = json.loads((tmp_path / "dataset.json").read_text())
    manifest["splits"]["train"]["shards"][1]["crc32c"] = "00000001"
    (tmp_path / "dataset.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match=f"{path.name}.* or older than the shards"):
        batches(folder)
    index.unlink()
    with pytest.raises(DataError, match=r"found no index .* Copy the dataset again"):
        batches(folder)


def test_changed_under_the_reader(tmp_path):
    """A file that changes or goes away after opening is an error."""
    folder, path = two_shards(tmp_path)
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
    folder, _ = two_shards(tmp_path / "a", schema=schema)
    with pytest.raises(DataError, match=r"t-0000[01].*, record \d+: feature 'half': found nothing"):
        list(batches(folder))
    (tmp_path / "b").mkdir()
    schema = SCHEMA.replace('"id" type: INT', '"id" type: FLOAT')
    folder, _ = two_shards(tmp_path / "b", schema=schema)
    with pytest.raises(DataError, match=r"record 0: feature 'id': found int64 values"):
        list(batches(folder, shuffle=False))
    with pytest.raises(DataError, match=r"feature 'words': found \d values, expected 1 or none"):
        list(batches(folder, columns=["words"], fill={"words": b""}))


def test_a_manifest_that_lost_a_shard(tmp_path):
    """An epoch has all rows of the manifest, or is an error."""
    folder = Path(finish(write_dataset(tmp_path, [30, 20])))
    path = folder / "dataset.json"
    manifest = json.loads(path.read_text())
    del manifest["splits"]["train"]["shards"][1]
    path.write_text(json.dumps(manifest))
    with pytest.raises(DataError, match=r"json: found shards with 30 rows .*, expected 50 as"):
        bp.open(folder).batches("train")


def test_a_damaged_key_of_the_manifest(tmp_path):
    """A manifest with a key of another name opens.

    The error names the file.
    """
    folder = finish(write_dataset(tmp_path, [5]))
    path, found = tmp_path / "dataset.json", {}
    manifest = json.loads(path.read_text())
    for key in manifest:
        path.write_text(
            json.dumps({f"{name}x" if name == key else name: manifest[name] for name in manifest})
        )
        try:
            bp.open(folder).batches("train", batch_size=5)
            found[key] = ""
        except DataError as error:
            found[key] = str(error)
    assert "dataset.json: found a manifest that lacks 'label'" in found["label"]
    assert {key for key, text in found.items() if text and "dataset.json" not in text} == set()
