"""Zip archives of tables: each file in one is a range."""

from __future__ import annotations

import random
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pytest
from PIL import Image

from beam_pipelines.core.errors import DataError
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, problems_of, read_rows, source, write
from tests.support.tables import table_as

SUFFIXES = [
    "csv",
    "csv.gz",
    "jsonl",
    "json",
    "parquet",
    "feather",
    "orc",
    "avro",
    "npz",
    "h5",
    "xlsx",
]


def file_of(rows: list[dict[str, Any]], suffix: str = "csv") -> bytes:
    """Returns rows as a file, in row groups if it has some."""
    return table_as(suffix, pa.Table.from_pylist(rows), 70)


def rows_of(start: int, number: int) -> list[dict[str, Any]]:
    """Returns numbered rows."""
    return [{"a": start + n, "b": f"x{start + n}", "c": n / 4} for n in range(number)]


def zipped(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> str:
    """Writes an archive."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return str(path)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
def test_rows_are_those_of_the_files_in_it(tmp_path: Path, suffix: str, method: int) -> None:
    """An archive gives the rows of its files, each one range."""
    parts = [rows_of(0, 200), rows_of(200, 1), rows_of(201, 99)]
    members = {f"d/{n}.{suffix}": file_of(rows, suffix) for n, rows in enumerate(parts)}
    members |= {"__MACOSX/._0.csv": b"\0", "d/.DS_Store": b"\0", "LICENSE": b"x", "e/": b""}
    path = zipped(tmp_path / "data.zip", members, method)
    assert read_rows(path) == parts[0] + parts[1] + parts[2]
    plan = plan_of(path)
    assert [byte_range.file.path for byte_range in plan.ranges] == [
        f"{path}/d/{n}.{suffix}" for n in range(3)
    ]
    assert plan.decisions[0] == f"3 files of {plan.format} in {path}, without LICENSE"
    assert read_rows(f"{path}/d/1.{suffix}") == parts[1]
    assert read_rows(f"{path}/d/[12].{suffix}") == parts[1] + parts[2]


def test_a_large_file_is_read_as_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large file has all its rows, in pieces."""
    monkeypatch.setattr("beam_pipelines.sources.text.blocks.CHUNK_BYTES", 5_000)
    chance = random.Random(1)
    rows = [{"a": n, "b": f'"{chance.choice("ab")}\n{n}"'} for n in range(3000)]
    path = zipped(tmp_path / "d.zip", {"a.csv": file_of(rows)})
    plan = plan_of(path, range_bytes=4_000)
    assert len(plan.ranges) == 1
    chunks = list(read.read_chunks(plan, reject=False))
    assert len(chunks) > 5
    assert sum(chunk.batch.num_rows for chunk in chunks) == 3000


def test_many_small_files(tmp_path: Path) -> None:
    """Hundreds of small files in an archive are read together."""
    members = {f"{n:03}.csv": file_of(rows_of(n, 1)) for n in range(300)}
    path = zipped(tmp_path / "d.zip", members)
    assert [row["a"] for row in read_rows(path)] == list(range(300))
    assert len(plan_of(path).ranges) == 1


def test_rows_come_by_path(tmp_path: Path) -> None:
    """The order is that of a folder, not of the archive."""
    path = zipped(tmp_path / "d.zip", {f"{name}.csv": f"a\n{name}\n".encode() for name in "312"})
    assert read_rows(path) == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert read_rows(f"{path}/*.csv") == [{"a": 1}, {"a": 2}, {"a": 3}]


def test_patterns_match_archives(tmp_path: Path) -> None:
    """A pattern of archives reads the files of all."""
    for n in range(2):
        zipped(tmp_path / f"{n}.zip", {"x.csv": file_of(rows_of(n, 1))})
    assert [row["a"] for row in read_rows(tmp_path / "*.zip")] == [0, 1]
    assert [row["a"] for row in read_rows(tmp_path / "*.zip/*.csv")] == [0, 1]
    folder = tmp_path / "folder.zip"
    folder.mkdir()
    write(folder / "x.csv", "a\n7\n")
    assert read_rows(folder / "x.csv") == [{"a": 7}]


def test_a_bad_row_has_its_place(tmp_path: Path) -> None:
    """Messages name the file in the archive, and the line."""
    path = zipped(tmp_path / "d.zip", {"x.csv": b"a,b\n1,2\n3,4,5\n"})
    with pytest.raises(DataError, match=re.escape(f"{path}/x.csv, line 3")):
        read_rows(path)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"a.csv": b"a\n1\n", "b.zip": b"x"}, "b.zip: found an archive in an archive"),
        ({"a.csv": b"a\n1\n", "b.tar.gz": b"x"}, "b.tar.gz: found an archive in an archive"),
        ({"a.csv": b""}, "a.csv: found an empty file"),
        ({"a.csv": b"a\n1\n", "b.csv": b"b\n1\n"}, "b.csv: found column 1 named 'b', expected 'a'"),
    ],
)
def test_archives_that_are_refused(tmp_path: Path, members: dict[str, bytes], message: str) -> None:
    """Nested archives and files that do not agree are errors."""
    with pytest.raises(DataError, match=re.escape(message)):
        plan_of(zipped(tmp_path / "d.zip", members))


def test_archives_without_clear_data(tmp_path: Path) -> None:
    """Files of several formats are asked about, and the remedy works."""
    path = zipped(tmp_path / "d.zip", {"a.csv": b"a\n1\n", "b.jsonl": b'{"a": 2}\n'})
    [message] = problems_of(path).values()
    [format_] = re.findall(r"'format: (.*?)'", message)
    assert len(read_rows(path, format=format_)) == 1
    assert read_rows(f"{path}/b.jsonl") == [{"a": 2}]
    path = zipped(tmp_path / "e.zip", {"a.pptx": b"1"})
    assert "a.pptx, whose suffix is of no format" in problems_of(path)["sources", "s", "path"]
    [message] = problems_of(f"{path}/b.csv").values()
    assert message == f"no file in {path} matches 'b.csv'."
    path = zipped(tmp_path / "f.zip", {"d/orders_1.csv": b"a\n1\n"})
    [message] = problems_of(f"{path}/d/orders 1.csv").values()
    assert message.endswith("matches 'd/orders 1.csv'. Did you mean 'd/orders_1.csv'?")


def test_databases_are_unpacked_first(tmp_path: Path) -> None:
    """An error says how a database in an archive is read."""
    (tmp_path / "shop.sqlite").write_bytes(b"SQLite format 3")
    with zipfile.ZipFile(tmp_path / "shop.zip", "w") as archive:
        archive.write(tmp_path / "shop.sqlite", "shop.sqlite")
    (message,) = problems_of(tmp_path / "shop.zip").values()
    assert "Unpack it, and name its path and a table: 'shop.sqlite#table'." in message
    (tmp_path / "shop.zip").unlink()
    (message,) = problems_of(tmp_path).values()
    assert "expected files of data. Name its path and a table" in message


def test_encrypted_and_damaged_archives(tmp_path: Path) -> None:
    """They are refused at planning, or when the damage is read."""
    path = Path(zipped(tmp_path / "d.zip", {"a.csv": file_of(rows_of(0, 5000))}))
    whole = path.read_bytes()
    encrypted = bytearray(whole)
    encrypted[encrypted.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(encrypted)
    with pytest.raises(DataError, match=r"a\.csv: found an encrypted file"):
        plan_of(path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="found a damaged archive"):
        plan_of(path)
    damaged = bytearray(whole)
    for place in range(len(whole) // 2, len(whole) // 2 + 40):
        damaged[place] ^= 0xFF
    path.write_bytes(damaged)
    with pytest.raises(DataError, match="found a damaged archive"):
        read_rows(path)


def test_a_table_too_large_for_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Parquet file in an archive has a limit."""
    monkeypatch.setattr("beam_pipelines.sources.files.archives.MOST_BYTES", 100)
    path = zipped(tmp_path / "d.zip", {"a.parquet": file_of(rows_of(0, 100), "parquet")})
    with pytest.raises(DataError, match=r"found more than 100 bytes .*Unpack the archive"):
        plan_of(path)


def test_a_bomb_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """The listed sizes have the limit of compressed files."""
    path = zipped(tmp_path / "d.zip", {"a.csv": b"a\n" + b"0\n" * (70 << 20)})
    with pytest.raises(DataError, match="decompression_ratio"):
        plan_of(path)
    assert source(path).limits.decompression_ratio == 900


def test_images_in_an_archive(tmp_path: Path) -> None:
    """Folders in it are classes, and rows are those of the folder."""
    folder = tmp_path / "photos"
    for name in ("cat/1.jpg", "cat/2.jfif", "dog/1.png"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        kind = "PNG" if name.endswith("png") else "JPEG"
        Image.new("RGB", (9, 8), (len(name), 7, 9)).save(folder / name, format=kind)
    archive = shutil.make_archive(str(tmp_path / "photos"), "zip", tmp_path, "photos")
    rows = sorted(read_rows(archive), key=lambda row: str(row["image/filename"]))
    expected = read_rows(folder, format="images")
    assert [row["image/class/text"] for row in rows] == ["cat", "cat", "dog"]
    columns = ("image/encoded", "image/class/label", "image/class/text", "image/format")
    assert [[row[name] for name in columns] for row in rows] == [
        [row[name] for name in columns] for row in expected
    ]
