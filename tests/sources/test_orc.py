"""ORC files."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import Limits
from beam_pipelines.sources import orc as orc_format
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, read_rows

DAY = datetime.date(2026, 11, 23)
TABLE = pa.table(
    {
        "n": pa.array(range(5_000), pa.int32()),
        "text": [f"row {number}" for number in range(5_000)],
        "list": [[1, 2], None] * 2_500,
        "nested": [{"a": True}] * 5_000,
        "day": [DAY] * 5_000,
        "time": pa.array([1_000_000] * 5_000, pa.timestamp("ns")),
    }
)
COLUMNS = ("n", "text", "list", "nested.a", "day")


def test_rows_are_those_of_pyarrow(tmp_path: Path) -> None:
    """All stripes are read, in order, with nested columns flat."""
    orc.write_table(TABLE, tmp_path / "a.orc", stripe_size=65_536, batch_size=500)
    assert orc.ORCFile(tmp_path / "a.orc").nstripes > 1
    found = read_rows(tmp_path / "a.orc", columns=COLUMNS)
    assert found == [
        {"n": n, "text": f"row {n}", "list": [1, 2] if n % 2 == 0 else None, "nested.a": True,
         "day": DAY}
        for n in range(5_000)
    ]  # fmt: skip


def test_bad_rows_have_their_places(tmp_path: Path) -> None:
    """A value beyond the declared type names its row in the file."""
    orc.write_table(TABLE, tmp_path / "a.orc", stripe_size=65_536, batch_size=500)
    plan = plan_of(tmp_path / "a.orc", columns=("n",), types={"n": "int8"})
    table, counts, rejected = read.read_table(plan, reject=True)
    assert (table.num_rows, counts["rejected"]) == (128, 4_872)
    assert [rejected[0].position, rejected[-1].position] == ["row 129", "row 5000"]


def test_damage_is_an_error(tmp_path: Path) -> None:
    """Cut files and others say what is wrong."""
    path = tmp_path / "a.orc"
    orc.write_table(TABLE, path)
    data = path.read_bytes()
    for content in (data[: len(data) // 2], data[:-5], b"a,b\n1,2\n", b""):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"a\.orc"):
            read_rows(path)


def test_stripes_that_grow_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoded bytes of a file are bounded by its own."""
    orc.write_table(pa.table({"x": ["a" * 1_000] * 20_000}), tmp_path / "a.orc", compression="zstd")
    monkeypatch.setattr("beam_pipelines.core.limits.FREE_BYTES", 1 << 20)
    assert orc_format.Orc().title == "ORC"
    with pytest.raises(DataError, match=r"a\.orc, stripe 0: .*decompression_ratio"):
        read_rows(tmp_path / "a.orc", limits=Limits(decompression_ratio=20))
