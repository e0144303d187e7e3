"""Tests of ``files`` that tests of its callers leave out."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from beam_pipelines.cli import main as main_module
from beam_pipelines.core.errors import DataError
from beam_pipelines.files.beam import file_changes, files, listing


@pytest.mark.parametrize("pattern", ["*.csv", "x*", "**"])
def test_a_name_that_is_no_text(tmp_path, pattern, capsys):
    """A file whose name is not UTF-8 gives an error.

    No output could name the file. The error names it with escaped bytes.
    """
    path = os.fsencode(tmp_path) + b"/x\xff.csv"
    with open(path, "wb") as file:
        file.write(b"a\n1\n")
    with pytest.raises(
        DataError, match=r"x\\xff\.csv: found bytes in the file's name that are not UTF-8"
    ):
        listing.list_files(f"{tmp_path}/{pattern}", with_hidden=True)
    assert main_module.run(["convert", f"{tmp_path}/*.csv", "--output", str(tmp_path / "out")]) == 1
    assert (
        f"error: {tmp_path}/x\\xff.csv: found bytes in the file's name" in capsys.readouterr().err
    )
    os.unlink(path)
    assert listing.list_files(f"{tmp_path}/{pattern}", with_hidden=True) == []


@pytest.mark.parametrize(
    ("path", "name"),
    [("a/b.csv", "b.csv"), ("/a/b/", "b"), ("b", "b"), ("s3://bucket/a/b%20.csv", "b%20.csv")],
)
def test_names(path: str, name: str) -> None:
    """A name is the last component on every storage."""
    assert files.name_of(path) == name


def test_threads_of_an_interrupted_run_make_no_folder(tmp_path, monkeypatch):
    """Threads of an interrupted run do not make removed folders again.

    The main thread may still make one.
    """
    monkeypatch.setattr(files, "has_raised", lambda: True)

    def write(path: Path) -> None:
        for opened in (files.open_write, files.replace):
            refused = pytest.raises(DataError, match="not made, as the run was interrupted")
            with refused, opened(str(path)):
                pass

    with ThreadPoolExecutor(1) as pool:
        pool.submit(write, tmp_path / "a" / "b").result()
    assert list(tmp_path.iterdir()) == []
    files.write_bytes(str(tmp_path / "a" / "b"), b"x")


def test_a_folder_goes_though_others_still_write_into_it(tmp_path: Path) -> None:
    """Files that come and go meanwhile delay it, and leave nothing behind."""
    folder, ended = tmp_path / "busy", threading.Event()
    folder.mkdir()

    def write() -> None:
        for number in range(500):
            try:
                (folder / f"{number}.part").write_bytes(b"x")
                (folder / f"{number}.part").rename(folder / f"{number}")
                time.sleep(0.002)
            except FileNotFoundError:  # the folder, or what was just written, is gone
                if not folder.exists():
                    break
        ended.set()

    thread = threading.Thread(target=write)
    thread.start()
    while not any(folder.iterdir()):
        pass
    file_changes.delete(str(folder))
    thread.join()
    assert ended.is_set()
    assert not folder.exists()
