"""transforms/spill.py returns spilled chunks unchanged."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.chunks import Chunk, Rejected
from beam_pipelines.core.errors import DataError
from beam_pipelines.transforms.spill import load_chunk, spill_chunk

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "number": st.none() | st.integers(-(2**63), 2**63 - 1),
            "text": st.none() | st.text(max_size=5),
            "list": st.none()
            | st.lists(st.none() | st.floats(width=32, allow_nan=False), max_size=3),
        }
    ),
    max_size=20,
)
SCHEMA = pa.schema({"number": pa.int64(), "text": pa.string(), "list": pa.list_(pa.float32())})


def chunk_of(rows: list[dict[str, object]]) -> Chunk:
    """Makes a chunk of some rows."""
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
    rejected = (Rejected("s", "f", "line 3", "c", "why", "text"),)
    return Chunk(3, 1, batch, {"read": 2}, rejected, 7, "folder/file.csv", "train", 0, ([1, "a"],))


@given(ROWS, st.integers(0, 19))
def test_a_chunk_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]], start: int
) -> None:
    """Nulls, empty lists and slices of longer batches included."""
    chunk = chunk_of(rows)
    chunk = chunk._replace(batch=chunk.batch.slice(min(start, len(rows))))
    kept = spill_chunk(chunk, str(tmp_path_factory.mktemp("kept")))
    loaded = load_chunk(kept)
    assert loaded.batch.equals(chunk.batch)
    assert loaded._replace(batch=None) == chunk._replace(batch=None)


def test_what_travels_is_small(tmp_path: Path) -> None:
    """A spilled chunk is a small element for any number of rows."""
    kept = spill_chunk(chunk_of([{"number": row} for row in range(10_000)]), str(tmp_path))
    assert len(pickle.dumps(kept)) < 500


def test_a_retry_replaces_the_file(tmp_path: Path) -> None:
    """A bundle that runs twice leaves one file, with the same bytes."""
    chunk = chunk_of([{"number": 1}])
    before = Path(spill_chunk(chunk, str(tmp_path)).file).read_bytes()
    assert Path(spill_chunk(chunk, str(tmp_path)).file).read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("damage", [b"", b"short", b"x" * 5000, None])
def test_a_damaged_file_is_an_error(tmp_path: Path, damage: bytes | None) -> None:
    """A changed or removed temporary file is named."""
    kept = spill_chunk(chunk_of([{"number": 1}]), str(tmp_path))
    if damage is None:
        Path(kept.file).unlink()
    else:
        Path(kept.file).write_bytes(damage)
    with pytest.raises(DataError, match=r"3_1_0_train"):
        load_chunk(kept)


def test_a_file_with_other_rows_is_an_error(tmp_path: Path) -> None:
    """The number of rows is checked."""
    spilled = spill_chunk(chunk_of([{"number": 1}, {"number": 2}]), str(tmp_path))
    with pytest.raises(DataError, match=r"found 2 rows, expected 1\. A temporary file was changed"):
        load_chunk(spilled._replace(rows=1))
