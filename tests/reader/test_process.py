"""A process reads the same batches into shared memory."""

from __future__ import annotations

import mmap
import os
import select
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

import beam_pipelines as bp
from beam_pipelines.core.errors import DataError
from beam_pipelines.reader import reader as reader_module
from beam_pipelines.reader.process import ReadingProcess
from tests.reader.datasets import write_records
from tests.support.wire import feature, sequence_example

SCHEMA = """
feature { name: "id" type: INT presence { min_fraction: 1 } shape { dim { size: 1 } } }
feature { name: "pair" type: FLOAT presence { min_fraction: 1 } shape { dim { size: 2 } } }
feature { name: "word" type: BYTES presence { min_fraction: 1 } shape { dim { size: 1 } } }
feature { name: "code" type: BYTES presence { min_fraction: 1 } shape { dim { size: 1 } } }
feature { name: "list" type: INT }
feature { name: "tags" type: BYTES }
feature { name: "##SEQUENCE##" type: STRUCT struct_domain {
  feature { name: "clicks" type: INT value_counts { value_count { } value_count { min: 1 max: 1 } } }
  feature { name: "prices" type: FLOAT value_counts { value_count { } value_count { } } }
} }
"""
COLUMNS = {"clicks": "list<int64>", "prices": "list<list<float32>>"}
LOOKUP = {"word": 10, "code": 1 << 40, "tags": bp.Lookup([b"t"])}
ROWS = 60


class Host:
    """Reads in a process, and copies to numpy arrays.

    It takes the place of a device in a reader.
    """

    def __init__(self):
        self.process = ReadingProcess()

    def read(self, reading):
        self.process.begin(reading)
        while (filled := self.process.next()) is not None:
            descriptor = self.process.blocks[filled.block]
            block = np.frombuffer(mmap.mmap(descriptor, filled.block_bytes), np.uint8)

            def view(packed, block=block):
                return (
                    block[packed.start : packed.end].view(packed.dtype).reshape(packed.shape).copy()
                )

            group = filled.group.unpacked(view)
            self.process.free(filled.block)
            for number, behind in enumerate(group.behind):
                yield behind, group.batch(number)

    def close(self):
        self.process.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A dataset of 60 rows, each longer than the one before."""
    rows = []
    for number in range(ROWS):
        context = {
            "id": feature([number], "int64"),
            "pair": feature([number, -number], "float"),
            "word": feature([b"%d" % number], "bytes"),
            "code": feature([b"c" * number], "bytes"),
        }
        if number % 3:
            context["list"] = feature(list(range(50 * number)), "int64")
            context["tags"] = feature([b"t"] * (number % 4), "bytes")
        lists = {
            "clicks": [feature([step], "int64") for step in range(number % 5)],
            "prices": [feature([0.5] * step, "float") for step in range(number % 4)],
        }
        rows.append(sequence_example(context, lists))
    manifest = {"record": "sequence_example", "columns": COLUMNS}
    return write_records(tmp_path_factory.mktemp("process"), SCHEMA, rows, **manifest)


def read(folder, in_process, **options):
    options = {"batch_size": 8, "epochs": 2, "lookup": LOOKUP, **options}
    reader = bp.open(folder).batches("train", **options)
    if in_process:
        reader._device = Host()
    return reader


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"keyed": {"all": ["list", "id", "word", "tags", "clicks"]}, "batch_size": 7},
        {"padding": -1, "lengths": {"list": 9, "clicks": 2, "prices": 2}},
        {
            "types": {"id": "int8", "pair": "float16"},
            "columns": ["pair", "id"],
            "lookup": None,
            "batch_size": 7,
        },
        {"columns": ["word", "code", "tags"], "remainder": "drop"},
    ],
)
def test_same_batches(folder, monkeypatch, options):
    """A process reads the batches that this process reads."""
    monkeypatch.setattr(reader_module, "GROUP_ROWS", 16)
    with read(folder, True, **options) as reader, read(folder, False, **options) as same:
        for _ in range(2):
            for batch, expected in zip(reader, same, strict=True):
                assert list(batch) == list(expected)
                for name in batch:
                    assert repr(batch[name]) == repr(expected[name])
                    for one, own in zip(*map(leaves, (batch[name], expected[name])), strict=True):
                        assert one.dtype == own.dtype
                        assert one.tolist() == own.tolist()
                assert reader.state_dict() == same.state_dict()


def leaves(value):
    """Yields the arrays of a value."""
    if isinstance(value, tuple):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def test_damaged_shards(folder, tmp_path):
    """Errors of the process are those of this process."""
    copy = shutil.copytree(folder, tmp_path / "copy")
    shard = min((copy / "examples" / "Split-train").iterdir())
    content = shard.read_bytes()
    shard.write_bytes(content[:100] + b"\xff" * 50 + content[150:])
    messages = []
    for in_process in (True, False):
        with read(str(copy), in_process) as reader, pytest.raises(DataError) as error:
            list(reader)
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    assert str(shard) in messages[0]


def test_killed_process(folder):
    """The end of the process is an error with a remedy."""
    with read(folder, True, batch_size=1, epochs=1000) as reader:
        next(reader)
        os.kill(reader._device.process._process.pid, signal.SIGKILL)
        with pytest.raises(ChildProcessError, match="ended with status -9, expected it to live"):
            list(reader)


def test_killed_training(folder):
    """The process ends with the training, however that ends."""
    code = f"""
import os, signal
from tests.reader.test_process import read
reader = read({folder!r}, True)
next(reader)
print(reader._device.process._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == -signal.SIGKILL
    try:
        process = os.pidfd_open(int(run.stdout))
    except ProcessLookupError:
        return  # it has ended already
    try:
        ended, _, _ = select.select([process], [], [], 60)
        assert ended
    finally:
        os.close(process)
