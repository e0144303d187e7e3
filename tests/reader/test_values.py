"""Numbers of a batch: narrower types, fill values, padding, and their errors."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import beam_pipelines as bp
from beam_pipelines.core.arrow import binary_arrays
from beam_pipelines.core.errors import DataError
from beam_pipelines.reader import arrays, columns
from beam_pipelines.reader.features import ReadFeature
from tests.reader.datasets import write_records
from tests.support.wire import example

SCHEMA = """
feature { name: "id" type: INT presence { min_fraction: 1 } shape { dim { size: 1 } } }
feature { name: "pair" type: FLOAT presence { min_fraction: 1 } shape { dim { size: 2 } } }
feature { name: "maybe" type: INT value_count { min: 1 max: 1 } }
feature { name: "list" type: INT }
feature { name: "words" type: BYTES }
"""
ROWS = 20


def row(number: int) -> bytes:
    return example(
        {
            "id": ("int64", [number]),
            "pair": ("float", [number / 3, -number]),
            "maybe": ("int64", [number * 5] if number % 3 else None),
            "list": ("int64", list(range(number % 4))),
            "words": ("bytes", [b"w%d" % number] * (number % 3) if number % 5 else None),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A dataset of 20 rows, in order."""
    rows = [row(number) for number in range(ROWS)]
    return write_records(tmp_path_factory.mktemp("values"), SCHEMA, rows)


def read(folder, **options):
    (batch,) = bp.open(folder).batches("train", ROWS, shuffle=False, **options)
    return batch


def by_tensorflow(folder):
    """Returns what TensorFlow parses, ragged."""
    tf = pytest.importorskip("tensorflow")
    paths = bp.open(folder).shards("train")
    kinds = {
        "id": tf.int64,
        "pair": tf.float32,
        "maybe": tf.int64,
        "list": tf.int64,
        "words": tf.string,
    }
    spec = {name: tf.io.RaggedFeature(kind) for name, kind in kinds.items()}
    (batch,) = tf.data.TFRecordDataset(paths).batch(ROWS)
    return {name: of.to_list() for name, of in tf.io.parse_example(batch, spec).items()}


def lists_of(value):
    """Returns the rows of a ``Ragged`` or an array as lists."""
    if isinstance(value, bp.Ragged):
        ends = value.offsets.tolist()
        return [value.values[a:b].tolist() for a, b in itertools.pairwise(ends)]
    return np.reshape(value, (len(value), -1)).tolist()


TYPES = {"id": "uint8", "maybe": "int16", "list": "int8"}


@pytest.mark.parametrize("types", [None, TYPES])
def test_values_are_those_of_tensorflow(folder, types):
    """Values are TensorFlow's, in the types that were asked for."""
    batch, expected = read(folder, types=types), by_tensorflow(folder)
    assert {name: lists_of(value) for name, value in batch.items()} == expected
    for name, type_ in (types or {}).items():
        value = batch[name]
        assert (value.values if isinstance(value, bp.Ragged) else value).dtype == type_
    filled = read(folder, types=types, fill={"maybe": -1})["maybe"]
    assert filled.tolist() == [own[0] if own else -1 for own in expected["maybe"]]
    assert filled.dtype == (types or {}).get("maybe", "int64")


def test_texts(folder):
    """Texts and records are Arrow arrays."""
    words = read(folder)["words"]
    assert words.values.type == pa.large_binary()
    assert read(folder, columns=["words"])["words"].offsets.tolist() == words.offsets.tolist()
    assert read(folder, as_="records")["record"].type == pa.large_binary()


@pytest.mark.parametrize("as_", ["numpy", "arrow"])
def test_filled_texts(tmp_path, as_):
    """Missing texts have the fill value, whatever the shape."""
    own = [[b"a", b"bc"], None, [b"", b"d"], None]
    one = [None, [b"x"], None, [b"yz"]]
    rows = [
        example({"own": ("bytes", two), "one": ("bytes", alone)})
        for two, alone in zip(own, one, strict=True)
    ]
    schema = 'feature { name: "own" type: BYTES shape { dim { size: 2 } } }'
    schema += ' feature { name: "one" type: BYTES value_count { min: 1 max: 1 } }'
    folder = write_records(tmp_path, schema, rows)
    (batch,) = bp.open(folder).batches(
        "train", 4, shuffle=False, fill={"own": b"none", "one": b""}, as_=as_
    )
    assert batch["own"].to_pylist() == [two or [b"none"] * 2 for two in own]
    assert batch["one"].to_pylist() == [alone[0] if alone else b"" for alone in one]


def test_half_floats(folder):
    """Floats are rounded to the nearest float16."""
    found = read(folder, types={"pair": "float16"})["pair"]
    assert found.dtype == np.float16
    assert (found == read(folder)["pair"].astype(np.float16)).all()


def test_arrow_has_the_types(folder):
    """Arrow arrays have the same values in the same types."""
    batch, same = read(folder, as_="arrow", types=TYPES), read(folder, as_="arrow")
    assert batch["id"].type == pa.uint8()
    assert batch["maybe"].type == pa.large_list(pa.int16())
    assert {name: of.to_pylist() for name, of in batch.items()} == {
        name: of.to_pylist() for name, of in same.items()
    }


def test_padding(folder):
    """Lists are padded to the longest; single values stay ragged."""
    batch, expected = read(folder, padding=-1), by_tensorflow(folder)
    assert batch["list"].tolist() == [own + [-1] * (3 - len(own)) for own in expected["list"]]
    assert batch["words"].tolist() == [own + [b""] * (2 - len(own)) for own in expected["words"]]
    assert isinstance(batch["maybe"], bp.Ragged)


@pytest.mark.parametrize("as_", ["numpy", "arrow"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"types": {"maybe": "uint8"}},
            r"00001\S*, record 3: .*'maybe': found 260, expected 0 to 255",
        ),
        ({"types": {"far": "int32"}}, r"00000\S*, record 7: feature 'far': found 9,000,000,000"),
        ({"types": {"big": "float16"}}, r"record 9: feature 'big': found 70,000.*at most 65,504"),
    ],
)
def test_numbers_that_do_not_fit(tmp_path, as_, options, message):
    """A number that does not fit is an error with its place."""
    rows = [
        example(
            {
                "maybe": ("int64", [number * 20] if number % 3 else None),
                "far": ("int64", [9_000_000_000] * (number == 7)),
                "big": ("float", [70_000.0 if number == 9 else 1e-9] * 2),
            }
        )
        for number in range(ROWS)
    ]
    schema = 'feature { name: "maybe" type: INT } feature { name: "far" type: INT }'
    schema += ' feature { name: "big" type: FLOAT }'
    folder = write_records(tmp_path, schema, rows)
    with pytest.raises(DataError, match=message):
        read(folder, as_=as_, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"types": {"idd": "int32"}}, "found no feature 'idd', .* Did you mean 'id'?"),
        ({"types": {"id": "int32"}, "columns": ["list"]}, "types: found 'id', which is not in col"),
        ({"types": {"id": "float32"}}, "found 'float32' for feature 'id', expected int64, int32"),
        ({"types": {"words": "int8"}}, "expected no type, as its values are bytes"),
        ({"types": {"maybe": "int8"}, "fill": {"maybe": 128}}, "an integer that int8 holds"),
        ({"types": {"list": "uint8"}, "padding": -1}, "padding: found -1 .* number that uint8 hol"),
        ({"padding": 0.5}, "padding: found 0.5 for feature 'list', expected a number that int64"),
        ({"padding": 0, "as_": "arrow"}, "padding: found it with as_='arrow'"),
        ({"fill": {"id": 1}, "as_": "records"}, "fill: found it with as_='records'"),
    ],
)
def test_wrong_wishes(folder, options, message):
    """Arguments that do not suit a feature are refused."""
    with pytest.raises(ValueError, match=message):
        read(folder, **options)


def test_serialized_records(folder):
    """Records come as they are, whatever they hold."""
    batch = read(folder, as_="records")
    assert list(batch) == ["record"]
    assert batch["record"].tolist() == [row(number) for number in range(ROWS)]
    shuffled = bp.open(folder).batches("train", 7, as_="records")
    found = [record for batch in shuffled for record in batch["record"].tolist()]
    assert sorted(found) == sorted(batch["record"].tolist())


def test_raw_records(tmp_path):
    """Records of a dataset of raw records are read as well."""
    lines = [b"%d\tone" % number for number in range(9)] + [b""]
    folder = write_records(tmp_path, "", lines, record="raw")
    assert read(folder, as_="records")["record"].tolist() == lines


@given(st.lists(st.lists(st.integers(-9, 9), max_size=4), max_size=6), st.data(), st.booleans())
def test_padded_equals_a_loop(rows, data, are_texts):
    """Padding equals a loop's, for any neighbouring rows of any type."""
    start = data.draw(st.integers(0, len(rows)))
    end = data.draw(st.integers(start, len(rows)))
    fixed = data.draw(st.none() | st.integers(4, 5))
    width = fixed or max(map(len, rows[start:end]), default=0)
    offsets, flat = np.cumsum([0, *map(len, rows)]), list(itertools.chain(*rows))
    feature = ReadFeature("x", pa.int64(), np.dtype(np.int64), None, padding=99, length=fixed)
    values = pa.array(flat, pa.int64())
    if are_texts:
        rows = [[b"w" * (9 + value) for value in own] for own in rows]
        feature = feature._replace(type=pa.large_binary(), padding=b"")
        values = pa.array([b"first", *itertools.chain(*rows)], pa.large_binary())[1:]
    lists = pa.LargeListArray.from_arrays(offsets, values)
    padded = columns.make_column(lists, feature, "numpy").cut(start, end)
    assert len(padded) == end - start
    expected = [own + [feature.padding] * (width - len(own)) for own in rows[start:end]]
    assert padded.tolist() == expected


@given(
    st.lists(st.none() | st.lists(st.integers(0, 9), max_size=5)),
    st.integers(1, 4),
    st.sampled_from([pa.int64(), pa.large_binary(), pa.large_list(pa.int64())]),
)
def test_cut_lists_equal_slices(rows, most, type_):
    """Lists are cut as slices are; missing ones stay missing."""
    if pa.types.is_large_binary(type_):
        rows = [own and [b"w" * value for value in own] for own in rows]
    elif pa.types.is_nested(type_):
        rows = [own and [[value] * value for value in own] for own in rows]
    found = columns.cut_lists(pa.array(rows, pa.large_list(type_)), most)
    assert found.to_pylist() == [own and own[:most] for own in rows]


@given(st.lists(st.one_of(st.none(), st.lists(st.integers(), max_size=3))), st.data())
def test_views_equal_arrow(rows, data):
    """Views of Arrow's memory equal what Arrow says, also of slices."""
    rows = [own and [value % 2**40 for value in own] for own in rows]
    lists = pa.array(rows, pa.large_list(pa.int64()))
    start = data.draw(st.integers(0, len(rows)))
    lists = lists[start:]
    assert binary_arrays.offsets_of(lists).tolist() == (
        lists.offsets.to_pylist() if len(lists) else [0]
    )
    assert binary_arrays.is_valid(lists).tolist() == lists.is_valid().to_pylist()
    values = lists.flatten()
    assert arrays.array_of(values).tolist() == values.to_pylist()
