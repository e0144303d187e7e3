"""Feature lists of tf.SequenceExamples: ragged, ragged in ragged, and padded."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

import beam_pipelines as bp
from beam_pipelines.core.errors import DataError
from tests.reader.datasets import write_records
from tests.support.kernels import without_kernels
from tests.support.wire import feature, sequence_example

SCHEMA = """
feature { name: "id" type: INT presence { min_fraction: 1 } shape { dim { size: 1 } } }
feature { name: "tags" type: BYTES }
feature { name: "##SEQUENCE##" type: STRUCT struct_domain {
  feature { name: "clicks" type: INT value_counts { value_count { } value_count { min: 1 max: 1 } } }
  feature { name: "prices" type: FLOAT value_counts { value_count { } value_count { } } }
  feature { name: "words" type: BYTES value_counts { value_count { } value_count { } } }
} }
"""
COLUMNS = {"words": "list<list<text>>", "clicks": "list<int64>", "prices": "list<float32>"}
NAMES = ["id", "tags", "clicks", "prices", "words"]

needs_load = pytest.mark.skipif(
    importlib.util.find_spec("beam_pipelines.dataset") is None,
    reason="beam-pipelines-reader is installed without beam-pipelines, which has bp.load",
)

_numbers = st.integers(-100, 100)
_rows = st.fixed_dictionaries(
    {
        "tags": st.none() | st.lists(st.binary(max_size=3), max_size=3),
        "clicks": st.none() | st.lists(_numbers, max_size=4),
        "prices": st.none() | st.lists(st.none() | _numbers.map(float), max_size=4),
        "words": st.none() | st.lists(st.lists(st.binary(max_size=3), max_size=3), max_size=4),
    }
)


def sequence(number, row):
    """Serializes a row as a tf.SequenceExample."""
    steps = {
        "clicks": row["clicks"] and [feature([one], "int64") for one in row["clicks"]],
        "prices": row["prices"]
        and [feature(None if one is None else [one], "float") for one in row["prices"]],
        "words": row["words"] and [feature(one, "bytes") for one in row["words"]],
    }
    lists = {name: found or [] for name, found in steps.items() if row[name] is not None}
    context = {"id": feature([number], "int64")}
    if row["tags"] is not None:
        context["tags"] = feature(row["tags"], "bytes")
    return sequence_example(context, lists)


def write(folder, rows):
    records = [sequence(number, row) for number, row in enumerate(rows)]
    manifest = {"record": "sequence_example", "columns": COLUMNS}
    return write_records(folder, SCHEMA, records, **manifest)


def read(folder, **options):
    with bp.open(folder).batches("train", 3, shuffle=False, **options) as reader:
        return list(reader)


def rows_of(value):
    """Returns the rows of a column as lists."""
    if not isinstance(value, bp.Ragged):
        return value.tolist()
    values, ends = rows_of(value.values), value.offsets.tolist()
    return [values[start:end] for start, end in itertools.pairwise(ends)]


@needs_load
@settings(max_examples=10)
@given(rows=st.lists(_rows, min_size=1, max_size=7), has_kernels=st.booleans())
def test_steps_are_those_of_the_rows(tmp_path_factory, rows, has_kernels):
    """Steps come as they were written, and as ``bp.load`` gives them."""
    folder = write(tmp_path_factory.mktemp("sequences"), rows)
    with contextlib.nullcontext() if has_kernels else without_kernels():
        batches = read(folder)
        arrow = read(folder, as_="arrow", columns=["clicks", "words"])
    loaded = bp.load(folder, "train", batch_size=3, shuffle=False)
    number = 0
    for batch, expected, lists in zip(batches, loaded, arrow, strict=True):
        assert list(batch) == NAMES
        own = rows[number : number + len(batch["id"])]
        number += len(own)
        for name in ("clicks", "prices", "words"):
            assert batch[name].is_present.tolist() == [row[name] is not None for row in own]
            assert rows_of(batch[name]) == expected[name].to_list()
        steps = [step for row in own for step in row["prices"] or []]
        assert batch["prices"].values.is_present.tolist() == [step is not None for step in steps]
        assert lists["clicks"].to_pylist() == [row["clicks"] for row in own]
        assert lists["words"].to_pylist() == [row["words"] for row in own]
    assert number == len(rows)


@needs_load
@settings(max_examples=6)
@given(st.lists(_rows, min_size=1, max_size=7))
def test_padding_is_that_of_load(tmp_path_factory, rows):
    """Padded steps equal those of ``bp.load`` with the same padding."""
    folder = write(tmp_path_factory.mktemp("padded"), rows)
    loaded = bp.load(folder, "train", batch_size=3, shuffle=False, padding=-7)
    for batch, expected in zip(read(folder, padding=-7), loaded, strict=True):
        for name in ("clicks", "prices", "words"):
            assert batch[name].tolist() == expected[name].numpy().tolist()


def test_narrower_steps(tmp_path):
    """Steps have the wanted types; those that do not fit are errors."""
    rows = [
        {"tags": None, "clicks": [1, n * 60], "prices": [0.5, None], "words": [[], [b"a"]]}
        for n in range(6)
    ]
    folder = write(tmp_path, rows)
    batch = read(folder, types={"clicks": "int16", "prices": "float16"})[0]
    assert batch["clicks"].values.dtype == "int16"
    assert batch["prices"].values.values.dtype == "float16"
    lists = read(folder, types={"clicks": "int16"}, as_="arrow")[0]["clicks"]
    assert lists.type == pa.large_list(pa.int16())
    with pytest.raises(DataError, match=r"00001.*record 0: feature 'clicks': found 180, exp"):
        read(folder, types={"clicks": "int8"})


@pytest.mark.parametrize(
    ("columns", "padding", "message"),
    [
        ({}, None, r"feature 'clicks': found 2 values in step 1, expected one as the schema says"),
        ({"clicks": "list<list<int64>>"}, None, None),
        ({"clicks": "list<list<int64>>"}, 0, r"'words': found 2 values in step 0, expected one or"),
    ],
)
def test_steps_that_contradict_the_schema(tmp_path, columns, padding, message):
    """A step that contradicts the schema is an error with its place."""
    steps = {
        "clicks": [feature([1], "int64"), feature([1, 2], "int64")],
        "words": [feature([b"a", b"b"], "bytes")],
    }
    record = sequence_example({}, steps)
    folder = write_records(
        tmp_path, SCHEMA, [record], 1, record="sequence_example", columns=columns
    )
    names = ["clicks", "words"]
    if message is None:
        assert rows_of(read(folder, columns=names)[0]["clicks"]) == [[[1], [1, 2]]]
        return
    with pytest.raises(DataError, match=r"record 0: feature " + message.removeprefix("feature ")):
        read(folder, columns=names, padding=padding)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fill": {"clicks": 0}}, "fill: found the feature list 'clicks', .* Give 'padding'"),
        ({"images": {"words": bp.Image((2, 2))}}, "images: found the feature list 'words'"),
    ],
)
def test_wrong_wishes(tmp_path, options, message):
    """Arguments that do not suit feature lists are refused."""
    folder = write(tmp_path, [dict.fromkeys(("tags", "clicks", "prices", "words"))])
    with pytest.raises(ValueError, match=message):
        read(folder, **options)


def test_one_name_twice(tmp_path):
    """A feature and a feature list of one name are refused."""
    schema = SCHEMA.replace('name: "tags"', 'name: "clicks"')
    folder = write_records(tmp_path, schema, [b""], 1, record="sequence_example")
    with pytest.raises(ValueError, match="found a feature and a feature list 'clicks'"):
        read(folder)
