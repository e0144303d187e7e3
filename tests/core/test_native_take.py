"""The native ``take`` gives the result of Arrow's for any type.

It refuses rows out of range.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.columns import take_rows

pytestmark = pytest.mark.skipif(not _native.KERNELS_AVAILABLE, reason="needs the C++ kernels")

VALUES = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.uint16(): st.integers(0, 2**16 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.string(): st.text(max_size=40),
    pa.binary(): st.binary(max_size=40),
    pa.large_string(): st.text(max_size=40),
    pa.large_binary(): st.binary(max_size=40),
    pa.date32(): st.dates(),
    pa.time64("us"): st.times(),
    pa.timestamp("us", "UTC"): st.datetimes(),
    pa.decimal128(6, 2): st.decimals(min_value=-999, max_value=999, places=2),
    pa.list_(pa.string()): st.lists(st.none() | st.text(max_size=5), max_size=4),
    pa.dictionary(pa.int32(), pa.string()): st.text(max_size=3),
    pa.struct([("a", pa.int64())]): st.fixed_dictionaries({"a": st.integers(0, 9)}),
}


def bits(batch: pa.RecordBatch) -> list[tuple[pa.DataType, str]]:
    """Returns a batch in a form that compares bit by bit.

    As text, NaN equals itself, and 0.0 differs from -0.0.
    """
    return [(column.type, str(column.to_pylist())) for column in batch.columns]


@given(
    st.data(), st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4), st.integers(0, 40)
)
def test_rows_are_those_that_arrow_takes(data, types, count):
    """The native ``take`` gives the values and nulls of Arrow's.

    The columns are slices of all types; rows come in any order, some several times.
    """
    columns = [
        pa.array(
            data.draw(st.lists(st.none() | VALUES[type_], min_size=count, max_size=count)), type_
        )
        for type_ in types
    ]
    start = data.draw(st.integers(0, count))
    batch = pa.RecordBatch.from_arrays(
        columns, [str(number) for number in range(len(types))]
    ).slice(start)
    rows = data.draw(
        st.lists(st.integers(0, max(count - start - 1, 0)), max_size=60 if count > start else 0)
    )
    found = _native.take(batch, np.array(rows, np.int64))
    found.validate(full=True)
    assert found.schema == batch.schema
    assert bits(found) == bits(batch.take(pa.array(rows, pa.int64())))


def test_texts_may_outgrow_what_was_foreseen() -> None:
    """Texts may be far larger than their rows' share of the column.

    The rows select the longest of many texts a thousand times.
    """
    batch = pa.record_batch({"text": pa.array(["a", *["b"] * 5000, "c" * 100_000])})
    rows = np.array([5001] * 1000 + [0], np.int32)
    found = _native.take(batch, rows)
    assert found.equals(batch.take(pa.array(rows)))


@pytest.mark.parametrize("row", [-1, 3, 2**40])
def test_rows_that_are_not_there_are_refused(row: int) -> None:
    """A row out of range is an error with its place."""
    batch = pa.record_batch({"a": [1, 2, 3]})
    with pytest.raises(ValueError, match=f"found {row} at place 1, expected a row from 0 to 2"):
        _native.take(batch, np.array([0, row]))


def test_without_nulls_there_is_no_bitmap() -> None:
    """A selection without nulls has the null count 0."""
    batch = pa.record_batch({"a": pa.array([1, None, 3])})
    assert _native.take(batch, np.array([0, 2])).column(0).null_count == 0
    assert _native.take(batch, np.array([0, 1, 1])).column(0).null_count == 2


@pytest.mark.usefixtures("with_and_without_kernels")
def test_take_rows_with_and_without_kernels() -> None:
    """``take_rows`` gives the same with and without the kernels."""
    batch = pa.record_batch({"a": [1, 2, 3], "b": ["x", None, "z"]})
    assert take_rows(batch, np.array([2, 1])).to_pydict() == {"a": [3, 2], "b": ["z", None]}
