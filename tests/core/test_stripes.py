"""core/layout/stripes.py packs batches into files, and reads any rows of them."""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pytest

from beam_pipelines.core import _native
from beam_pipelines.core.layout import stripes
from tests.support.kernels import without_kernels

ROWS = 5000
BATCH = pa.RecordBatch.from_pydict(
    {
        "number": [row if row % 7 else None for row in range(ROWS)],
        "text": [f"text {row % 13}" for row in range(ROWS)],
        "list": [[row, None] if row % 3 else [] for row in range(ROWS)],
    }
)
FORMS = ["kernels", "arrow"]


@pytest.fixture(params=FORMS)
def content(request: pytest.FixtureRequest) -> tuple[bytes, int]:
    """Returns the batch packed in each form, and where its tail begins."""
    if request.param == "kernels" and not _native.KERNELS_AVAILABLE:
        pytest.skip("the extension is not built: there is no compiler")
    with without_kernels() if request.param == "arrow" else contextlib.nullcontext():
        packed = stripes.pack(BATCH, "a.csv")
    return b"".join(bytes(buffer) for buffer in packed.buffers), packed.tail


@pytest.mark.parametrize(("first", "rows"), [(0, ROWS), (0, 1), (ROWS - 1, 1), (777, 2500)])
def test_any_rows_come_back(content: tuple[bytes, int], first: int, rows: int) -> None:
    """Spans have the rows that were asked for."""
    data, tail_begin = content
    tail = stripes.read_tail(data[tail_begin:])
    assert (tail.rows, tail.about, tail.schema) == (ROWS, "a.csv", BATCH.schema)
    span = tail.span(first, rows)
    piece = (data[span.begin : span.end], span)
    found = stripes.unpack(tail.schema, [piece, piece])
    assert found.slice(0, rows).equals(BATCH.slice(first, rows))
    assert found.slice(rows).equals(BATCH.slice(first, rows))


def test_a_span_is_small() -> None:
    """A few rows need a few stripes, with kernels and without."""
    for column in (BATCH.column("number"), BATCH.column("text").dictionary_encode()):
        packed = stripes.pack(pa.RecordBatch.from_arrays([column], ["c"]), "")
        data = b"".join(bytes(buffer) for buffer in packed.buffers)
        span = stripes.read_tail(data[packed.tail :]).span(100, 10)
        assert span.end - span.begin < 3 * stripes.STRIPE_BYTES


@pytest.mark.parametrize("damage", [b"", b"short", b"\0" * 64, b"\xff" * 64])
def test_a_damaged_tail_is_refused(damage: bytes) -> None:
    """Bytes that are no tail are a ``ValueError``."""
    with pytest.raises(ValueError, match="no index of rows"):
        stripes.read_tail(damage)


def test_a_batch_without_rows_has_its_schema() -> None:
    """A file without rows gives the schema, and no stripes."""
    packed = stripes.pack(BATCH.slice(0, 0), "a.csv")
    tail = stripes.read_tail(b"".join(bytes(buffer) for buffer in packed.buffers)[packed.tail :])
    assert (tail.rows, len(tail.ends), tail.schema) == (0, 0, BATCH.schema)
