"""Tests of pipes, devices and sockets in the place of files.

Wherever a file is opened, they are an error at once.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import beam_pipelines as bp
from beam_pipelines.cli import main as main_module
from beam_pipelines.core import _native
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import Limits
from beam_pipelines.files.beam import files
from beam_pipelines.sources.images import cifar
from beam_pipelines.sources.plan import FileInfo
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, source
from tests.support.image_files import encode
from tests.support.image_sets import cifar10_batch, colour_digits
from tests.support.manifests import small_manifest

SCHEMA = 'feature { name: "a" type: INT }\nfeature { name: "b" type: BYTES }\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with each kind of file that a recipe can name."""
    (tmp_path / "a.csv").write_text("a,b\n1,x\n2,y\n")
    (tmp_path / "a.libsvm").write_text("1 1:2\n")
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "schema.pbtxt").write_text(SCHEMA)
    (tmp_path / "features.py").write_text("def preprocessing_fn(inputs):\n    return inputs\n")
    (tmp_path / "train-images-idx3-ubyte").write_bytes(
        struct.pack(">HBBIII", 0, 8, 3, 2, 2, 2) + bytes(8)
    )
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(struct.pack(">HBBI", 0, 8, 1, 2) + bytes(2))
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    (tmp_path / "photos" / "cat" / "1.png").write_bytes(encode(np.zeros((2, 2), np.uint8), "png"))
    (tmp_path / "batches").mkdir()
    (tmp_path / "batches" / "data_batch_1").write_bytes(cifar10_batch(*colour_digits(1)))
    examples = tmp_path / "set" / "examples" / "Split-train"
    examples.mkdir(parents=True)
    (examples / "a.tfrecord").write_bytes(
        b"".join(_native.frame(pa.array([b""], pa.binary())).to_pylist())
    )
    (tmp_path / "set" / "schema.pbtxt").write_text(SCHEMA)
    (tmp_path / "set" / "dataset.json").write_text(
        json.dumps(small_manifest() | {"schema": "schema.pbtxt"})
    )
    return tmp_path


def make_socket(path: Path) -> None:
    """Makes a socket, from within its folder.

    The name of a socket must be short.
    """
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


KINDS: dict[str, tuple[Callable[[Path], None], str]] = {
    "pipe": (os.mkfifo, "found a pipe, expected a regular file. Copy its data to a file first."),
    "device": (lambda path: path.symlink_to("/dev/zero"), "found a device, expected"),
    "file of the kernel": (
        lambda path: path.symlink_to("/proc/kmsg"),
        "found a file that the kernel makes up, expected a regular file. Copy its data",
    ),
    "socket": (make_socket, "found a socket, expected a regular file"),
}
PHOTOS = "{path: photos, format: images}"
DIGITS = "train-images-idx3-ubyte"
# Case -> the file that is none, and the recipe.
CASES = {
    "csv": ("a.csv", "sources: {t: a.csv}"),
    "csv of a pattern": ("a.csv", "sources: {t: 'a*.csv'}"),
    "libsvm": ("a.libsvm", "sources: {t: a.libsvm}"),
    "json lines": ("a.jsonl", "sources: {t: a.jsonl}"),
    "picture": ("photos/cat/1.png", f"sources: {{t: {PHOTOS}}}"),
    "picture beside others": ("photos/cat/2.jpg", f"sources: {{t: {PHOTOS}}}"),
    "picture of a pattern": ("photos/cat/2.jpg", "sources: {t: {path: photos/*/*.jpg, format: images}}"),
    "array": (DIGITS, f"sources: {{t: {DIGITS}}}"),
    "labels": ("train-labels-idx1-ubyte", f"sources: {{t: {DIGITS}}}"),
    "batch": ("batches/data_batch_1", "sources: {t: {path: batches/*, format: cifar}}"),
    "pickled class names": ("batches/batches.meta", "sources: {t: {path: batches/*, format: cifar}}"),
    "records": ("set/examples/Split-train/a.tfrecord", "sources: {t: {path: set/examples/Split-train/a.tfrecord, schema: schema.pbtxt}}"),
    "schema of records": ("schema.pbtxt", "sources: {t: {path: set/examples/Split-train/a.tfrecord, schema: schema.pbtxt}}"),
    "manifest": ("set/dataset.json", "sources: {t: set/examples/Split-train/*}"),
    "schema of a dataset": ("set/schema.pbtxt", "sources: {t: set/examples/Split-train/*}"),
    "schema": ("schema.pbtxt", "sources: {t: a.csv}\nschema: schema.pbtxt"),
    "module": ("features.py", "sources: {t: a.csv}\npreprocessing_fn: features.py"),
    "recipe": ("recipe.yaml", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_no_regular_file(folder, kind, case, capsys):
    """Planning refuses a pipe, a device or a socket.

    The error names it. No dataset is written.
    """
    make, message = KINDS[kind]
    name, text = CASES[case]
    (folder / "recipe.yaml").write_text(f"name: t\n{text}\n")
    (folder / name).unlink(missing_ok=True)
    make(folder / name)
    output = folder / "out"
    assert main_module.run(["convert", str(folder / "recipe.yaml"), "--output", str(output)]) != 0
    printed = capsys.readouterr().err
    assert f"{folder / name}: {message}" in printed
    assert "Traceback" not in printed
    assert not output.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_other_commands(folder: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Other commands refuse a pipe, a device or a socket.

    The loader does, too.
    """
    make, message = KINDS[kind]
    path = folder / "x.pbtxt"
    make(path)
    recipe = folder / "out.yaml"
    for arguments in (
        ["schema", "diff", str(path), str(folder / "schema.pbtxt")],
        ["init", str(path), "--output", str(recipe)],
        ["convert", str(path), "--output", str(folder / "out")],
    ):
        assert main_module.run(arguments) != 0
        assert message in capsys.readouterr().err
    manifest = folder / "set" / "dataset.json"
    manifest.unlink()
    make(manifest)
    with pytest.raises(DataError, match=r"dataset\.json: found a"):
        bp.open(str(folder / "set"))


def test_a_pipe_that_takes_a_file_s_place(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe that is put there later is refused, not waited for."""
    path = str(folder / "a.csv")
    with files.open_read(path) as file:
        assert os.get_blocking(file.fileno())
        assert not os.get_inheritable(file.fileno())
        assert file.name == path
    stat = os.stat
    status = stat(path)
    os.unlink(path)
    os.mkfifo(path)
    monkeypatch.setattr(
        os, "stat", lambda one, **options: status if one == path else stat(one, **options)
    )
    previous = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("waited for a writer"))
    signal.alarm(10)
    opened = os.listdir("/proc/self/fd") if Path("/proc/self/fd").is_dir() else []
    try:
        with pytest.raises(DataError, match=r"a\.csv: found a pipe, expected a regular file"):
            files.open_read(path)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
    if opened:
        assert len(os.listdir("/proc/self/fd")) == len(opened)


def test_a_folder_in_the_place_of_a_file(folder: Path) -> None:
    """A folder is refused in the same words."""
    with pytest.raises(DataError, match=r"photos: found a folder, expected a regular file"):
        files.open_read(str(folder / "photos"))


def test_limits_hold_while_reading(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that grew since its listing is an error.

    No byte after the limit is read.
    """
    photo = folder / "photos" / "cat" / "1.png"
    plan = plan_of(folder / "photos", format="images", limits=Limits(cell_bytes=1000))
    read.read_table(plan, reject=False)
    photo.write_bytes(photo.read_bytes() + bytes(1000))
    with pytest.raises(DataError, match=r"1\.png: found an image file of at least 1,001 bytes"):
        read.read_table(plan, reject=False)
    assert files.read_at_most(str(photo), len(photo.read_bytes())) == photo.read_bytes()
    assert files.read_at_most(str(photo), len(photo.read_bytes()) - 1) is None

    monkeypatch.setattr(cifar, "MAX_BATCH_BYTES", 4000)
    (folder / "batches" / "batches.meta").write_bytes(bytes(4001))
    with pytest.raises(
        DataError, match=r"batches\.meta: found more than 4,000 bytes, expected at most 4,000"
    ):
        cifar.Cifar().infer(
            source(folder / "batches" / "data*", format="cifar"),
            (FileInfo(str(folder / "batches" / "data_batch_1"), 3073),),
        )

    monkeypatch.setattr(files, "MAX_DOCUMENT_BYTES", 10)
    with pytest.raises(DataError, match=r"schema\.pbtxt: found more than 10 bytes"):
        files.read_document(str(folder / "schema.pbtxt"))
