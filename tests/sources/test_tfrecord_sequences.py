"""TFRecord files of tf.SequenceExample with a schema.

Every value, every kind of missing value, and bad records.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.dataset.inspect import inspect_examples
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, problems_of, read_rows, write
from tests.support.protos import fill
from tests.support.read_examples import read_records
from tests.support.runs import convert_in, plan_in

SCHEMA = """
feature { name: "id" type: INT shape { dim { size: 1 } } }
feature { name: "tags" type: BYTES string_domain {} }
feature { name: "##SEQUENCE##" type: STRUCT struct_domain {
  feature { name: "ids" type: INT value_counts { value_count { } value_count { min: 1 max: 1 } } }
  feature { name: "words" type: BYTES natural_language_domain {} value_counts { value_count { } value_count { max: 1 } } }
  feature { name: "open" type: FLOAT }
  feature { name: "boxes" type: FLOAT }
} }
"""
EXTREMES = [-(2**63), 2**63 - 1, 2**31, -(2**31) - 1, 2**32 + 5, 0, -1]


def sequence(context: dict[str, list[Any]], lists: dict[str, list[list[Any] | None]]) -> bytes:
    """Serializes a record by TensorFlow; None is a Feature without a kind."""
    types = {int: pa.int64(), float: pa.float32(), bytes: pa.large_binary()}

    def add(feature: tf.train.Feature, values: list[Any] | None) -> None:
        fill(feature, types[type((values or [0])[0])], values)

    example = tf.train.SequenceExample()
    for name, values in context.items():
        add(example.context.feature[name], values)
    for name, steps in lists.items():
        example.feature_lists.feature_list[name].SetInParent()
        for step in steps:
            add(example.feature_lists.feature_list[name].feature.add(), step)
    return bytes(example.SerializeToString())


def write_records(path: Path, *records: bytes) -> str:
    with tf.io.TFRecordWriter(str(path)) as file:
        for record in records:
            file.write(record)
    return str(path)


@pytest.fixture
def schema(tmp_path: Path) -> str:
    return write(tmp_path / "schema.pbtxt", SCHEMA)


FULL = sequence(
    {"id": [-5], "tags": [b"x", "é".encode()], "unknown": [1]},
    {
        "ids": [[n] for n in EXTREMES],
        "words": [["ü".encode()], None, [b""]],
        "open": [[0.5], None],
        "boxes": [[1.0, 2.0]] * 2,
    },
)
FULL_ROW = {
    "id": -5, "tags": ["x", "é"], "ids": EXTREMES, "words": ["ü", None, ""], "open": [0.5, None],
    "boxes": [1.0, 2.0] * 2,
}  # fmt: skip


def test_feature_lists_become_columns(tmp_path: Path, schema: str) -> None:
    """Context and feature lists are columns, exactly.

    Missing is null, empty is [], and a step without a value is a null in the list.
    """
    empty = sequence({}, {"ids": [], "words": [None], "open": []})
    path = write_records(tmp_path / "a.tfrecord", FULL, empty, sequence({}, {}))
    none = dict.fromkeys(FULL_ROW)
    assert read_rows(path, schema=schema) == [
        FULL_ROW,
        {**none, "ids": [], "words": [None], "open": []},
        none,
    ]
    assert read_rows(path, schema=schema, columns=("words", "id"))[0] == {
        "words": FULL_ROW["words"],
        "id": -5,
    }
    declared = read_rows(
        path, schema=schema, types={"ids": "list<text>", "open": "list<float64>", "boxes": "tensor"}
    )
    assert declared[0]["ids"] == list(map(str, EXTREMES))
    assert declared[0]["open"] == [0.5, None]
    assert tf.io.parse_tensor(declared[0]["boxes"], tf.float32).numpy().tolist() == [[1.0, 2.0]] * 2


def test_steps_of_several_values(tmp_path: Path, schema: str) -> None:
    """Steps of several values are lists of lists.

    They have one shape in all rows, or are values alone, or tensors, as the recipe declares.
    """
    other = sequence({}, {"boxes": [[3.0, 4.0]]})
    path = write_records(tmp_path / "a.tfrecord", FULL, other)
    with pytest.raises(
        DataError, match=r"column 'boxes': found list<item: list<item: float>> without one shape"
    ):
        plan_of(path, schema=schema)
    flat = read_rows(path, schema=schema, types={"boxes": "list<float32>"}, columns=("boxes",))
    assert flat == [{"boxes": [1.0, 2.0, 1.0, 2.0]}, {"boxes": [3.0, 4.0]}]
    shaped = plan_of(write_records(tmp_path / "b.tfrecord", FULL), schema=schema)
    assert shaped.schema.field("boxes").metadata == {b"shape": b"2,2"}


@pytest.mark.parametrize(
    ("bad", "column", "reason"),
    [
        (sequence({}, {"ids": [[1, 2]]}), "ids", "a step of 2 values, expected at most one"),
        (sequence({}, {"words": [[b"\xff"]]}), "words", "UTF8"),
        (sequence({}, {"ids": [[0.5]]}), "ids", "found float values, expected int64"),
        (sequence({"id": [1, 2]}, {}), "id", "2 values, expected at most one"),
        (FULL[:-3], "", "no tf.Example or tf.SequenceExample"),
        (b"\x0a\x05no", "", "no tf.Example or tf.SequenceExample"),
    ],
)
def test_a_bad_sequence_is_found(tmp_path, schema, bad, column, reason):
    """A bad record is named with the reason.

    Rejecting leaves out only this record.
    """
    path = write_records(tmp_path / "a.tfrecord", *[FULL] * 3, bad, FULL)
    plan = plan_of(path, schema=schema)
    with pytest.raises(DataError, match=r"a\.tfrecord, record 3") as caught:
        read.read_table(plan, reject=False)
    assert reason in str(caught.value)
    table, counts, rejected = read.read_table(plan, reject=True)
    assert table.to_pylist() == [FULL_ROW] * 4
    assert counts == {"read": 4, "rejected": 1}
    assert [(bad.position, bad.column) for bad in rejected] == [("record 3", column)]


def test_a_schema_without_feature_lists(tmp_path: Path) -> None:
    """A schema that loses feature lists, or repeats a name, is refused."""
    path = write_records(tmp_path / "a.tfrecord", FULL)
    flat = write(tmp_path / "flat.pbtxt", SCHEMA[: SCHEMA.index('feature { name: "##')])
    assert (
        "found tf.SequenceExamples, but no feature list"
        in problems_of(path, schema=flat)["sources", "s", "schema"]
    )
    twice = write(tmp_path / "twice.pbtxt", SCHEMA.replace('"words"', '"id"'))
    assert "found 'id' twice" in problems_of(path, schema=twice)["sources", "s", "schema"]


INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from(EXTREMES)
VALUES = {
    pa.int64(): INTEGERS,
    pa.float32(): st.floats(width=32),
    pa.string(): st.text(max_size=5),
    pa.binary(): st.binary(max_size=5),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """A table with scalars, lists and two feature lists, of each type.

    It has nulls, empty lists and zeros.
    """
    rows = draw(st.integers(3, 12))
    columns = {}
    for number, (type_, values) in enumerate(VALUES.items()):
        lists = st.none() | st.lists(values, max_size=4)
        for name, kind, drawn in (
            ("s", type_, st.none() | values),
            ("c", pa.list_(type_), lists),
            ("l", pa.list_(type_), lists),
        ):
            columns[f"{name}{number}"] = pa.array(
                draw(st.lists(drawn, min_size=rows, max_size=rows)), kind
            )
    return pa.table(columns)


def converted(folder: Path, source: str, out: str) -> list[bytes]:
    """Converts into sequences, verifies, and returns the records in their order."""
    recipe = (
        f"name: d\nsources: {{d: {{{source}}}}}\nsequence: {{features: [l0, l1, l2, l3]}}\n"
        "output: {shuffle: false, compression: none, num_shards: 1}\n"
    )
    convert_in(folder, recipe, out, overwrite=True)
    return read_records(folder / out)


@given(tables())
@settings(max_examples=2)
def test_round_trip(table: pa.Table) -> None:
    """An imported dataset, converted again, has the same bytes.

    TensorFlow parses it to the table.
    """
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        pq.write_table(table, folder / "d.parquet")
        records = converted(folder, "path: d.parquet", "out")
        assert converted(folder, "path: out/examples/Split-*/*", "again") == records
        for record, row in zip(records, table.to_pylist(), strict=True):
            example = tf.train.SequenceExample.FromString(record)
            for name, value in row.items():
                is_list = name[0] == "l"
                features = (
                    example.feature_lists.feature_list if is_list else example.context.feature
                )
                assert (name in features) == (value is not None)
                if value is not None:
                    values = value if isinstance(value, list) else [value]
                    plain = [item.encode() if isinstance(item, str) else item for item in values]
                    steps = features[name].feature if is_list else [features[name]]
                    found = [
                        item
                        for step in steps
                        for kind in (step.WhichOneof("kind"),)
                        for item in getattr(step, kind).value
                    ]
                    assert repr(found) == repr(plain)


def test_inspect_shows_integers_whole(tmp_path: Path) -> None:
    """Integers beyond 32 bits are shown exactly, without a schema.

    A step without a value looks different from a missing list.
    """
    path = write_records(
        tmp_path / "a.tfrecord",
        sequence({"id": [2**63 - 1]}, {"ids": [[n] for n in EXTREMES], "x": [None]}),
    )
    (shown,) = inspect_examples(path, 1)
    assert f"[{', '.join(map(str, EXTREMES))}]" in shown
    assert "9223372036854775807" in shown
    assert shown.splitlines()[-1].split() == ["x", "[(missing)]"]


def test_a_dataset_of_raw_records(tmp_path: Path) -> None:
    """Shards of raw records are not read as examples.

    Files of two datasets need a schema.
    """
    write(tmp_path / "d.log", "a\nb\n")
    recipe = "name: d\nsources: {d: {path: d.log, format: lines}}\noutput: {record: line}\n"
    convert_in(tmp_path, plan_in(tmp_path, recipe))
    with pytest.raises(RecipeProblems, match="Read them with 'format: raw_records'"):
        plan_of(tmp_path / "out" / "examples" / "Split-train" / "*")
