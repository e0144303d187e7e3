"""Values of every type survive a round trip, or are an error.

They go to a feature and back exactly. Null, empty and zero stay three things.
"""

from __future__ import annotations

import datetime
import decimal
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from hypothesis.extra import numpy as hnp
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

import beam_pipelines as bp
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.dataset import loader
from beam_pipelines.encodings.apply import to_exact_input, to_feature
from beam_pipelines.sources.nesting import shapes, tensors
from tests.sources.support import plan_of, problems_of, read_rows
from tests.support.read_examples import read_records
from tests.support.runs import convert_in
from tests.support.tables import write_table

pytestmark = pytest.mark.end_to_end

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
US = datetime.timedelta(microseconds=1)


def integers(bits: int, signed: bool) -> st.SearchStrategy[int]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return st.integers(low, min(high, (1 << 63) - 1)) | st.just(0)


def float32(value: float) -> float:
    return float(np.float32(value))


def micros(value: datetime.datetime) -> int:
    return (value.replace(tzinfo=datetime.timezone.utc) - EPOCH) // US


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
MOMENTS = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1))  # noqa: DTZ001 (Arrow's have no zone)
# Name -> Arrow type, values, and a function of a value to its feature. It shares no code with the
# program.
SCALARS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any], Callable[[Any], Any]]] = {
    "bool": (pa.bool_(), st.booleans(), int),
    **{
        f"int{bits}": (getattr(pa, f"int{bits}")(), integers(bits, True), int)
        for bits in (8, 16, 32, 64)
    },
    **{
        f"uint{bits}": (getattr(pa, f"uint{bits}")(), integers(bits, False), int)
        for bits in (8, 16, 32, 64)
    },
    "float16": (pa.float16(), st.floats(width=16).map(np.float16), float32),
    "float32": (pa.float32(), st.floats(width=32), float32),
    "float64": (pa.float64(), st.floats(-1e30, 1e30) | st.just(0.1), float32),
    "decimal": (pa.decimal128(9, 2), st.integers(-(10**8), 10**8).map(lambda n: decimal.Decimal(n) / 100), float32),
    "whole": (pa.decimal128(18, 0), st.integers(-(10**17), 10**17).map(decimal.Decimal), int),
    "text": (pa.string(), TEXTS, str.encode),
    "large_text": (pa.large_string(), TEXTS, str.encode),
    "bytes": (pa.binary(), st.binary(max_size=5), bytes),
    "fixed_bytes": (pa.binary(3), st.binary(min_size=3, max_size=3), bytes),
    "enum": (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["red", "", "grün"]), str.encode),
    "date": (pa.date32(), st.dates(), lambda value: (value - EPOCH.date()).days),
    "time": (pa.time64("us"), st.times(), lambda v: ((v.hour * 60 + v.minute) * 60 + v.second) * 10**6 + v.microsecond),
    "timestamp": (pa.timestamp("us"), MOMENTS, micros),
    "seconds": (pa.timestamp("s"), MOMENTS.map(lambda value: value.replace(microsecond=0)), micros),
}  # fmt: skip
LISTED = ("bool", "int8", "uint32", "int64", "float32", "float64", "text", "bytes")


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Table, dict[str, list[Any]]]:
    """Draws a table of all column types, and its expected features."""
    rows = draw(st.integers(4, 8))
    columns, features = {}, {}
    for name, (type_, values, convert) in SCALARS.items():
        drawn = [None, *draw(st.lists(st.none() | values, min_size=rows - 1, max_size=rows - 1))]
        columns[name] = pa.array(drawn, type_)
        features[name] = [None if value is None else [convert(value)] for value in drawn]
    for name in LISTED:
        type_, values, convert = SCALARS[name]
        zero = {"text": "", "bytes": b"", "bool": False}.get(name, 0)
        more = st.lists(
            st.none() | st.lists(values, max_size=3), min_size=rows - 3, max_size=rows - 3
        )
        drawn = [None, [], [zero], *draw(more)]
        columns[f"list_{name}"] = pa.array(drawn, pa.list_(type_))
        features[f"list_{name}"] = [
            None if value is None else [convert(item) for item in value] for value in drawn
        ]
    return pa.table(columns), features


def recipe(path: str, source: str = "", output: str = "") -> str:
    more = f", {output}" if output else ""
    return (
        f"name: d\nsources: {{d: {{path: {path}{source}}}}}\noutput: {{shuffle: false, "
        f"compression: none{more}}}\n"
    )


def same(found: list[Any], wanted: list[Any]) -> bool:
    """Returns whether rows are equal.

    NaN equals NaN, and 0.0 differs from -0.0.
    """
    return repr(found) == repr(wanted)


@hypothesis.settings(max_examples=3)
@hypothesis.given(tables())
def test_round_trip(drawn: tuple[pa.Table, dict[str, list[Any]]]) -> None:
    """tfx-bsl, tf.io.parse_example and our import give every type by the rules."""
    table, features = drawn
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pq.write_table(table, folder / "d.parquet")
        convert_in(folder, recipe("d.parquet"))
        dataset, serialized = bp.open(folder / "out"), read_records(folder / "out")

        decoded = ExamplesToRecordBatchDecoder(dataset.schema.SerializeToString()).DecodeBatch(
            serialized
        )
        found = dict(zip(decoded.schema.names, decoded.columns, strict=True))
        assert set(found) == set(features)
        for feature, wanted in features.items():
            assert same(found[feature].to_pylist(), wanted), feature

        parsed = tf.io.parse_example(serialized, dataset.feature_spec())
        for feature, wanted in features.items():
            tensor = parsed[feature]
            rows = (
                tf.RaggedTensor.from_sparse(tensor)
                if isinstance(tensor, tf.SparseTensor)
                else tensor
            )
            values = [row.numpy().tolist() for row in rows]
            assert same(values, [value or [] for value in wanted]), feature

        (folder / "back").mkdir()
        options = f", format: tfrecord, schema: {folder}/out/schema/schema.pbtxt"
        convert_in(folder / "back", recipe(f"{folder}/out/examples/Split-train/*", options))
        assert read_records(folder / "back" / "out") == serialized


@pytest.mark.parametrize(
    ("value", "type_", "shown"),
    [
        (2**63, pa.uint64(), "9223372036854775808"),
        (decimal.Decimal(10**19), pa.decimal128(20, 0), "10000000000000000000"),
        (1, pa.timestamp("ns"), "1970-01-01 00:00:00.000000001"),
        (1, pa.time64("ns"), "00:00:00.000000001"),
    ],
)
def test_not_exact_is_an_error(tmp_path: Path, value: Any, type_: pa.DataType, shown: str) -> None:
    """A value without an exact equal is a bad row."""
    pq.write_table(pa.table({"x": pa.array([None, value], type_)}), tmp_path / "d.parquet")
    with pytest.raises(DataError, match="row 2, column 'x': found") as caught:
        read_rows(tmp_path / "d.parquet")
    assert shown in str(caught.value)


@pytest.mark.parametrize("nested", [False, True])
def test_exact_floats(nested: bool) -> None:
    """Exact floats refuse rounding, and pass NaN, infinity and null."""

    def column(values: list[Any]) -> pa.Array:
        rows = [value if value is None or not nested else [value] for value in values]
        return pa.array(rows, pa.list_(pa.float64()) if nested else pa.float64())

    fine = column([0.5, float("nan"), float("inf"), 2.0**100, -0.0, None])
    assert same(to_exact_input(fine).to_pylist(), fine.to_pylist())
    found = to_feature(column([0.1])).to_pylist()
    assert found == ([[float32(0.1)]] if nested else [float32(0.1)])
    for value in (0.1, 2.0**24 + 1, 1e-300):
        with pytest.raises(pa.ArrowInvalid, match="no float32 equals it"):
            to_exact_input(column([0.5, value]))


def test_exact_floats_stop_a_run(tmp_path: Path) -> None:
    """``floats: exact`` stops a run at the first rounded float64."""
    pq.write_table(pa.table({"x": [0.5, 0.1, 0.7]}), tmp_path / "d.parquet")
    with pytest.raises(
        DataError, match=r"column 'x': found 0\.1 of type float64.*no float32 equals it"
    ):
        convert_in(tmp_path, recipe("d.parquet", output="floats: exact"))


def test_enum_in_lists(tmp_path: Path) -> None:
    """Dictionary columns are strings, in lists too; extension types are their storage."""
    texts = pa.array(["a", "b", "a"]).dictionary_encode()
    table = pa.table(
        {
            "enum": texts,
            "enums": pa.ListArray.from_arrays([0, 2, 2, 3], texts),
            "flag": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None], pa.int8())),
        }
    )
    write_table(tmp_path / "d.arrow", table)
    assert read_rows(tmp_path / "d.arrow") == [
        {"enum": "a", "enums": ["a", "b"], "flag": 1},
        {"enum": "b", "enums": [], "flag": 0},
        {"enum": "a", "enums": ["a"], "flag": None},
    ]


PIXELS = np.arange(4 * 2 * 3, dtype=np.int32).reshape(4, 2, 3)


def write_arrays(folder: Path, kind: str) -> str:
    """Writes four arrays of 2 × 3 integers in one file layout."""
    nested = PIXELS.tolist()
    if kind == "json":
        (folder / "d.jsonl").write_text("\n".join(json.dumps({"x": value}) for value in nested))
        return "d.jsonl"
    columns = {
        "lists": pa.array(nested, pa.list_(pa.list_(pa.int32()))),
        "fixed": pa.array(nested, pa.list_(pa.list_(pa.int32(), 3), 2)),
        "large": pa.array(nested, pa.large_list(pa.list_(pa.int32(), 3))),
        "tensor": pa.FixedShapeTensorArray.from_numpy_ndarray(PIXELS),
    }
    pq.write_table(pa.table({"x": columns[kind]}), folder / "d.parquet", row_group_size=3)
    return "d.parquet"


@pytest.mark.parametrize("kind", ["json", "lists", "fixed", "large", "tensor"])
def test_shape(tmp_path: Path, kind: str) -> None:
    """Arrays become flat lists with their shape in the schema.

    This holds after an import, too.
    """
    convert_in(tmp_path, recipe(write_arrays(tmp_path, kind)))
    (batch,) = loader.load(tmp_path / "out", shuffle=False)
    assert batch["x"].dtype == tf.int64
    assert np.array_equal(batch["x"].numpy(), PIXELS)
    (tmp_path / "back").mkdir()
    options = ", format: tfrecord, schema: ../out/schema/schema.pbtxt"
    convert_in(tmp_path / "back", recipe("../out/examples/Split-train/*", options))
    (again,) = loader.load(tmp_path / "back" / "out", shuffle=False)
    assert np.array_equal(again["x"].numpy(), PIXELS)


def test_shape_through_a_join(tmp_path: Path) -> None:
    """A joined column keeps its shape.

    With an unmatched row it is not dense.
    """
    (tmp_path / "a.csv").write_text("k\n1\n2\n1\n")
    (tmp_path / "b.jsonl").write_text('{"k": 1, "x": [[1, 2]]}\n{"k": 2, "x": [[3, 4]]}\n')
    joined = (
        "name: d\nsources: {a: a.csv, b: b.jsonl}\nfrom: a\njoin: [{source: b, on: k, prefix: "
        "b_}]\n"
        "output: {shuffle: false, compression: none}\n"
    )
    convert_in(tmp_path, joined)
    (batch,) = loader.load(tmp_path / "out", shuffle=False)
    assert batch["b_x"].numpy().tolist() == [[[1, 2]], [[3, 4]], [[1, 2]]]
    (tmp_path / "a.csv").write_text("k\n1\n7\n")
    convert_in(tmp_path, joined, overwrite=True)
    (batch,) = loader.load(tmp_path / "out", shuffle=False)
    assert isinstance(batch["b_x"], tf.SparseTensor)


def test_other_shapes(tmp_path: Path) -> None:
    """An array of another shape is a bad row.

    A declared type may allow it.
    """
    path = tmp_path / "d.parquet"
    arrays = [[[1, 2]]] * 1000 + [[[1], [2]], None]
    pq.write_table(pa.table({"x": arrays}), path)
    with pytest.raises(
        DataError, match=r"row 1001, column 'x': found \[\[1\], \[2\]\].*expected 1 × 2 values"
    ):
        read_rows(path)
    with pytest.raises(DataError, match="without one shape"):
        plan_of(path, infer="full")
    flat = read_rows(path, types={"x": "list<float32>"})
    assert flat[999:] == [{"x": [1.0, 2.0]}, {"x": [1.0, 2.0]}, {"x": None}]
    tensor = read_rows(path, types={"x": "tensor"})
    assert tensor[1001] == {"x": None}
    assert tf.io.parse_tensor(tensor[1000]["x"], tf.int64).numpy().tolist() == [[1], [2]]
    pq.write_table(pa.table({"x": [[[1, 2], [3]]]}), path)
    with pytest.raises(
        DataError, match=r"column 'x': found \[\[1, 2\], \[3\]\] \(lists of several lengths"
    ):
        read_rows(path, types={"x": "tensor"})
    pq.write_table(pa.table({"x": [[[1, 2], None]]}), path)
    with pytest.raises(DataError, match=r"column 'x': .*a null inside a list"):
        read_rows(path, types={"x": "list<int64>"})
    (tmp_path / "d.csv").write_text("x\n1\n")
    assert (
        "holds no arrays"
        in problems_of(tmp_path / "d.csv", types={"x": "tensor"})["sources", "s", "types"]
    )
    pq.write_table(pa.table({"x": [datetime.date(2000, 1, 1)]}), path)
    with pytest.raises(RecipeProblems):
        plan_of(path, types={"x": "tensor"})


DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64",
)  # fmt: skip


@hypothesis.given(st.data(), st.sampled_from([*DTYPES, "text"]), st.integers(0, 3))
def test_tensors_are_tensorflows(data: st.DataObject, dtype: str, rank: int) -> None:
    """Serialized tensors equal tf.io.serialize_tensor's, for every dtype and shape."""
    shape = (
        hnp.array_shapes(min_dims=rank, max_dims=rank, min_side=1, max_side=3)
        if rank
        else st.just(())
    )
    elements = st.binary(max_size=3) if dtype == "text" else None
    arrays = hnp.arrays(object if dtype == "text" else np.dtype(dtype), shape, elements=elements)
    rows = data.draw(st.lists(st.none() | arrays, max_size=4))
    type_ = pa.binary() if dtype == "text" else pa.from_numpy_dtype(np.dtype(dtype))
    for _ in range(rank):
        type_ = pa.list_(type_)
    values = [
        None if row is None else row.tolist() if rank or dtype != "float16" else np.float16(row)
        for row in rows
    ]
    start = data.draw(st.integers(0, len(rows)))
    found = tensors.serialize(_arrow(values, type_).slice(start), "tensor").to_pylist()
    wanted = [
        None if row is None else tf.io.serialize_tensor(tf.constant(row)).numpy()
        for row in rows[start:]
    ]
    assert found == wanted


def _arrow(values: list[Any], type_: pa.DataType) -> pa.Array:
    """Builds an array.

    Half floats in lists are cast, because older versions of pyarrow cannot build them.
    """
    if shapes.leaf(type_) == pa.float16() and pa.types.is_list(type_):
        deep = pa.float32()
        for _ in range(shapes.depth(type_)):
            deep = pa.list_(deep)
        return pa.array(values, deep).cast(type_)
    return pa.array(values, type_)


DECLARED = {
    "tensor<uint8>": ([1, 255], lambda x: tf.io.parse_tensor(x, tf.uint8), [1, 255]),
    "raw": ([0.1, 2.0], lambda x: tf.io.decode_raw(x, tf.float64), [0.1, 2.0]),
    "raw<float64>": ([[1], [2]], lambda x: tf.io.decode_raw(x, tf.float64), [1.0, 2.0]),
    "raw<int16>": ([1, -2], lambda x: tf.io.decode_raw(x, tf.int16), [1, -2]),
}  # fmt: skip


@pytest.mark.parametrize("declared", DECLARED)
@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_numbers_of_declared_tensors(tmp_path: Path, declared: str, kind: str) -> None:
    """TensorFlow reads tensors of the declared type.

    Their columns have integers or fractions.
    """
    value, parse, wanted = DECLARED[declared]
    path = tmp_path / ("d.parquet" if kind == "parquet" else "d.jsonl")
    if kind == "parquet":
        pq.write_table(pa.table({"x": [value, None]}), path)
    else:
        path.write_text(f"{json.dumps({'x': value})}\n{json.dumps({'x': None})}\n")
    found, missing = (row["x"] for row in read_rows(path, types={"x": declared}))
    assert missing is None
    parsed = parse(found).numpy()
    expected = np.array(wanted).astype(parsed.dtype)
    assert np.array_equal(parsed.reshape(expected.shape), expected)


@pytest.mark.parametrize(
    ("value", "declared", "message"),
    [
        ([2**53 + 1], "raw<float64>", "an integer that no float64 equals"),
        ([300], "raw<uint8>", "not in range"),
    ],
)
def test_numbers_that_a_declared_tensor_cannot_hold(tmp_path, value, declared, message):
    """A number that the declared tensor cannot hold is a bad row.

    The error says why.
    """
    pq.write_table(pa.table({"x": [value]}), tmp_path / "d.parquet")
    with pytest.raises(DataError, match=rf"row 1, column 'x': found .*{message}"):
        read_rows(tmp_path / "d.parquet", types={"x": declared})


def test_types_that_are_no_declared_tensors(tmp_path: Path) -> None:
    """Unknown numbers, texts as raw bytes, and formats without arrays are problems."""
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"x": [["a"]], "y": [0.5]}), path)
    for name, declared, message in (
        ("x", "raw", "which cannot become raw"),
        ("x", "tensor<float16>", "which cannot become tensor<float16>"),
        ("y", "tensor<bfloat>", "unknown type 'tensor<bfloat>'"),
        ("y", "raw<text>", "unknown type 'raw<text>'"),
        ("y", "list<raw>", "unknown type"),
    ):
        assert message in str(problems_of(path, types={name: declared})), declared
    (tmp_path / "d.csv").write_text("x\n1\n")
    assert "holds no arrays" in str(problems_of(tmp_path / "d.csv", types={"x": "raw"}))


def test_tensors_in_a_dataset(tmp_path: Path) -> None:
    """A declared tensor keeps float64 and each row's shape throughout."""
    arrays = [np.full((1, 2), 0.1), np.array([[1 / 3], [2 / 3]])]
    pq.write_table(pa.table({"x": [array.tolist() for array in arrays]}), tmp_path / "d.parquet")
    convert_in(tmp_path, recipe("d.parquet", ", types: {x: tensor}"))
    (batch,) = loader.load(tmp_path / "out", shuffle=False)
    for serialized, array in zip(batch["x"].numpy()[:, 0], arrays, strict=True):
        assert np.array_equal(tf.io.parse_tensor(serialized, tf.float64).numpy(), array)
