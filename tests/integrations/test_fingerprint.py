"""The fingerprint of a conversion's input changes with the content only."""

from __future__ import annotations

import logging
import os
import pathlib
import shutil
import struct

import google_crc32c
import pytest

from beam_pipelines.files.beam import file_checksums, files
from beam_pipelines.integrations.tfx.fingerprint import fingerprint_of
from beam_pipelines.pipeline.planning.recipes import load
from beam_pipelines.pipeline.planning.stages import make_plan

RECIPE = """
name: clicks
sources:
  clicks: 'clicks-*.csv'
  users: users.csv
from: clicks
join: [{source: users, on: user}]
schema: contract.pbtxt
preprocessing_fn: module.py
"""
MODULE = "def preprocessing_fn(inputs):\n    return {'age': inputs['age']}\n"
CONTRACT = "".join(f'feature {{ name: "{name}" type: INT }}\n' for name in ("user", "n", "age"))


@pytest.fixture
def folder(tmp_path):
    """A recipe with everything that it can name next to it."""
    for name, text in {
        "recipe.yaml": RECIPE,
        "module.py": MODULE,
        "contract.pbtxt": CONTRACT,
        "clicks-1.csv": "user,n\n1,2\n",
        "clicks-2.csv": "user,n\n1,3\n",
        "users.csv": "user,age\n1,40\n",
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def fingerprint(folder: pathlib.Path) -> str:
    """The fingerprint of the recipe of a folder."""
    return fingerprint_of(make_plan(load(str(folder / "recipe.yaml"))))


def test_it_follows_content(folder):
    """A rewritten file and a comment change no fingerprint.

    The file has the same content at another time; the comment is in the recipe.
    """
    before = fingerprint(folder)
    assert before.startswith("sha256:")
    assert len(before) == 71
    for path in folder.iterdir():
        shutil.copy(path, folder.parent / "copy")
        os.replace(folder.parent / "copy", path)
        os.utime(path, (1, 1))
    (folder / "recipe.yaml").write_text(f"# a comment\n{RECIPE}")
    assert fingerprint(folder) == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("clicks-1.csv", "1,2", "1,4"),
        ("clicks-2.csv", "1,3", "1,4"),
        ("users.csv", "40", "41"),
        ("contract.pbtxt", "INT", "INT presence { min_count: 1 }"),
        ("module.py", "return", "return  "),
        ("recipe.yaml", "name: clicks", "name: click"),
        ("recipe.yaml", "from: clicks", "from: clicks\nexpect: [{name: n, row: n > 0}]"),
    ],
)
def test_any_change_changes_it(folder, name, old, new):
    """One changed byte of data, contract, code or recipe changes the fingerprint.

    Dates and sizes may be the same.
    """
    path = folder / name
    os.utime(path, (1, 1))
    before = fingerprint(folder)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    os.utime(path, (1, 1))
    assert fingerprint(folder) != before


def test_names_and_numbers_of_files_count(folder):
    """A file more, and a file of another name, make other fingerprints."""
    found = {fingerprint(folder)}
    shutil.copy(folder / "clicks-1.csv", folder / "clicks-3.csv")
    found.add(fingerprint(folder))
    (folder / "clicks-3.csv").rename(folder / "clicks-4.csv")
    found.add(fingerprint(folder))
    assert len(found) == 3


def test_labels_beside_arrays_count(tmp_path):
    """The labels of an IDX source count.

    They are in a file of their own, which no path names.
    """
    images = struct.pack(">BBBBIII", 0, 0, 8, 3, 2, 1, 1) + bytes([7, 9])
    (tmp_path / "train-images-idx3-ubyte").write_bytes(images)
    labels = tmp_path / "train-labels-idx1-ubyte"
    header = struct.pack(">BBBBI", 0, 0, 8, 1, 2)
    (tmp_path / "recipe.yaml").write_text(
        "name: digits\nsources: {digits: {path: train-images-idx3-ubyte, format: idx}}\n"
    )
    labels.write_bytes(header + bytes([1, 0]))
    before = fingerprint(tmp_path)
    labels.write_bytes(header + bytes([1, 1]))
    assert fingerprint(tmp_path) != before


@pytest.mark.parametrize("content", [b"", b"a", bytes(range(256)) * 40_000])
def test_a_local_file_is_read(tmp_path, content):
    """The checksum of a local file is its size and CRC-32C.

    The CRC-32C is that of all its bytes.
    """
    path = tmp_path / "file"
    path.write_bytes(content)
    assert (
        file_checksums.content_checksum(str(path))
        == f"{len(content)}-{google_crc32c.value(content):08x}"
    )


@pytest.mark.remote
@pytest.mark.parametrize("kind", ["s3", "gs"])
def test_a_remote_file_is_not_read(kind, caplog):
    """The storage's own checksum counts for a remote file.

    It follows the content, and no byte of the file is fetched.
    """
    from tests.support.remote_stores import google_store, s3_store

    content_of = "GET /store/raw/" if kind == "s3" else "alt=media"
    with s3_store() if kind == "s3" else google_store() as store:
        files.use_options(store.options)
        store.objects.put("raw/clicks.csv", b"one")
        with caplog.at_level(logging.DEBUG, "urllib3.connectionpool"):
            store.objects.get("raw/clicks.csv")
            assert content_of in caplog.text
            caplog.clear()
            found = []
            for content in (b"one", b"one", b"two"):
                store.objects.put("raw/clicks.csv", content)
                found.append(file_checksums.content_checksum(f"{store.url}/raw/clicks.csv"))
        assert found[0] == found[1] != found[2]
        assert "" not in found
        assert caplog.text
        assert content_of not in caplog.text
