"""A reader chooses batches, and takes rows by their numbers."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import beam_pipelines as bp
from beam_pipelines.core.errors import DataError
from beam_pipelines.reader import order, parse
from beam_pipelines.reader.reader import Reader
from beam_pipelines.reader.sequence import Chosen
from tests.reader.indexed import finish, ids
from tests.support.small_dataset import write_dataset

ROWS = 400
SEVERAL = settings(max_examples=10)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Makes windows of about eight parts, and keeps three parts."""
    monkeypatch.setattr(order, "WINDOW_BYTES", 12_000)
    monkeypatch.setattr(parse, "HELD_PARTS", 3)


def batches(folder, **options):
    return bp.open(folder).batches("train", 32, columns=["id"], **options)


@given(
    start=st.integers(0, 9),
    stop=st.none() | st.integers(0, 9),
    step=st.integers(1, 4),
    first=st.integers(0, 9),
    count=st.integers(0, 9),
)
def test_chosen_among(start, stop, step, first, count):
    """A choice among later batches is the part of a slice."""
    whole = list(range(first + count))[start:stop:step]
    chosen = Chosen(start, stop, step)
    found = list(range(first, first + count))[chosen.among(first)]
    assert found == [number for number in whole if number >= first]


@SEVERAL
@given(data=st.data())
def test_select(folder, data):
    """Chosen batches are a slice of the pass, also when it resumes."""
    options = {
        "epochs": data.draw(st.integers(1, 3)),
        "remainder": data.draw(st.sampled_from(["short", "drop", "pad"])),
        "shuffle": data.draw(st.booleans()),
    }
    with batches(folder, **options) as reader:
        whole = ids(reader)
    start = data.draw(st.integers(0, len(whole) + 1))
    stop = data.draw(st.none() | st.integers(0, len(whole)))
    step = data.draw(st.integers(1, 5))
    expected = whole[start:stop:step]
    with batches(folder, **options) as reader:
        reader.select(start, stop, step)
        before = data.draw(st.integers(0, len(expected)))
        found = [next(reader)["id"].tolist() for _ in range(before)]
        if stop is None and before < len(expected):
            skipped, state = reader.skipped, reader.state_dict()
            reader.load_state_dict(state)
            reader.select(skipped, None, step)
        assert found + ids(reader) == expected
        assert len(ids(reader)) == len(whole)  # the next pass has all


def test_seek(folder):
    """A reader goes to any batch of any epoch."""
    with batches(folder, epochs=3) as reader:
        whole = ids(reader)
        for batch in (0, 30, 13, 12):
            reader.seek(batch)
            assert ids(reader) == whole[batch:]
            assert reader.state_dict()["epoch"] == 3


def test_select_of_a_mixture(folder):
    """Chosen batches may skip a whole epoch of a small dataset."""

    def mixture():
        found = [batches(folder).streams[0] for _ in range(2)]
        single = batches(folder)
        return Reader(found, [1, 9], single.features, single.options)

    assert ids(mixture())[1::7] == _selected(mixture(), 1, 7)


def _selected(reader, start, step):
    reader.select(start, None, step)
    return ids(reader)


@SEVERAL
@given(numbers=st.lists(st.integers(0, ROWS - 1), max_size=40))
def test_take(folder, numbers):
    """Rows have the values of the stored order, whatever was read before."""
    dataset = bp.open(folder)
    with dataset.batches("train", ROWS, shuffle=False, fill={"half": -1}) as reader:
        (whole,) = reader
        found = reader.take(numbers)
        assert found["id"].tolist() == whole["id"][numbers].tolist()
        assert found["half"].tolist() == whole["half"][numbers].tolist()
        words = found["words"]
        for row, number in enumerate(found["id"].tolist()):
            own = words.values[words.offsets[row] : words.offsets[row + 1]]
            assert own.tolist() == [b"w%d" % number] * (number % 10)


def test_take_changes_no_place(folder):
    """Rows taken between batches leave the batches as they are."""
    with batches(folder) as reader, batches(folder) as other:
        found = [(reader.take([399, 0]), next(reader))[1]["id"].tolist() for _ in range(3)]
        assert found == [next(other)["id"].tolist() for _ in range(3)]


def test_wrong_numbers(folder, tmp_path):
    """Rows and batches that do not exist, and damage, are errors."""
    reader = batches(folder)
    for row in (-1, ROWS):
        with pytest.raises(IndexError, match=f"row: found {row}, expected 0 to 399"):
            reader.take([0, row])
    with pytest.raises(ValueError, match="batch: found -1"):
        reader.seek(-1)
    with pytest.raises(ValueError, match="select: found -1, None and 1"):
        reader.select(-1)
    damaged = finish(write_dataset(tmp_path, [20]))
    reader = batches(damaged)
    (path,) = tmp_path.glob("examples/Split-train/*")
    data = bytearray(path.read_bytes())
    data[60:63] = b"\0\0\0"
    path.write_bytes(data)
    with pytest.raises(DataError, match="record 0, part at byte 10"):
        reader.take([5])
