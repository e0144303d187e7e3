"""Arrow IPC files and streams."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import feather

from beam_pipelines.core.errors import DataError
from beam_pipelines.sources import batch_files
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, read_rows

TABLE = pa.table({"n": pa.array(range(10), pa.int32()), "s": [{"a": "x"}] * 9 + [None]})
ROWS = [{"n": number, "s.a": "x" if number < 9 else None} for number in range(10)]


def write_table(path: Path, kind: str) -> Path:
    if kind == "feather":
        feather.write_feather(TABLE, path, compression="lz4")
        return path
    opened = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with opened(path, TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=4)
    return path


@pytest.mark.parametrize("kind", ["file", "stream", "feather"])
def test_files_and_streams_are_read(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both kinds give the same rows, in chunks of bounded length."""
    monkeypatch.setattr(batch_files, "MAX_CHUNK_ROWS", 3)
    path = write_table(tmp_path / "a.arrow", kind)
    assert read_rows(path) == ROWS
    plan = plan_of(path)
    chunks = list(read.read_range(plan, plan.ranges[0], {}, reject=False))
    assert max(chunk.batch.num_rows for chunk in chunks) == 3
    assert chunks[-1].crc32c is not None


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_damaged_files_name_themselves(tmp_path: Path, kind: str) -> None:
    """A truncated file, or one that is no Arrow, is an error."""
    path = write_table(tmp_path / "a.arrow", kind)
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(DataError, match=r"a\.arrow: found damaged Arrow data"):
        read_rows(path)
    path.write_bytes(b"a,b\n1,2\n")
    with pytest.raises(DataError, match=r"a\.arrow: found damaged Arrow data"):
        read_rows(path)
