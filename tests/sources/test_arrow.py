"""Arrow IPC files and streams."""

from __future__ import annotations

import io
import resource
import struct
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import feather

from beam_pipelines.core.arrow import arrow_sizes
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.sources import source_format
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
def test_files_and_streams_are_read(tmp_path, kind, monkeypatch):
    """Both kinds give the same rows, in chunks of bounded length."""
    monkeypatch.setattr(source_format, "MAX_CHUNK_ROWS", 3)
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


@pytest.mark.parametrize("kind", ["file", "stream", "feather"])
def test_sizes_that_are_not_those_of_the_file(tmp_path: Path, kind: str) -> None:
    """A huge number in any place is an error, or harmless.

    No read takes the memory that a number states.
    """
    good = write_table(tmp_path / "good.arrow", kind).read_bytes()
    path = tmp_path / "a.arrow"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    errors: list[str] = []
    for number in (struct.pack("<q", 1 << 40), struct.pack("<i", (1 << 31) - 1)):
        for place in range(0, len(good) - len(number), 8):
            path.write_bytes(good[:place] + number + good[place + len(number) :])
            try:
                read_rows(path)
            except DataError as error:
                errors.append(str(error))
            except RecipeProblems:  # a column has lost its name
                pass
    assert len(errors) > 20
    assert [error for error in errors if str(path) not in error] == []
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 << 10  # KiB


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("legacy", [False, True])
def test_sizes_are_those_of_the_batches(kind: str, compression: str | None, legacy: bool) -> None:
    """Stated sizes are those of the buffers, and the position stays."""
    table = pa.table({
        "number": list(range(5000)),
        "text": [f"text {row % 7}" for row in range(5000)],
        "word": pa.array([f"w{row % 9}" for row in range(5000)]).dictionary_encode(),
        "list": [[row, row] for row in range(5000)],
        "none": pa.nulls(5000),
    })  # fmt: skip
    version = pa.ipc.MetadataVersion.V4 if legacy and not compression else pa.ipc.MetadataVersion.V5
    options = pa.ipc.IpcWriteOptions(
        compression=compression, use_legacy_format=legacy, metadata_version=version
    )
    sink = io.BytesIO()
    new = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with new(sink, table.schema, options=options) as writer:
        writer.write_table(table, 1700)
    file = io.BytesIO(sink.getvalue())
    reader = pa.ipc.open_file(file) if kind == "file" else pa.ipc.open_stream(file)
    place = file.tell()
    found = list(arrow_sizes.batch_sizes(file, kind == "file"))
    assert file.tell() == place
    batches = (
        [reader.get_batch(number) for number in range(reader.num_record_batches)]
        if kind == "file"
        else list(reader)
    )
    assert pa.Table.from_batches(batches) == table
    assert len(found) == len(batches) == 3
    for (compressed, decompressed), batch in zip(found, batches, strict=True):
        assert (compressed < decompressed) == bool(compression)
        # Without the padding of buffers and, of the first, the dictionary's bytes.
        assert batch.nbytes - 200 <= decompressed <= batch.nbytes + 600
