"""Numbers of a batch: narrower types, fill values, padding, and their errors."""

from __future__ import annotations

import itertools
import subprocess
import sys

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import beam_pipelines as bp
from beam_pipelines.core.errors import DataError
from beam_pipelines.reader import arrays, columns
from tests.reader.datasets import example, write_records

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
    paths = [shard.path for shard in bp.info(folder).split("train").shards]
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


def test_first_batch_imports_no_pandas(folder):
    """Reading numbers imports neither pandas nor Pillow, which take long."""
    code = f"""
import sys
import beam_pipelines as bp
next(bp.open({folder!r}).batches("train", 4, fill={{"maybe": 0}}))
assert not {{"pandas", "PIL.Image", "simplejpeg", "torch", "jax"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@given(st.lists(st.lists(st.integers(-9, 9), max_size=4), max_size=6), st.data())
def test_padded_equals_a_loop(rows, data):
    """Padding equals that of a loop, for any neighbouring rows."""
    start = data.draw(st.integers(0, len(rows)))
    end = data.draw(st.integers(start, len(rows)))
    values = np.array([value for own in rows for value in own], np.int64)
    offsets = np.cumsum([0, *map(len, rows)])
    found = columns.padded(values, offsets[start : end + 1], 99)
    width = max(map(len, rows[start:end]), default=0)
    assert found.shape == (end - start, width)
    assert found.tolist() == [own + [99] * (width - len(own)) for own in rows[start:end]]


@given(st.lists(st.one_of(st.none(), st.lists(st.integers(), max_size=3))), st.data())
def test_views_equal_arrow(rows, data):
    """Views of Arrow's memory equal what Arrow says, also of slices."""
    rows = [own and [value % 2**40 for value in own] for own in rows]
    lists = pa.array(rows, pa.large_list(pa.int64()))
    start = data.draw(st.integers(0, len(rows)))
    lists = lists[start:]
    assert arrays.offsets_of(lists).tolist() == (lists.offsets.to_pylist() if len(lists) else [0])
    assert arrays.validity_of(lists).tolist() == lists.is_valid().to_pylist()
    values = lists.flatten()
    assert arrays.array_of(values).tolist() == values.to_pylist()
