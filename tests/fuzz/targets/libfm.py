"""Lines of libsvm and libfm against a loop, or an error.

The loop runs over tokens. The lines are cut into ranges anywhere. Input: a byte of switches, one
free, two that choose cuts; then the text.
"""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from beam_pipelines.sources.libsvm.format import Libsvm
from tests.fuzz import cells, mutations
from tests.fuzz.finding import require
from tests.fuzz.target import Target
from tests.fuzz.targets.csv_ranges import HEAD, read_all

_NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INTEGER = re.compile(rb"[+-]?[0-9]+")
_INDEX = re.compile(rb"-?[0-9]+")
_TOKENS = [
    b"9" * 4_400,
    *(bytes([byte]) for byte in b" \t\n\r:#-+.0\0\xff\"',x"),
    b" 1:1", b" 2:0.5", b" 3:-1e-3", b" 0:2:1", b" qid:5", b" qid:", b"1 ", b"-1 ", b"0.5 ", b"\r\n", b"\n\n", b"1e39", b"1e-50", b"nan", b"inf", b"0x1F", b":", b"::", b"1:", b":1",
    b"9223372036854775807", b"9223372036854775808", b"4294967296", b"#comment", b" 1:1 1:2", b" 2:1 1:1", b"1,2 ", b"+5", b"007", b".5", b"5.", b"1_0", b"\xef\xbb\xbf", b"\x0b", b"\x85",
]  # fmt: skip


class Row(NamedTuple):
    """A row by a loop over tokens."""

    label: float
    query: int | None
    keys: list[int]
    values: list[float]


def row_of(line: bytes, base: int) -> Row | None:
    """Returns a line's row; ``None`` if the line differs from docs/formats.md."""
    label, *tokens = line.split()
    if not _NUMBER.fullmatch(label):
        return None
    query = None
    if tokens and tokens[0].startswith(b"qid:"):
        text = tokens.pop(0)[4:]
        if not _INTEGER.fullmatch(text) or len(text) > 4_000:
            return None
        query = int(text)
    keys, values = [], []
    for token in tokens:
        text, _, value = token.partition(b":")
        if not (_INDEX.fullmatch(text) and len(text) <= 4_000 and _NUMBER.fullmatch(value)):
            return None
        key = int(text)
        if key < base or (keys and key <= keys[-1]) or key >= 1 << 63:
            return None
        keys.append(key)
        values.append(float(value))
    return Row(float(label), query, keys, values)


def run(data: bytes) -> None:
    """Compares the product's rows with those of the loop."""
    head, text = data[:HEAD].ljust(HEAD, b"0"), data[HEAD:]
    name, base = ("libsvm", 1) if head[0] & 1 else ("libfm", 0)
    reject = bool(head[0] & 4)
    options: dict[str, Any] = {"types": {"label": "float32"}} if head[0] & 8 else {}
    options |= {"libsvm": Libsvm(size=10)} if head[0] & 16 else {}
    options |= {"file_name": f"a.{name}", "reject": reject, "is_streamed": bool(head[0] & 64)}
    found, _ = read_all(text, "libfm", head[2:4], **options)
    if found is None:
        return
    _, (table, _, rejected) = found
    require(reject or not rejected, "libfm: rejected without being asked")
    lines = [
        line.split(b"#")[0].strip()
        for line in re.split(rb"\r\n|\n|\r", text.removeprefix(b"\xef\xbb\xbf"))
    ]
    numbers = {int(bad.position.removeprefix("line ")) for bad in rejected}
    kept = [line for number, line in enumerate(lines, 1) if line and number not in numbers]
    require(
        len(kept) == table.num_rows,
        "libfm: another number of rows",
        f"{len(kept)} {table.num_rows}",
    )
    for line, row in zip(kept, table.to_pylist(), strict=True):
        compare(line, row, row_of(line, base))


def compare(line: bytes, row: dict[str, Any], expected: Row | None) -> None:
    """Compares one row."""
    require(expected is not None, "libfm: a bad line, and no error", f"{line!r} became {row}")
    assert expected is not None
    is_label = row["label"] == expected.label or cells.is_nearest_float32(
        expected.label, row["label"]
    )
    require(is_label, "libfm: another label", f"{line!r} became {row}")
    require(row.get("qid") == expected.query, "libfm: another query", f"{line!r} became {row}")
    base = 0 if not expected.keys else expected.keys[0] - row["features_index"][0]
    require(base in (0, 1), "libfm: another base", f"{line!r} became {row}")
    require(
        row["features_index"] == [key - base for key in expected.keys],
        "libfm: other indices",
        f"{line!r} became {row}",
    )
    require(
        are_nearest(expected.values, row["features_value"]),
        "libfm: other values",
        f"{line!r} became {row}",
    )


def are_nearest(numbers: Sequence[float], values: Sequence[float]) -> bool:
    """Whether float32s are the nearest ones, except for rounding twice."""
    return len(numbers) == len(values) and all(
        cells.is_nearest_float32(number, value)
        or abs(number - value) <= struct.unpack("<f", b"\1\0\0\0")[0]
        for number, value in zip(numbers, values, strict=True)
    )


def seeds() -> list[bytes]:
    """Lines with and without queries, comments."""
    texts = [
        b"1 1:0.5 3:2 # a comment\n0 2:1e-3\n\n-1\n",
        b"0.5 qid:1 1:1 2:1\n1 qid:2 7:0.25\r\n0 qid:2\r\n",
        b"1 0:1:0.5 1:2:1\n0 0:3:-1\n",
        b"1 1:1\rbad 1:x\n0 5:1 4:1\n1 9223372036854775807:1\n",
    ]
    return [
        head + text
        for head in (b"4AAA", b"tA\x05A", b"5A\x05A", b"6A\x90\xc0", b"\x0cA\x90A", b"\x12AAA")
        for text in texts
    ]


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Splices tokens."""
    return mutations.keep_head(data, HEAD, mutations.splice(data[HEAD:], _TOKENS, chance), chance)


TARGET = Target(run, seeds, mutate, max_bytes=6_000)
