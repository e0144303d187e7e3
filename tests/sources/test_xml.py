"""XML is refused, and the error's remedy works."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pandas as pd
import pytest

from beam_pipelines.core.errors import DataError
from tests.sources.support import plan_of, read_rows

TEXT = "<rows><row><n>1</n><t>a</t></row><row><n>2</n><t>b</t></row></rows>"


@pytest.mark.parametrize("name", ["rows.xml", "ROWS.XML.gz"])
def test_the_remedy_makes_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The line in the error makes a file that is read."""
    (tmp_path / name).write_text(TEXT)
    with pytest.raises(DataError, match="found XML, which is not read") as caught:
        plan_of(tmp_path / name)
    if name.endswith("gz"):
        return
    monkeypatch.chdir(tmp_path)
    [path, options] = re.findall(r"read_xml\('(.*?)', (.*?)\)", str(caught.value))[0]
    assert options == "parser='etree'"
    [written] = re.findall(r"to_json\('(.*?)', orient='records', lines=True\)", str(caught.value))
    pd.read_xml(path, parser="etree").to_json(written, orient="records", lines=True)
    assert read_rows(tmp_path / written) == [{"n": 1, "t": "a"}, {"n": 2, "t": "b"}]


def test_xml_in_folders_and_archives(tmp_path: Path) -> None:
    """The same error comes from a folder and from a zip archive."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.xml").write_text(TEXT)
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("a.xml", TEXT)
    for path in (folder, tmp_path / "data.zip"):
        with pytest.raises(DataError, match=r"a\.xml: found XML, which is not read"):
            plan_of(path)
