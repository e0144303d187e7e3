"""Files whose content is another than their names say, or unread."""

from __future__ import annotations

import bz2
import gzip
import json
import sqlite3
import zipfile
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
import scipy.io.arff

from beam_pipelines.core.errors import DataError
from tests.sources.support import plan_of, problems_of, read_rows, write
from tests.support.tables import table_as

ROWS = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
TABLE = pa.Table.from_pylist(ROWS)
CSV = b"a,b\n1,x\n2,y\n"


def database(folder: Path) -> bytes:
    connection = sqlite3.connect(folder / "d.sqlite")
    connection.execute("CREATE TABLE t (a)")
    connection.commit()
    connection.close()
    return (folder / "d.sqlite").read_bytes()


@pytest.mark.parametrize("suffix", ["csv", "json"])
@pytest.mark.parametrize(
    ("kind", "format_"),
    [("parquet", "parquet"), ("orc", "orc"), ("arrow", "arrow"), ("xlsx", "excel")],
)
def test_binary_files_of_a_format(tmp_path: Path, suffix: str, kind: str, format_: str) -> None:
    """The error names the format, and with it the file is read."""
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(table_as(kind, TABLE))
    with pytest.raises(DataError, match=f"'format: {format_}'"):
        read_rows(path)
    assert read_rows(path, format=format_) == ROWS


@pytest.mark.parametrize(("compress", "name"), [(gzip.compress, "gzip"), (bz2.compress, "bzip2")])
def test_compressed_text(tmp_path: Path, compress, name: str) -> None:
    """The error names the compression, and with it the file is read."""
    path = tmp_path / "a.csv"
    path.write_bytes(compress(CSV))
    message = problems_of(str(path))["sources", "s", "compression"]
    assert f"found {name} data" in message
    assert f"'compression: {name}'" in message
    assert read_rows(path, compression=name) == ROWS


@pytest.mark.parametrize(
    ("text", "format_"),
    [
        (json.dumps(ROWS), "json"),
        (json.dumps(ROWS, indent=2), "json"),
        ("".join(json.dumps(row) + "\n" for row in ROWS), "json_lines"),
    ],
)
def test_json_called_csv(tmp_path: Path, text: str, format_: str) -> None:
    """The error names the format, and with it the rows are read."""
    path = write(tmp_path / "a.csv", text)
    message = problems_of(path)["sources", "s", "format"]
    assert f"'format: {format_}'" in message
    assert read_rows(path, format=format_) == ROWS


def test_names_in_braces(tmp_path: Path) -> None:
    """A header that only looks like JSON is one."""
    path = write(tmp_path / "a.csv", "{a},[b]\n1,x\n2,y\n")
    assert [list(row.values()) for row in read_rows(path)] == [[1, "x"], [2, "y"]]
    path = write(tmp_path / "b.csv", '{"a": 1}\n{"a": 2}\n')
    assert len(read_rows(path, format="csv")) == 2


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog >>\nendobj\n", "a PDF document"),
        (b"<!DOCTYPE html>\n<html><body>\n<p>Log in</p>\n</body></html>\n", "an HTML page"),
        (b"\n <HTML>\n<body>403</body>\n</HTML>\n", "an HTML page"),
        (b'<?xml version="1.0"?>\n<rows>\n<row a="1"/>\n</rows>\n', "XML.*pandas.read_xml"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\nxyz\n", "a picture"),
        (b"\xfd7zXZ\0\0\x04\n\n", "xz, which is not read"),
    ],
)
def test_no_text_at_all(tmp_path: Path, content: bytes, found: str) -> None:
    """A document, a page or a picture called CSV is no table."""
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=found):
        read_rows(path)


def test_archives_and_databases(tmp_path: Path) -> None:
    """They are read under their own names, as the errors say."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.csv", CSV)
    (tmp_path / "a.csv").write_bytes((tmp_path / "a.zip").read_bytes())
    with pytest.raises(DataError, match=r"a zip archive.*\.zip"):
        read_rows(tmp_path / "a.csv")
    assert read_rows(tmp_path / "a.zip") == ROWS
    (tmp_path / "d.csv").write_bytes(database(tmp_path))
    with pytest.raises(DataError, match=r"an SQLite database.*\.sqlite"):
        read_rows(tmp_path / "d.csv")


ARFF = "@relation r\n@attribute n numeric\n@attribute t {a, b}\n@data\n1,a\n2,b\n"
XML = "<rows><row><n>1</n><t>a</t></row><row><n>2</n><t>b</t></row></rows>"
FRAME = pd.DataFrame({"n": [1, 2], "t": ["a", "b"]})


@pytest.mark.parametrize(
    ("name", "write", "found"),
    [
        ("a.pkl", FRAME.to_pickle, "found a pickle, which is not read"),
        ("A.PICKLE", FRAME.to_pickle, "found a pickle, which is not read"),
        ("a.arff", lambda path: path.write_text(ARFF), "found ARFF, which is not read"),
        ("A.XML", lambda path: path.write_text(XML), "found XML, which is not read"),
        ("a.dta", lambda path: FRAME.to_stata(path, write_index=False), "found a table of Stata, which is not read"),
    ],
)  # fmt: skip
def test_the_remedy_makes_parquet(tmp_path: Path, monkeypatch, name: str, write, found) -> None:
    """The line in the error makes a file that is read."""
    write(tmp_path / name)
    with pytest.raises(DataError, match=found) as caught:
        plan_of(tmp_path / name)
    line = str(caught.value).partition("read this: ")[2]
    monkeypatch.chdir(tmp_path)
    eval(line, {"pandas": pd, "scipy": scipy})  # noqa: S307
    found = read_rows(tmp_path / f"{name}.parquet", types={"t": "text"})
    assert found == [{"n": 1, "t": "a"}, {"n": 2, "t": "b"}]


def test_xml_in_folders_and_archives(tmp_path: Path) -> None:
    """The same error comes from a folder and from a zip archive."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.xml").write_text(XML)
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("a.xml", XML)
    for path in (folder, tmp_path / "data.zip"):
        with pytest.raises(DataError, match=r"a\.xml: found XML, which is not read"):
            plan_of(path)
