"""Bad input gives the documented error and status, and no partial dataset."""

from __future__ import annotations

import logging
import pathlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from beam_pipelines.cli import main as main_module
from tests.support.contents import contents

pytestmark = pytest.mark.end_to_end

COMMAND = [sys.executable, "-m", "beam_pipelines"]
GOOD = "a,b\n1,x\n2,y\n3,z\n"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Restores the settings that a command line makes in its process."""
    level, hook = logging.getLogger().level, threading.excepthook
    yield
    logging.getLogger().setLevel(level)
    threading.excepthook = hook


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """An empty folder as the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: pathlib.Path, files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def convert(source: str, *options: str) -> int:
    return main_module.run(["convert", source, "--output", "out", "--quiet", *options])


def remains(folder: pathlib.Path) -> list[str]:
    """Returns all files of a dataset or a run in a folder."""
    signs = (
        "dataset.json",
        ".tfrecord",
        "_temporary",
        ".part",
        "FeatureStats",
        "report.html",
        "schema.pbtxt",
    )
    return [
        str(path)
        for path in folder.rglob("*")
        if any(sign in str(path.relative_to(folder)) for sign in signs)
    ]


def recipe(source: str = "path: a.csv", more: str = "") -> str:
    return f"name: t\nsources:\n  t:\n    {source}\n{more}"


def check(printed: Any, folder: pathlib.Path, *messages: str) -> None:
    """Checks the printed error's form, and that no file remains."""
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert "Traceback" not in printed.err
    assert all(message in printed.err for message in messages), printed.err
    assert remains(folder) == []


INTEGER = "expected an integer from -128 to 127."
BAD_DATA: dict[str, tuple[str | bytes, str, tuple[str, ...]]] = {
    "too few cells": ("a,b\n1,x\n2\n", "path: a.csv", ("a.csv, line 3: found 1 cell, '2', expected 2", "Complete the line")),
    "wrong type behind a cell of two lines": ('a,b\n1,"x\ny"\nq,z\n', "{path: a.csv, types: {a: int8}}",
        ("a.csv, line 4, column 'a': found 'q', " + INTEGER,)),
    "not UTF-8": (b"a,b\n1,x\n2,\xff\n", "{path: a.csv, encoding: utf-8}",
                  ("a.csv, line 3, column 'b': found", "expected text in UTF-8", "bytes")),
    "not Parquet": (GOOD, "{path: a.csv, format: parquet}", ("a.csv: found damaged Parquet data", "set 'format'")),
    "JSON of another type": ('{"a": 1}\n{"a": 2}\n{"a": "x"}\n', "{path: a.csv, format: json_lines}",
        ("a.csv, line 3, column 'a': found the text 'x', expected an integer", "declare 'types: {a: text}'")),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data(case: str, folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bad data end with status 1, file, line, found, expected, and remedy."""
    content, source, messages = BAD_DATA[case]
    write(folder, {"a.csv": content, "r.yaml": recipe(source)})
    assert convert("r.yaml") == 1
    check(capsys.readouterr(), folder, *messages)


BAD_RECIPES: dict[str, tuple[dict[str, str | bytes], str, tuple[str, ...]]] = {
    "a folder": ({"d/x.odt": GOOD}, recipe("path: d"),
                 ("r.yaml:4: sources.t.path: found d/x.odt, whose suffix is of no format", "Set 'format'")),
    "unknown keys": ({}, recipe('{path: a.csv, delimeter: ";"}', "ouptut: {}\nsplit: {train: 0.5}\n"),
                     ("r.yaml:4: sources.t.delimeter: found an unknown key 'delimeter'. Did you mean 'delimiter'?", "error: r.yaml:5: ouptut: found an unknown key 'ouptut'. Did you mean 'output'?", "error: r.yaml:6: split: found shares that add up to 0.5, expected 1.")),
    "unknown columns": ({}, recipe(more="label: z\nsplit: {train: 1, by: w}\n"), ("error: r.yaml:5: label: ", "error: r.yaml:6: split.by")),
    "a dataset is there": ({"out/dataset.json": "{}"}, recipe(), ("out: there is a dataset already", "--overwrite")),
    "a file is there": ({"out": ""}, recipe(), ("out: expected an empty or new folder, found a file",)),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_RECIPES)
def test_bad_recipe(case: str, folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong recipe ends with status 2 and each problem's line."""
    files, text, messages = BAD_RECIPES[case]
    write(folder, {"a.csv": GOOD, **files, "r.yaml": text})
    before = contents(folder)
    assert convert("r.yaml") == 2
    printed = capsys.readouterr()
    assert contents(folder) == before
    (folder / "out" / "dataset.json").unlink(missing_ok=True) if (folder / "out").is_dir() else None
    check(printed, folder, *messages)


@pytest.mark.parametrize(
    ("content", "source", "message"),
    [
        ('a,b\n1,x\n2,"y\n', "path: a.csv", "a.csv, line 3: found a quote that is never closed"),
        ("a,b,a\n1,2,3\n", "path: a.csv", "found the column name 'a' twice"),
        (GOOD, "{path: a.csv, compression: gzip}", "found no compression, expected gzip"),
    ],
)
def test_what_concerns_a_file_is_never_rejected(content, source, message, folder, capsys):
    """A budget is for rows: an unreadable file ends the run."""
    write(folder, {"a.csv": content, "r.yaml": recipe(source, "on_error: {reject: 99%}\n")})
    assert convert("r.yaml") == 1
    check(capsys.readouterr(), folder, message)


@pytest.mark.parametrize(
    ("rows", "more", "text"),
    [
        ("1,2\n" * 100 + "1\n", "", "a.csv, line 102: found 1 cell, '1', expected 2"),
        ("1,2\n2,x\n", "derive: {z: CAST(b AS INTEGER)}\n", "a.csv, line 3 ('2,x'), derived column 'z'"),
    ],
)  # fmt: skip
def test_errors_of_worker_processes(rows, more, text, folder, capsys):
    """A worker process's error has the words of the command's own process."""
    write(folder, {"a.csv": "a,b\n" + rows, "r.yaml": recipe(more=more)})
    assert convert("r.yaml", "--direct_num_workers=1") == 1
    printed = capsys.readouterr()
    check(printed, folder, text)
    many = ["--direct_num_workers=2", "--direct_running_mode=multi_processing"]
    command = [*COMMAND, "convert", "r.yaml", "--output", "out", "--quiet", *many]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", printed.err)
    assert remains(folder) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["describe", "out"],
        ["compare", "out", "out"],
        ["convert", "out/examples/Split-train/*.gz", "--output", "again"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_damaged_manifest(arguments, folder, capsys):
    """Each command that reads a dataset names the file and the remedy."""
    write(folder, {"a.csv": "a,b\n1,x\n2,y\n"})
    assert convert("a.csv") == 0
    manifest = folder / "out/dataset.json"
    manifest.write_bytes(manifest.read_bytes()[:200])
    capsys.readouterr()
    assert main_module.run(arguments) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("error: out/dataset.json: is not a manifest")
    assert "Convert again with --overwrite." in printed.err
    assert not (folder / "again").exists()


def incompressible(rows: int) -> str:
    """Returns a table of about 40 bytes a row in any compression."""
    numbers = (f"{pow(3, 1000 + row, 2**127 - 1):032x}" for row in range(rows))
    return "a,b\n" + "".join(f"{row},{number}\n" for row, number in enumerate(numbers))


def test_files_that_may_not_grow(folder: pathlib.Path) -> None:
    """A refused write is an error with the file and the reason."""
    write(folder, {"a.csv": incompressible(20_000)})
    # A `preexec_fn` would fork, and gRPC 1.85 may log errors in a fork (grpc/grpc#43055).
    limited = ["sh", "-c", 'ulimit -f 195 && exec "$@"', "sh"]  # blocks of 512 bytes
    done = subprocess.run(
        [*limited, *COMMAND, "convert", "a.csv", "--output", "out", "--quiet"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("error: out/_temporary/")
    assert (
        "cannot be written: File too large. Make room on the disk, or choose another --output."
        in done.stderr
    )
    assert remains(folder) == []
