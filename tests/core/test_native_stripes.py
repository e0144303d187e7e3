"""Stripes give back the rows that were packed, and refuse damage."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core import _native

pytestmark = pytest.mark.skipif(not _native.KERNELS_AVAILABLE, reason="needs the C++ kernels")

SMALL = st.integers(-3, 3)
VALUES = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.uint16(): st.integers(0, 2**16 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): SMALL | st.integers(-(2**40), 2**40) | st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.string(): st.text(max_size=40) | st.text("ab", min_size=2, max_size=2),
    pa.binary(): st.binary(max_size=400),
    pa.date32(): st.dates(),
    pa.time64("us"): st.times(),
    pa.timestamp("us", "UTC"): st.datetimes(),
    pa.list_(pa.int64()): st.lists(st.none() | SMALL, max_size=4),
    pa.list_(pa.string()): st.lists(st.none() | st.text(max_size=5), max_size=4),
    pa.list_(pa.list_(pa.float32())): st.lists(
        st.none() | st.lists(st.none() | st.floats(width=32), max_size=3), max_size=3
    ),
}
OTHERS = [
    pa.array(["a", None], pa.large_string()),
    pa.array(["a", None]).dictionary_encode(),
    pa.array([[1], None], pa.list_(pa.int64(), 1)),
    pa.array([{"a": 1}, None]),
]


def texts(batch: pa.RecordBatch) -> list[tuple[pa.DataType, str]]:
    """Returns columns as texts: NaN equals itself, 0.0 is not -0.0."""
    return [(column.type, str(column.to_pylist())) for column in batch.columns]


def draw_batch(data: st.DataObject) -> pa.RecordBatch:
    """Draws a slice of a batch with columns of any types."""
    types = data.draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4))
    count = data.draw(st.integers(1, 40))
    columns = []
    for type_ in types:
        values = st.lists(
            VALUES[type_] if data.draw(st.booleans()) else st.none() | VALUES[type_],
            min_size=count,
            max_size=count,
        )
        columns.append(pa.array(data.draw(values), type_))
    batch = pa.RecordBatch.from_arrays(columns, [f"c{number}" for number in range(len(columns))])
    return batch.slice(data.draw(st.integers(0, count - 1)))


@given(st.data())
def test_rows_are_those_that_were_packed(data: st.DataObject) -> None:
    """Any consecutive rows of any stripes come back, several times as well."""
    from beam_pipelines.core._native import pack_stripes, unpack_stripes

    batch = draw_batch(data)
    size = data.draw(st.integers(1, 50))
    packed = pack_stripes(batch, size)
    assert packed is not None
    content, ends = packed[0].to_pybytes(), [0, *packed[1].tolist()]
    assert len(ends) - 1 == -(-batch.num_rows // size)
    pieces, expected = [], [batch.slice(0, 0)]
    for _ in range(data.draw(st.integers(1, 4))):
        first = data.draw(st.integers(0, batch.num_rows - 1))
        count = data.draw(st.integers(1, batch.num_rows - first))
        begin, end = first // size, (first + count - 1) // size
        pieces.append((content[ends[begin] : ends[end + 1]], first - begin * size, count))
        expected.append(batch.slice(first, count))
    found = unpack_stripes(batch.schema, pieces)
    found.validate(full=True)
    whole = pa.Table.from_batches(expected).combine_chunks().to_batches()[0]
    assert found.schema == batch.schema
    assert texts(found) == texts(whole)
    assert [column.null_count for column in found.columns] == [
        column.null_count for column in whole.columns
    ]


@given(st.data())
def test_damage_is_refused_or_gives_other_rows(data: st.DataObject) -> None:
    """Damaged stripes are a ``ValueError``, or give as many sound rows."""
    from beam_pipelines.core._native import pack_stripes, unpack_stripes

    batch = draw_batch(data)
    packed = pack_stripes(batch, 8)
    assert packed is not None
    content = bytearray(packed[0].to_pybytes()[: int(packed[1][-1])])
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.sampled_from([len(content), len(content) // 2]))]
    try:
        found = unpack_stripes(batch.schema, [(bytes(content), 0, batch.num_rows)])
    except ValueError:
        return
    assert found.num_rows == batch.num_rows
    for column in found.columns:
        column.validate()


@pytest.mark.parametrize("column", OTHERS, ids=[str(column.type) for column in OTHERS])
def test_other_types_are_declined(column: pa.Array) -> None:
    """The kernel leaves columns of other types to Arrow."""
    from beam_pipelines.core._native import pack_stripes

    assert pack_stripes(pa.RecordBatch.from_arrays([column], ["c"]), 1) is None


def test_integers_and_lengths_are_narrow() -> None:
    """Small numbers take a byte each, texts of one length their bytes."""
    from beam_pipelines.core._native import pack_stripes

    rows = 4096
    numbers = pa.array(np.arange(rows) % 200 + 10**15)
    words = pa.array([f"{row:08x}" for row in range(rows)])
    for column, size in ((numbers, 1), (words, 8)):
        packed = pack_stripes(pa.RecordBatch.from_arrays([column], ["c"]), 1024)
        assert packed is not None
        assert size * rows <= packed[1][-1] < size * rows + 100
