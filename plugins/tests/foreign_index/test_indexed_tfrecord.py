"""TFRecord files with an index are read in ranges."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.binary_arrays import data_of
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.shard_formats import SUFFIX_FOR_COMPRESSION, Compression
from beam_pipelines.core.limits import Limits
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.transforms import read
from beam_pipelines_plugins.foreign_index import scan
from beam_pipelines_plugins.foreign_index.make_index import make_indexes
from tests.sources.support import plan_of, read_rows

RANGE_BYTES = 20_000


def framed(records: list[bytes]) -> bytes:
    """Returns records as an uncompressed TFRecord file."""
    return data_of(_native.frame(pa.array(records, pa.large_binary()))).to_pybytes()


def records_of(seed: int) -> list[bytes]:
    """Draws records that do not compress; one is longer than a range."""
    rng = random.Random(seed)
    sizes = [rng.choice([0, 10, 300, 2000]) for _ in range(300)]
    return [rng.randbytes(size) for size in [*sizes, 50_000, *sizes]]


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes plain files' parts small."""
    monkeypatch.setattr(scan, "PART_BYTES", 1000)


def write_file(folder: Path, records: list[bytes]) -> Path:
    """Writes a file with an index."""
    path = folder / "a.tfrecord"
    path.write_bytes(framed(records))
    list(make_indexes(str(path)))
    return path


@pytest.mark.usefixtures("small_parts")
def test_ranges_have_all_records(tmp_path: Path) -> None:
    """Ranges of another writer's file have each record once, in order."""
    records = records_of(1)
    path = write_file(tmp_path, records)
    plan = plan_of(path, format="raw_records", range_bytes=RANGE_BYTES)
    assert len(plan.ranges) > 5
    table, _, _ = read.read_table(plan, reject=False)
    assert table.column("record").to_pylist() == records
    shutil.rmtree(tmp_path / "_index")
    assert len(plan_of(path, format="raw_records", range_bytes=RANGE_BYTES).ranges) == 1


@pytest.mark.parametrize("compression", ["gzip", "zlib", "none"])
@pytest.mark.end_to_end
def test_shards_of_datasets_are_cut(tmp_path: Path, compression: Compression) -> None:
    """The shards of a dataset are read in ranges."""
    rng = random.Random(2)
    lines = [f"{number},{rng.randbytes(20).hex()}" for number in range(3000)]
    text = (
        "name: t\nsources: {t: {path: 't*.csv'}}\n"
        f"output: {{num_shards: 4, part_size: 1 KiB, compression: {compression}}}"
    )
    for number in (1, 2):
        (tmp_path / f"t{number}.csv").write_text("a,b\n" + "\n".join(lines[number::2]) + "\n")
    plan = make_plan(parse_recipe(text, "recipe.yaml", str(tmp_path)))
    convert.convert(plan, str(tmp_path / "out"), quiet=True)
    suffix = SUFFIX_FOR_COMPRESSION[compression]
    pattern = tmp_path / "out" / "examples" / "Split-train" / f"*{suffix}"
    whole = plan_of(pattern)
    cut = plan_of(pattern, range_bytes=RANGE_BYTES)
    assert len(whole.ranges) == 4 < len(cut.ranges)
    expected, found = (read.read_table(plan, reject=False)[0] for plan in (whole, cut))
    assert found.equals(expected)
    assert found.num_rows == 2999


@pytest.mark.usefixtures("small_parts")
def test_bad_rows_have_their_number_in_the_file(tmp_path: Path) -> None:
    """A bad record of a later range has its number."""
    records = [b"text"] * 3000
    records[2500] = b"\xff"
    path = write_file(tmp_path, records)
    plan = plan_of(path, format="raw_records", types={"record": "text"}, range_bytes=RANGE_BYTES)
    assert len(plan.ranges) > 2
    _, counts, rejected = read.read_table(plan, reject=True)
    assert counts == {"read": 2999, "rejected": 1}
    assert [bad.position for bad in rejected] == ["record 2500"]


@pytest.mark.usefixtures("small_parts")
def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    """A file that is not its index's is an error."""
    records = records_of(3)
    path = write_file(tmp_path, records)
    good = path.read_bytes()
    plan = plan_of(path, format="raw_records", range_bytes=RANGE_BYTES)
    place = len(good) // 2
    path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
    with pytest.raises(DataError, match=r"a\.tfrecord, .*part at byte .* CRC-32 .*_index"):
        read.read_table(plan, reject=False)
    path.write_bytes(good + framed([b"more"]))
    with pytest.raises(DataError, match=r"a\.tfrecord: found .* bytes, expected .*_index"):
        read_rows(path, format="raw_records", range_bytes=RANGE_BYTES)


@pytest.mark.usefixtures("small_parts")
def test_a_wrong_index_is_refused(tmp_path: Path) -> None:
    """A damaged index, or another file's, stops the run."""
    path = write_file(tmp_path, records_of(4))
    index = tmp_path / "_index" / "a.tfrecord.arrow"
    good = index.read_bytes()
    shutil.copy(path, tmp_path / "b.tfrecord")
    (tmp_path / "_index" / "b.tfrecord.arrow").write_bytes(good)
    with pytest.raises(DataError, match=r"found an index of 'a\.tfrecord', expected 'b\.tfrecord'"):
        plan_of(tmp_path / "b.tfrecord", format="raw_records", range_bytes=RANGE_BYTES)
    index.unlink()
    index.write_bytes(good[: len(good) // 2])
    with pytest.raises(DataError, match=r"a\.tfrecord\.arrow: is damaged or no index"):
        plan_of(path, format="raw_records", range_bytes=RANGE_BYTES)


@pytest.mark.usefixtures("small_parts")
def test_limits_hold_within_ranges(tmp_path: Path) -> None:
    """A too long record is found in any range."""
    path = write_file(tmp_path, records_of(5))
    limits = Limits(line_bytes=10_000)
    with pytest.raises(DataError, match=r"record 300, offset .* more than 10,000 bytes"):
        read_rows(path, format="raw_records", limits=limits, range_bytes=RANGE_BYTES)
