"""ORC files."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import Limits
from beam_pipelines.transforms import read
from beam_pipelines_plugins.formats import orc as orc_format
from tests.sources.support import plan_of, read_rows

DAY = datetime.date(2026, 11, 23)
TABLE = pa.table(
    {
        "n": pa.array(range(5_000), pa.int32()),
        "small": pa.array([300 if number % 50 == 0 else 1 for number in range(5_000)], pa.int32()),
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
    plan = plan_of(tmp_path / "a.orc", columns=("small",), types={"small": "int8"})
    table, counts, rejected = read.read_table(plan, reject=True)
    assert (table.num_rows, counts["rejected"]) == (4_900, 100)
    assert [rejected[0].position, rejected[-1].position] == ["row 1", "row 4951"]


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


def test_too_many_rows_are_refused_before_they_are_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few bytes may state any number of equal rows."""
    orc.write_table(pa.table({"x": [7] * 2_000_000}), tmp_path / "a.orc", compression="zstd")
    monkeypatch.setattr("beam_pipelines.core.limits.FREE_BYTES", 1 << 20)
    with pytest.raises(DataError, match=r"a\.orc: found 16,000,000 bytes .*decompression_ratio"):
        read_rows(tmp_path / "a.orc")
    assert len(read_rows(tmp_path / "a.orc", limits=Limits(decompression_ratio=10**6))) == 2_000_000


def test_a_name_that_is_no_text_is_damage(tmp_path: Path) -> None:
    """The name of a column is UTF-8."""
    path = tmp_path / "a.orc"
    orc.write_table(pa.table({"name": [1]}), path, compression="uncompressed")
    path.write_bytes(path.read_bytes().replace(b"name", b"\xff\xffme"))
    with pytest.raises(DataError, match=r"a\.orc: found damaged ORC data.*can't decode"):
        read_rows(path)
