"""An encoder gives what shards and serving graph have."""

from __future__ import annotations

import datetime
import json
import math
import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings

import beam_pipelines as bp
from beam_pipelines.core import _native
from beam_pipelines.core.arrow.columns import value_type
from beam_pipelines.core.errors import DataError
from beam_pipelines.encodings.apply import to_feature
from beam_pipelines.reader.columns import Ragged
from tests.support.encoder_dataset import COLUMNS

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def encoder(folder):
    """The encoder of all features but the label."""
    return bp.open(folder).encoder()


def raw_table(folder: str) -> pa.Table:
    """The rows that were converted."""
    return pq.read_table(Path(folder).parent / "rows.parquet")


def rows_of(values: Any, count: int) -> list[Any]:
    """Each row's value, with which rows are compared to the bit."""
    if isinstance(values, Ragged):
        return [
            [_bits(item) for item in values.values[start:end].tolist()] if is_present else None
            for start, end, is_present in zip(
                values.offsets[:-1], values.offsets[1:], values.is_present, strict=True
            )
        ]
    assert len(values) == count
    return [_bits(item) for item in values.tolist()]


def _bits(value: Any) -> Any:
    if isinstance(value, list):
        return [_bits(item) for item in value]
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    return value


def form_of(values: Any) -> Any:
    """Returns dtype and shape of a row's values; of texts their type."""
    return values.type if isinstance(values, pa.Array) else (values.dtype, values.shape[1:])


def assert_same(got: dict[str, Any], expected: dict[str, Any], count: int) -> None:
    """Compares all features to the bit, and their types."""
    assert got.keys() == expected.keys()
    for name, values in expected.items():
        assert type(got[name]) is type(values), name
        first, second = (
            (found.values if isinstance(found, Ragged) else found) for found in (got[name], values)
        )
        assert form_of(first) == form_of(second), name
        assert rows_of(got[name], count) == rows_of(values, count), name


def test_raw_rows_become_what_the_shards_have(folder, encoder):
    """Rows of every form give the examples of the split eval.

    Nothing was fitted on it.
    """
    [expected] = bp.open(folder).batches("eval", 10_000, shuffle=False)
    ids = expected["id"]
    table = raw_table(folder).take(pa.array(ids))
    dictionaries = table.to_pylist()
    del expected["y"]
    count = len(ids)
    assert count > 50
    assert set(encoder.features) == set(expected)
    assert_same(encoder(table), expected, count)
    assert_same(encoder(table.to_batches()[0]), expected, count)
    assert_same(encoder(dictionaries), expected, count)
    single = [encoder(row) for row in dictionaries]
    for name, values in expected.items():
        got = [rows_of(row[name], 1)[0] for row in single]
        assert got == rows_of(values, count), name


def test_missing_values_of_a_frame_are_null(folder, encoder):
    """Missing values of a DataFrame are encoded as None is."""
    table = raw_table(folder).slice(0, 100)
    column = table["f"]
    without_nan = table.set_column(
        1, "f", pc.if_else(pc.is_nan(column), pa.scalar(None, pa.float64()), column)
    )
    frame = without_nan.to_pandas()
    assert frame["n"].dtype == np.float64  # which pandas makes of integers with nulls
    assert_same(encoder(frame), encoder(without_nan), 100)
    assert_same(encoder(frame.iloc[:0]), encoder(without_nan.slice(0, 0)), 0)
    assert isinstance(frame, pd.DataFrame)


MISSING = (None, float("nan"), pd.NaT, pd.NA)


def test_columns_without_a_value_have_the_declared_type(folder, encoder):
    """A batch without a value is one of nulls.

    Whatever type its writer gave it.

    In a column of floats of dictionaries NaN is a value, as in the shards.
    """
    table = raw_table(folder).slice(0, 3)
    for name in ("f", "g", "n", "t", "d", "flag", "words"):
        place, rows = table.schema.get_field_index(name), table.to_pylist()
        empty = table.set_column(place, table.schema.field(name), pa.nulls(3, table[name].type))
        expected = encoder(empty)
        for type_ in (pa.null(), pa.float64(), pa.string(), pa.int8(), pa.timestamp("ns")):
            assert_same(encoder(table.set_column(place, name, pa.nulls(3, type_))), expected, 3)
        for value in MISSING:
            frame = table.to_pandas()
            for column in ([value] * 3, pd.Series([value] * 3, dtype=object)):
                frame[name] = column
                assert_same(encoder(frame), expected, 3)
            if not (isinstance(value, float) and name in ("f", "g")):
                assert_same(encoder([row | {name: value} for row in rows]), expected, 3)
    nothing = pd.DataFrame({name: [] for name in table.column_names})
    assert_same(encoder(nothing), encoder([]), 0)


TEXTS = st.sampled_from(["", "to be", "  Or\tÉ", "new", "a\nb"]) | st.text(
    st.characters(codec="utf-8"), max_size=6
)
INTS = st.integers(-10, 40) | st.integers(-(2**24), 2**24)
FLOATS = (
    st.sampled_from([0.0, -0.0, 1e-42, math.nan, math.inf, -math.inf, 3.4e38])
    | st.floats(-10, 10)
    | st.floats(width=32)
)
ROWS = st.fixed_dictionaries(
    {
        "id": INTS,
        "f": st.none() | FLOATS,
        "g": st.none() | st.floats(-1, 9, width=32),
        "n": st.none() | INTS,
        "m": INTS,
        "t": st.none() | TEXTS,
        "u": st.sampled_from("abcz") | TEXTS,
        "b": st.binary(max_size=4),
        "d": st.none() | st.dates(),
        "ts": st.datetimes(),
        "flag": st.none() | st.booleans(),
        "words": st.none() | st.lists(TEXTS, max_size=4),
        "v": st.lists(st.floats(width=32), min_size=3, max_size=3),
        "y": st.booleans(),
    }
)


def test_encoder_and_serving_graph_give_the_same(folder, encoder):
    """Integers and bytes are equal, floats within one last place."""
    import tensorflow as tf

    graph = tf.saved_model.load(bp.make_graph(folder))
    serve = graph.signatures["serving_default"]

    @settings(max_examples=25, suppress_health_check=list(HealthCheck))
    @given(st.lists(ROWS, min_size=1, max_size=5))
    def check(rows: list[dict[str, Any]]) -> None:
        batch = pa.RecordBatch.from_pylist(rows, COLUMNS)
        features = [to_feature(column) for column in batch.columns]
        # A tf.Example has no float64.
        same = [
            pc.cast(one, field.type) if pa.types.is_floating(value_type(field.type)) else column
            for one, column, field in zip(features, batch.columns, COLUMNS, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(same, schema=COLUMNS)
        rows = batch.to_pylist()
        examples = _native.serialize(
            pa.RecordBatch.from_arrays(features, COLUMNS.names), framed=False
        )
        served = {
            name: tensor.numpy()
            for name, tensor in serve(examples=tf.constant(examples.to_pylist())).items()
        }
        encoded = encoder(rows)
        assert_same(encoder(batch), encoded, len(rows))
        for name, values in encoded.items():
            expected = served[name]
            if isinstance(values, Ragged):
                lengths = served[f"{name}_row_lengths"]
                assert np.diff(values.offsets).tolist() == lengths.tolist(), name
                expected = np.concatenate(
                    [row[:length] for row, length in zip(expected, lengths, strict=True)]
                )
                values = values.values  # noqa: PLW2901
            # The graph fills in float32, which rounds the mean.
            _assert_near(values, expected.reshape(-1), name, 1e-7)

    check()


def _assert_near(found: Any, expected: np.ndarray, name: str, most: float = 0) -> None:
    if isinstance(found, pa.Array):
        assert found.tolist() == expected.tolist(), name
        return
    got = found.reshape(-1)
    if got.dtype != np.float32:
        assert got.tolist() == expected.tolist(), name
        return
    with np.errstate(all="ignore"):
        last_place = np.maximum(np.spacing(np.abs(expected)), np.finfo(np.float32).tiny)
        is_close = np.abs(got.astype(np.float64) - expected) <= np.maximum(last_place, most)
    assert (is_close | (got == expected) | (np.isnan(got) & np.isnan(expected))).all(), name


def test_columns_choose_features(folder):
    """Only the wanted features are made; the label is one too."""
    encoder = bp.open(folder).encoder(["numbers", "y"])
    assert list(encoder.columns) == ["n", "m", "ts", "v", "y"]
    row = {"n": None, "m": 1, "ts": datetime.datetime(1970, 1, 1, 6), "y": True}  # noqa: DTZ001
    row["v"] = [0.5, 0.5, 0.5]
    encoded = encoder(row)
    assert list(encoded) == ["numbers", "y"]
    assert encoded["numbers"].dtype == np.float32
    assert encoded["numbers"][0, [0, 2, 3]].tolist() == [1, 1, 0]
    assert encoded["y"].tolist() == [1]
    assert_same(pickle.loads(pickle.dumps(encoder))(row), encoded, 1)  # noqa: S301
    with pytest.raises(ValueError, match="Did you mean 'numbers'"):
        bp.open(folder).encoder(["number"])


def test_numbers_of_numpy_and_other_types_are_taken(folder, encoder):
    """Values that are equal have equal features, whatever their types."""
    row = raw_table(folder).slice(3, 1).to_pylist()[0] | {"f": 2.0, "n": 7, "flag": True}
    zone = datetime.timezone(datetime.timedelta(hours=2))
    local = row["ts"].replace(tzinfo=datetime.timezone.utc).astimezone(zone)
    others = [
        {"f": np.float32(2), "n": np.int32(7), "m": np.int64(row["m"]), "flag": np.bool_(True)},
        {"f": 2, "ts": local, "v": np.array(row["v"], np.float32), "other": object()},
        {"ts": pd.Timestamp(row["ts"])},
    ]
    for other in others:
        assert_same(encoder(row | other), encoder(row), 1)
    assert_same(encoder([row | other for other in others]), encoder([row] * 3), 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"m": None}, r"row 1, column 'm': found null, expected a value, as every row"),
        ({"v": [1.0]}, r"row 1, column 'v': found 1 values, expected 3 values"),
        ({"v": [1.0, None, 2.0]}, r"column 'v': found \[1.0, None, 2.0\].*holds a null"),
        ({"m": "x"}, r"row 1, column 'm': found 'x', expected int64"),
        ({"m": 1.5}, r"row 1, column 'm': found 1.5, expected int64"),
        ({"m": 2**63}, r"row 1, column 'm': found 9223372036854775808, expected int64"),
        ({"t": 5}, r"row 1, column 't': found 5, expected text"),
        ({"d": "2020-01-32"}, r"row 1, column 'd': found '2020-01-32', expected date"),
        ({"f": 1e300}, r"column 'f': found 1e\+300 .*beyond the range of float32"),
        ({"g": 1e300}, r"column 'g': found 1e\+300 .*beyond the range of float32"),
        ({"m": 2**24 + 1}, r"feature 'raw': found 16777217 .*no float32 equals"),
    ],
)
def test_bad_values_are_explained(folder, encoder, change, message):
    """A wrong value is an error with row, column, found, expected."""
    rows = raw_table(folder).slice(0, 2).to_pylist()
    rows[1] |= change
    with pytest.raises(DataError, match=message):
        encoder(rows)
    with pytest.raises(DataError, match=message.replace("row 1", "row 0")):
        encoder(rows[1])


def test_missing_columns_are_explained(folder, encoder):
    """A missing column is an error with type and nearest name."""
    row = raw_table(folder).slice(0, 1).to_pylist()[0]
    row["flags"] = row.pop("flag")
    message = "found no column 'flag', expected one of type bool.*Did you mean 'flags'"
    with pytest.raises(DataError, match=f"row 0: {message}"):
        encoder(row)
    with pytest.raises(DataError, match=f"rows: {message}"):
        encoder(pa.Table.from_pylist([row]))
    with pytest.raises(DataError, match=f"rows: {message}"):
        encoder(pd.DataFrame([row]))
    table = raw_table(folder)
    wrong = table.set_column(4, "m", table["m"].cast(pa.string()))
    with pytest.raises(DataError, match="column 'm': found text, expected int64"):
        encoder(wrong)
    for rows in (5, [5], "text", None):
        with pytest.raises(TypeError, match="expected a dictionary, a list of dictionaries"):
            encoder(rows)


def test_no_rows_have_no_values(encoder):
    """An empty list gives arrays of no rows."""
    encoded = encoder([])
    assert all(rows_of(values, 0) == [] for values in encoded.values())
    assert encoded["numbers"].shape == (0, 7)


def test_damaged_datasets_are_explained(folder, tmp_path):
    """Damaged encodings and other records are errors with a remedy."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    encodings = copy / "transform_graph" / "encodings" / "encodings.json"
    content = encodings.read_text()
    encodings.write_text(content[:100])
    with pytest.raises(DataError, match=r"encodings\.json: found 100 bytes with CRC-32C"):
        bp.open(copy).encoder()
    encodings.unlink()
    with pytest.raises(DataError, match=r"encodings\.json: found no file"):
        bp.open(copy).encoder()
    manifest = json.loads((copy / "dataset.json").read_text())
    (copy / "dataset.json").write_text(json.dumps(manifest | {"record": "sequence_example"}))
    with pytest.raises(DataError, match=r"found tf\.SequenceExamples, expected tf\.Examples"):
        bp.open(copy).encoder()
    (copy / "dataset.json").write_text(json.dumps(manifest | {"recipe": {"encode": 5}}))
    with pytest.raises(DataError, match="found no recipe that this version reads"):
        bp.open(copy).encoder()


def test_lists_of_other_lengths_take_a_schema_without_a_shape(tmp_path):
    """The remedy of the error reads them."""
    (tmp_path / "a.jsonl").write_text('{"v": [1, 2]}\n' * 3)
    recipe = {"name": "a", "sources": {"a": {"path": str(tmp_path / "a.jsonl")}}}
    out = str(tmp_path / "out")
    bp.convert(recipe, out)
    with pytest.raises(DataError, match=r"a 'schema' .* no shape: (value_count \{.*\})$") as caught:
        bp.open(out).encoder()({"v": [1]})
    text = (tmp_path / "out/schema/schema.pbtxt").read_text()
    shape, other = r"shape \{\s*dim \{\s*size: 2\s*\}\s*\}", str(caught.value).partition("shape: ")
    (tmp_path / "s.pbtxt").write_text(re.sub(shape, other[2], text))
    bp.convert({**recipe, "schema": str(tmp_path / "s.pbtxt")}, out, overwrite=True)
    assert bp.open(out).encoder()({"v": [1]})["v"].offsets.tolist() == [0, 1]
