"""CIFAR's pickles against Python's own unpickler, or an error.

Input: a byte of switches, one free; then a pickle. It is read as a value, and as a batch in a file.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import random
import struct
import tarfile
from typing import Any

import numpy as np

from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import planner
from beam_pipelines.sources.images import safe_pickle
from beam_pipelines.transforms import read
from tests.fuzz import mutations, scratch
from tests.fuzz.finding import explained, require
from tests.fuzz.target import Target

HEAD = 2
_ALLOWED = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("_codecs", "encode"): lambda text, encoding: text.encode(encoding),
    ("__builtin__", "bytes"): bytes,
}
_TOKENS = [
    *(bytes([byte]) for byte in b"(.0123FGIJKLMNPQRSTUVX]abcdeghijlopqrstu}\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98"),
    b"\x80\x02", b"K\x01", b"M\x00\x01", b"J\xff\xff\xff\xff", b"U\x01a", b"X\x01\0\0\0a", b"]q\x00", b"}q\x01", b"(lp0\n", b"cposix\nsystem\n", b"cnumpy\ndtype\n", b"R", b"q\x00", b"h\x00", b"\x85R", b"e", b"s", b"b",
    b"T\xff\xff\xff\x7f", b"\x8b\xff\xff\xff\x7f", b"\x8e" + b"\xff" * 8, b"r\xff\xff\xff\xff", b"\x8a\x09" + b"\xff" * 9, b"I01\n", b"I1\n", b"L1L\n", b"F1.5\n", b"S'a'\n", b"Va\n", b"cnumpy.core.multiarray\n_reconstruct\n",
]  # fmt: skip


class _Oracle(pickle._Unpickler):  # type: ignore[name-defined]  # the machine in Python, whose memo is a dict
    """Python's own machine, which calls nothing but what arrays are made of."""

    def find_class(self, module: str, name: str) -> Any:
        if name in ("_reconstruct", "_frombuffer"):
            return getattr(np._core.multiarray, name, None) or np._core.numeric._frombuffer
        return _ALLOWED[module, name]


def by_python(data: bytes) -> Any:
    """Returns Python's value of a pickle that the product has read.

    Such a pickle calls nothing else.
    """
    return _Oracle(io.BytesIO(data), encoding="bytes").load()


def is_same(found: Any, expected: Any) -> bool:
    """Whether two values are equal."""
    if isinstance(found, np.ndarray):
        return (
            isinstance(expected, np.ndarray)
            and found.shape == expected.shape
            and found.dtype.kind == expected.dtype.kind
            and bool((found == expected).all())
        )
    if isinstance(found, (list, tuple)):
        return (
            type(found) is type(expected)
            and len(found) == len(expected)
            and all(map(is_same, found, expected))
        )
    if isinstance(found, dict):
        return (
            isinstance(expected, dict)
            and list(found) == list(expected)
            and all(is_same(found[key], expected[key]) for key in found)
        )
    return type(found) is type(expected) and bool(found == expected)


def run(data: bytes) -> None:
    """Compares the value with Python's, and reads the batch."""
    head, text = data[:HEAD].ljust(HEAD, b"\0"), data[HEAD:]
    is_hundred, in_archive, reject = (bool(head[0] & bit) for bit in (1, 2, 4))
    value: Any = None
    try:
        value = safe_pickle.loads(text)
    except safe_pickle.UnsafePickleError as error:
        require(bool(str(error)), "cifar: an error without a message")
    else:
        compare_value(text, value)
    name = "train" if is_hundred else "data_batch_1"
    if in_archive:
        path = scratch.write("cifar", "cifar-10-python.tar", archive(name, text))
    else:
        path = scratch.write("cifar", name, text)

    def call() -> Any:
        return read.read_table(
            planner.plan_source(Source("s", (path,), format="cifar"), ""), reject
        )

    found, _ = explained(call)
    if found is not None:
        table, _, rejected = found
        pixels = np.asarray(value[b"data"] if b"data" in value else value["data"])
        require(
            table.num_rows + len(rejected) == len(pixels),
            "cifar: another number of rows",
            f"{table.num_rows} {len(pixels)}",
        )
        require(reject or not rejected, "cifar: rejected without being asked")
        labels = value[b"labels"] if b"labels" in value else value.get("labels")
        if not is_hundred and not rejected and labels is not None:
            require(
                table.column("image/class/label").to_pylist() == [int(label) for label in labels],
                "cifar: other labels",
                labels,
            )


def compare_value(text: bytes, value: Any) -> None:
    """Compares a value with that of Python's unpickler, if it gives one."""
    if any(opcode.name == "BYTEARRAY8" for opcode, _, _ in pickletools.genops(text)):
        return  # bytes here: never changed
    try:
        expected = by_python(text)
    except Exception:  # noqa: BLE001 - what Python does not take, as it checks more of arrays, is nothing to compare with
        return
    require(is_same(value, expected), "cifar: another value", f"{value!r} {expected!r}")


def archive(name: str, data: bytes) -> bytes:
    """Returns a tar file with one file in it."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        info = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
    return made.getvalue()


def batch(rows: int, is_hundred: bool, protocol: int, as_bytes: bool) -> bytes:
    """Returns a pickled batch."""

    def key(text: str) -> Any:
        return text.encode() if as_bytes else text

    labels: dict[Any, Any] = {key("labels"): list(range(rows))}
    if is_hundred:
        labels = {key("fine_labels"): list(range(rows)), key("coarse_labels"): [0] * rows}
    images = np.zeros((rows, 3072), np.uint8)
    return pickle.dumps(
        {
            key("data"): images,
            **labels,
            key("filenames"): [key(f"{row}.png") for row in range(rows)],
        },
        protocol=protocol,
    )


def seeds() -> list[bytes]:
    """Batches of all protocols, and values of all kinds."""
    values = [
        None,
        [1, 2.5, "x", b"y"],
        {"a": [True, (1, 2, 3, 4)], b"b": {}},
        np.arange(6, dtype=">i2").reshape(2, 3),
        -(2**70),
        {"x": np.zeros(3, np.uint8)},
    ]
    batches = [
        bytes([hundred]) + b"\0" + batch(1, bool(hundred), protocol, as_bytes)
        for hundred in (0, 1)
        for protocol in (2, 3, 4)
        for as_bytes in (True, False)
    ]
    python2 = b"\x80\x02}q\x01(U\x04dataq\x02]q\x03U\x06labelsq\x04]q\x05K\x01aU\tfilenamesq\x06]q\x07U\x05a.pngau."
    return [
        *batches,
        b"\2\0" + batch(1, False, 2, True),
        b"\0\0" + python2,
        *(b"\0\0" + pickle.dumps(value, protocol) for value in values for protocol in (2, 4)),
    ]


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Changes instructions, or numbers within one.

    It leaves instructions out, doubles, moves or inserts them.
    """
    text = data[HEAD:]
    try:
        starts = [place for _, _, place in pickletools.genops(text)]
    except Exception:  # noqa: BLE001 - whatever pickletools says of damaged data
        starts = list(range(0, len(text), 3))
    starts = [place for place in starts if place is not None] or [0]
    number = chance.randrange(len(starts))
    start, end = starts[number], [*starts, len(text)][number + 1]
    action = chance.randrange(7)
    if action == 0:
        text = text[:start] + text[end:]
    elif action == 1:
        text = text[:start] + chance.choice(_TOKENS) + text[start:]
    elif action == 2:
        text = text[:start] + chance.choice(_TOKENS) + text[end:]
    elif action == 3:
        place = chance.choice(starts)
        text = text[:place] + text[start:end] * chance.choice((1, 1, 2, 50)) + text[place:]
    elif action == 4 and end - start > 1:
        place = start + 1 + chance.randrange(min(end - start - 1, 8))
        text = (
            text[:place]
            + bytes([chance.choice((0, 1, 127, 128, 255, text[place] ^ 1 << chance.randrange(8)))])
            + text[place + 1 :]
        )
    elif action == 5 and end - start > 5:
        text = (
            text[: start + 1]
            + struct.pack("<I", mutations.near(end - start, chance) % (1 << 32))
            + text[start + 5 :]
        )
    else:
        text = mutations.splice(text, _TOKENS, chance)
    return mutations.keep_head(data, HEAD, text, chance)


TARGET = Target(run, seeds, mutate, max_bytes=4000)
