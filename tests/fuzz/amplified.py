"""Memory and CPU time of small patterns that are repeated to megabytes.

Each runs in a process of its own. ``python -m tests.fuzz.amplified`` prints a line of JSON for
each: bytes of the input, bytes that the peak of memory rose by, seconds, and the outcome.
"""

from __future__ import annotations

import json
import os
import pickle
import pickletools
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from beam_pipelines.core.layout.dataset_layout import MANIFEST
from beam_pipelines.dataset import manifest
from beam_pipelines.pipeline.planning import recipes
from beam_pipelines.sources import planner
from beam_pipelines.transforms import read
from tests.fuzz import scratch
from tests.fuzz.finding import explained
from tests.fuzz.targets.tfrecord import framed, masked_crc
from tests.support.made_source import made_source

MIB = 1 << 20
# The memory of the libraries: code, tables, threads, and memory that they keep for reuse.
CONSTANT_BYTES = 96 * MIB
MOST_SECONDS = 10.0
_CLEAR_PEAK = b"5"


class Case(NamedTuple):
    """An input: its name, its bytes, and its source's options.

    Without a format it is a recipe or a manifest.
    """

    name: str
    data: bytes
    options: Mapping[str, Any] | None = MappingProxyType({})


def cases() -> Iterator[tuple[str, Case]]:
    """Yields inputs by what is repeated in them."""
    yield "csv: one long cell", Case("a.csv", b"a,b\n1," + b"x" * (2 * MIB) + b"\n")
    yield "csv: quotes", Case("a.csv", b"a,b\n1,2\n" + b'"' * (2 * MIB) + b"\n")
    yield "csv: stray quotes", Case("a.csv", b"a,b\n1,2\n" + b'x"' * (MIB // 4) + b",1\n")
    yield "csv: quoted line ends", Case("a.csv", b'a,b\n1,2\n"' + b"\n" * (2 * MIB) + b'",2\n')
    yield "csv: carriage returns", Case("a.csv", b"a,b\n1,2\n" + b"\r" * (2 * MIB) + b"1,2\n")
    yield "csv: delimiters", Case("a.csv", b"a,b\n1,2\n" + b"," * (2 * MIB) + b"\n")
    yield "csv: ragged rows", Case("a.csv", b"a,b\n1,2\n" + b"1,2,3\n" * 50_000)
    yield (
        "csv: names",
        Case("a.csv", b",".join(b"c%d" % place for place in range(200_000)) + b"\n1\n"),
    )
    yield "csv: digits", Case("a.csv", b"a,b\n1,2\n" + b"9" * (2 * MIB) + b",2\n")
    yield "json: brackets", Case("a.jsonl", b'{"a":1}\n' + b"[" * (2 * MIB) + b"\n")
    yield "json: objects", Case("a.jsonl", b'{"a":1}\n' + b'{"a":' * (MIB // 2) + b"\n")
    yield "json: blank lines", Case("a.jsonl", b'{"a":1}\n' + b" \n" * MIB + b'{"a":1}\n')
    yield "json: carriage returns", Case("a.jsonl", b'{"a":1}\n' + b"\r" * (2 * MIB) + b'{"a":1}\n')
    yield (
        "json: blanks in a name",
        Case("a.jsonl", b'{"%s":1}\n{"%s":"x"}\n' % (b" " * MIB, b" " * MIB)),
    )
    yield (
        "json: addresses in a name",
        Case("a.jsonl", b'{"a":1}\n' * 9 + b'{"a":"x","' + b"://a:" * 100_000 + b'":1}\n'),
    )
    yield "json: escapes", Case("a.jsonl", b'{"a":"' + b"\\u0041" * (MIB // 3) + b'"}\n')
    yield "libfm: comments", Case("a.libfm", b"1 1:1\n" + b"#" * (2 * MIB) + b"\n")
    yield "libfm: blanks", Case("a.libfm", b"1 1:1\n" + b" \t" * MIB + b"\n")
    yield "libfm: digits", Case("a.libfm", b"1 1:1\n1 1:" + b"1" * (2 * MIB) + b"\n")
    yield (
        "libfm: features",
        Case("a.libfm", b"1 " + b" ".join(b"%d:1" % index for index in range(150_000)) + b"\n"),
    )
    yield (
        "idx: a header that lies",
        Case("a.idx", b"\0\0\x08\3" + struct.pack(">3I", *[0xFFFFFFFF] * 3)),
    )
    yield "idx: items of a byte", Case("a.idx", b"\0\0\x08\1" + struct.pack(">I", MIB) + bytes(MIB))
    length = struct.pack("<Q", 1 << 62)
    yield (
        "tfrecord: a length that lies",
        Case(
            "a.tfrecord",
            length + struct.pack("<I", masked_crc(length)) + b"x" * 99,
            {"format": "raw_records"},
        ),
    )
    yield (
        "tfrecord: empty records",
        Case("a.tfrecord", framed(b"") * (MIB // 16), {"format": "raw_records"}),
    )
    yield "cifar: marks", Case("data_batch_1", b"\x80\x02" + b"(" * MIB + b".", {"format": "cifar"})
    yield (
        "cifar: lists in lists",
        Case(
            "data_batch_1",
            b"\x80\x02" + b"]" * (MIB // 2) + b"a" * (MIB // 2 - 1) + b".",
            {"format": "cifar"},
        ),
    )
    yield (
        "cifar: a length that lies",
        Case("data_batch_1", b"\x80\x04\x8e" + b"\xff" * 7 + b"\x0f.", {"format": "cifar"}),
    )
    doubled = (
        pickletools.optimize(pickle.dumps({"data": np.zeros(8, np.uint8)}, 2))[:-1]
        + b"2" * MIB
        + b"."
    )
    yield "cifar: copies", Case("data_batch_1", doubled, {"format": "cifar"})
    yield "recipe: brackets", Case("recipe.yaml", b"name: a\nsources: " + b"[" * 100_000, None)
    anchors = b"".join(
        b"k%d: &a%d [%s]\n" % (level, level, b", ".join([b"*a%d" % (level - 1)] * 9))
        for level in range(1, 20)
    )
    yield "recipe: aliases", Case("recipe.yaml", b"k0: &a0 [x]\n" + anchors, None)
    yield (
        "recipe: keys",
        Case("recipe.yaml", b"".join(b"k%d: 1\n" % place for place in range(5_000)), None),
    )
    yield "manifest: brackets", Case("dataset.json", b"[" * MIB, None)
    yield (
        "manifest: keys",
        Case(
            "dataset.json",
            json.dumps(
                {"format_version": 1, "splits": {f"k{place}": 1 for place in range(50_000)}}
            ).encode(),
            None,
        ),
    )


def reader_of(case: Case, path: str) -> Callable[[], Any]:
    """Returns what reads a case."""
    if case.name == MANIFEST:
        return lambda: manifest.read_manifest(os.path.dirname(path))
    if case.options is None:
        return lambda: recipes.load(path)
    source = made_source("s", (path,), **case.options)
    return lambda: read.read_table(planner.plan_source(source, ""), reject=True)


def peak_bytes() -> int:
    """Returns the process's peak of memory since the peak was cleared."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))


def clear_peak() -> None:
    """Lets the peak be what there is now."""
    with open("/proc/self/clear_refs", "wb") as file:
        file.write(_CLEAR_PEAK)


def main() -> None:
    """Reads every case."""
    for what, case in cases():
        read_ = reader_of(case, scratch.write("amplified", case.name, case.data))
        clear_peak()
        before, start = peak_bytes(), time.process_time()
        _, why = explained(read_)
        measured = {
            "what": what,
            "bytes": len(case.data),
            "rise": peak_bytes() - before,
            "seconds": time.process_time() - start,
        }
        sys.stdout.write(json.dumps(measured | {"why": why[:300]}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
