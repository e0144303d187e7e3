"""Long values in Parquet dictionaries.

They are refused, or decoded some rows at a time.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import MIB, Limits
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.output import Output
from beam_pipelines.sources import planner
from beam_pipelines.sources.parquet import columns
from beam_pipelines.sources.parquet.columns import (
    decode,
    dictionary_columns,
    longest_row,
    row_bytes,
)
from beam_pipelines.transforms import read
from beam_pipelines.transforms.size_sample import Share, estimate_row_bytes, sample_rows
from tests.support.made_source import made_source

LONG = "x" * MIB


def write(
    path: Path, rows: int, texts: list[str], indices: np.ndarray, stored: bool = False, **more: Any
) -> Path:
    """Writes a table whose column ``text`` has few values.

    With ``stored`` its schema says that it has a dictionary.
    """
    text = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(texts))
    table = pa.table(
        {"id": np.random.default_rng(1).integers(0, 1 << 60, rows), "text": text, **more}
    )
    with pq.ParquetWriter(path, table.schema, store_schema=stored) as writer:
        writer.write_table(table, row_group_size=rows)
    return path


def size_of(value: Any) -> int:
    """Bytes of all texts in a value."""
    if isinstance(value, dict):
        return sum(map(size_of, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(size_of, value))
    return len(value) if isinstance(value, str) else 0


def test_sizes_are_those_of_the_decoded_texts(tmp_path: Path) -> None:
    """Sizes are right row by row, and parts decode like the whole.

    There are nulls and slices, in lists, structs, maps and each other.
    """
    columns = {
        "flat": ["x" * 10, None, "y"],
        "list": [["a" * 100, "b", None], None, ["c"]],
        "struct": [{"k": "q"}, None, {"k": "rr"}],
        "lists": [[["a" * 100, "b"]], [["c"], None], None],
        "map": pa.array([[("k", "vvv")], None, []], pa.map_(pa.string(), pa.string())),
        "fixed": pa.array([["a", "bb"], ["d", None], ["c", None]], pa.list_(pa.string(), 2)),
        "null": pa.nulls(3, pa.string()),
        "number": [1, 2, 3],
    }
    table = pa.concat_tables([pa.table(columns)] * 500).combine_chunks()
    pq.write_table(table, tmp_path / "a.parquet")
    plain = pq.ParquetFile(tmp_path / "a.parquet")
    paths = dictionary_columns(plain.metadata, range(plain.num_row_groups))
    assert len(paths) == 8  # keys and values of the map
    with_dictionaries = pq.ParquetFile(tmp_path / "a.parquet", read_dictionary=paths)
    for batch in with_dictionaries.iter_batches(700):
        for some in (batch, batch.slice(5, 100), batch.slice(0, 0)):
            rows = some.to_pylist()
            assert row_bytes(some).tolist() == [sum(map(size_of, row.values())) for row in rows]
            assert max(row_bytes(some), default=0) <= longest_row(some, plain.metadata.row_group(0))
            parts = list(decode(some, plain.schema_arrow, 500))
            assert [row for part in parts for row in part.to_pylist()] == rows
            assert all(part.schema == plain.schema_arrow for part in parts)
            assert all(
                sum(row_bytes(some).tolist()) <= 500 or part.num_rows < some.num_rows
                for part in parts
            )


# Prints the error of each file, and how much memory it took.
READ_BOMBS = """
import resource, sys
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import planner
from beam_pipelines.transforms import read
for path in sys.argv[1:]:
    plan = planner.plan_source(Source("a", (path,)), "")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        read.read_table(plan, reject=False)
    except Exception as error:
        print(error)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_bomb_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    """A decompression bomb is refused before it is decoded.

    Its text stands for 200 GB, as text or as a dictionary; the error takes little memory. It has
    file, row group, column and the limit.
    """
    paths = [
        write(tmp_path / f"{stored}.parquet", 200_000, [LONG], np.zeros(200_000), stored=stored)
        for stored in (False, True)
    ]
    assert all(path.stat().st_size < 2 * MIB for path in paths)
    command = [sys.executable, "-c", READ_BOMBS, *map(str, paths)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=True)
    lines = ended.stdout.splitlines()
    for path, message, grown in zip(paths, lines[::2], lines[1::2], strict=True):
        assert message.startswith(
            f"{path}, row group 0, column 'text': found 209,715,200,000 bytes decompressed from "
        )
        assert "'decompression_ratio'" in message
        assert int(grown) * 1024 < 100 * MIB


@pytest.mark.parametrize("name", ["text", "a.text"])
def test_small_row_groups_are_counted_together(tmp_path: Path, name: str) -> None:
    """Each is below ``FREE_BYTES``; all together are not."""
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(60), pa.int32()), pa.array([LONG]))
    with pq.ParquetWriter(
        tmp_path / "a.parquet", pa.schema([(name, text.type)]), store_schema=False
    ) as writer:
        for _ in range(4):
            writer.write_table(pa.table({name: text}))
    plan = planner.plan_source(
        made_source("a", (str(tmp_path / "a.parquet"),), limits=Limits(decompression_ratio=2)), ""
    )
    with pytest.raises(
        DataError, match=rf"row group 1, column '{name}': found .* bytes decompressed"
    ):
        read.read_table(plan, reject=False)


@pytest.mark.parametrize("stored", [False, True], ids=["as text", "as a dictionary"])
def test_long_values_are_decoded_some_rows_at_a_time(tmp_path: Path, stored: bool) -> None:
    """Long texts come in chunks of usual size.

    They have a MiB each, and follow short ones.
    """
    indices = np.zeros(50_000)
    indices[30_000:30_100] = 1
    path = write(tmp_path / "a.parquet", 50_000, ["short", LONG], indices, stored=stored)
    plan = planner.plan_source(Source("a", (str(path),)), "")
    chunks = [
        chunk
        for byte_range in plan.ranges
        for chunk in read.read_range(plan, byte_range, {}, reject=False)
    ]
    assert max(chunk.batch.nbytes for chunk in chunks) < 18 * MIB
    lengths = np.concatenate([chunk.batch.column("text").to_pandas().str.len() for chunk in chunks])
    assert lengths.tolist() == np.where(indices, MIB, 5).tolist()


def test_common_tables_are_read_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without long values, only one row is read with its dictionary."""
    path = write(tmp_path / "a.parquet", 300_000, ["short", "text"], np.arange(300_000) % 2)
    monkeypatch.setattr(columns, "decode", pytest.fail)
    monkeypatch.setattr(columns, "row_bytes", pytest.fail)
    (table, *_) = read.read_table(planner.plan_source(Source("a", (str(path),)), ""), reject=False)
    assert table.num_rows == 300_000


def test_the_sample_of_a_range_that_grows_is_bounded_and_tells_the_same(tmp_path: Path) -> None:
    """Later chunks are sampled less, with more weight.

    Rows that become longer and longer are estimated within a tenth.
    """
    chunks = [
        Chunk(0, part, pa.record_batch({"t": ["x" * (200 + 10 * part)] * 5_000}), {})
        for part in range(100)
    ]
    samples = [
        sample
        for chunk in chunks
        for sample in sample_rows(chunk, Share(1.0, 2 * MIB), shuffle=True)
    ]
    assert (
        sum(sample.batch.nbytes for sample in samples)
        < 2 * MIB * sum(1 / (part + 1) for part in range(100)) * 1.1
    )
    _, framed = estimate_row_bytes(samples, Output())
    _, exact = estimate_row_bytes(
        [chunk._replace(batch=chunk.batch.slice(0, 200)) for chunk in chunks], Output()
    )
    assert framed == pytest.approx(exact, rel=0.1)
