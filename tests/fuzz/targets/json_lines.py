"""JSON Lines, cut into ranges anywhere, against Python's json, or an error.

Input: a byte of switches, one free, two that choose cuts; then the text.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterator
from typing import Any

from beam_pipelines.sources.text.documents import DOCUMENTS
from tests.fuzz import cells, mutations
from tests.fuzz.finding import require
from tests.fuzz.target import Target
from tests.fuzz.targets.csv_ranges import HEAD, read_all

_TOKENS = [
    b"9" * 4_400,
    *(bytes([byte]) for byte in b'{}[],:"\\ \n\r\t0\0\xff'),
    b'"a":', b'{"a":1}\n', b'{"a":{"b":[1,2]}}\n', b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\\u0000"', b"\\u00e9", b"\\/", b"\\x", b"1e400", b"-0", b"-0.0", b"0.1",
    b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809", b"1E5", b"01", b"NaN", b"Infinity", b"null", b"true", b"false", b"[[1,2],[3,4]]", b"[{}]", b"[null]",
    b'"2013-01-31T05:15:00"', b'"2013-01-31"', b'"2013-01-31 05:15:00Z"', b"\xef\xbb\xbf", "é😀".encode(), b"\xed\xa0\x80", b"//", b"[" * 40, b'{"a":' * 40, b"\r\n", b"\n\n",
]  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, -0.0, 1e300, 2**53 + 1, 2**63 - 1, 2**63, "", "x", "é😀\n", "\ud800", "\0", "2013-01-31T05:15:00", "2013-01-31 05:15:00.123", [], [1], [1.5, 2],
    ["a"], [None], [[1, 2], [3, 4]], [[]], {}, {"a": 1}, {"b": {"c": "x"}}, [{"a": 1}, {"a": 2}], [{}], {"": 1}, {"a.b": 1},
)  # fmt: skip
_DEEPEST = 50


def run(data: bytes) -> None:
    """Compares the product's rows with those of ``json.loads``, line by line."""
    head, text = data[:HEAD].ljust(HEAD, b"0"), data[HEAD:]
    reject = bool(head[0] & 1)
    options: dict[str, Any] = {"columns": ("a", "b.c")} if head[0] & 2 else {}
    options |= (
        {"types": {"a": ("text", "int64", "list<int64>", "tensor")[head[0] >> 3 & 3]}}
        if head[0] & 4
        else {}
    )
    options |= {"file_name": "a.jsonl", "reject": reject, "is_streamed": bool(head[0] & 64)}
    found, _ = read_all(text, "json", head[2:4], **options)
    if found is None:
        return
    plan, (table, _, rejected) = found
    require(reject or not rejected, "json: rejected without being asked")
    parsed = parsed_documents if plan.source.format == DOCUMENTS else parsed_lines
    try:
        lines = list(parsed(text.removeprefix(b"\xef\xbb\xbf")))
    except (ValueError, RecursionError):  # Python reads no part of a broken document
        return
    require(
        len(lines) == table.num_rows + len(rejected),
        "json: another number of rows",
        f"{len(lines)} {table.num_rows}",
    )
    kinds = {field.name: str(field.type) for field in plan.read_schema}
    place = 0
    for row in table.to_pylist():
        while place < len(lines) and not is_row(lines[place], row, kinds):
            place += 1
        require(place < len(lines), "json: a row that no line has", f"{row} in {text!r}")
        place += 1


def parsed_lines(text: bytes) -> Iterator[Any]:
    """Yields each nonblank line: parsed, ``None`` if it is no JSON.

    A carriage return ends a line, too. NaN is a number, Infinity is none.
    """
    for line in re.split(rb"[\r\n]", text):
        if line.strip():
            try:
                yield json.loads(line.decode(), parse_constant=_constant)
            except (ValueError, RecursionError):
                yield None


def parsed_documents(text: bytes) -> Iterator[Any]:
    """Yields each element of arrays, and each object outside of them."""
    decoder, rest = json.JSONDecoder(parse_constant=_constant), text.decode().lstrip()
    while rest:
        value, end = decoder.raw_decode(rest)
        yield from value if isinstance(value, list) else [value]
        rest = rest[end:].lstrip()


def _constant(word: str) -> float:
    if word != "NaN":
        raise ValueError(word)
    return math.nan


def is_row(line: Any, row: dict[str, Any], kinds: dict[str, str]) -> bool:
    """Whether a line may have become a row.

    Each column is then the line's value under its name.
    """
    if not isinstance(line, dict):
        return False
    return all(
        is_value(under(line, name), value, kinds[name], name in line) for name, value in row.items()
    )


def under(value: Any, name: str | None) -> Any:
    """Returns the value under a flat name.

    ``a.b`` of lists of objects is a list.
    """
    if name is None:
        return value
    if isinstance(value, list):
        has_objects = any(isinstance(item, dict) for item in value)
        return [under(item, name) for item in value] if has_objects or not value else None
    if not isinstance(value, dict):
        return None
    rests = {key: name[len(key) + 1 :] for key in value if name.startswith(f"{key}.")} | (
        {name: None} if name in value else {}
    )
    found = (under(value[key], rest) for key, rest in rests.items())
    return next((item for item in found if item is not None), None)


def is_value(found: Any, value: Any, kind: str, is_whole: bool = True) -> bool:  # noqa: PLR0911 - a kind of value each
    """Whether a parsed value may have become a value of a column.

    Arrays have become flat lists.
    """
    if kind == "binary":  # a tensor, whose values another test compares
        return value is None or isinstance(value, bytes)
    if isinstance(value, list):
        leaf = kind.rpartition("item: ")[2].rstrip(">") or kind
        flat = list(_flat(found))
        return (
            isinstance(found, list)
            and len(flat) == len(value)
            and all(map(is_value, flat, value, [leaf] * len(flat)))
        )
    if (
        value is None
    ):  # a field of a list of objects has an empty list, or no column without a value
        return is_nothing(found) or (found == [] and not is_whole)
    if found is None:
        return False
    if isinstance(value, bool) or isinstance(found, bool):
        return found is value
    if isinstance(value, (int, float)):
        return isinstance(found, (int, float)) and (
            float(found) == float(value) or (math.isnan(found) and math.isnan(value))
            if isinstance(value, float)
            else found == value
        )
    if isinstance(value, str) and isinstance(found, (dict, list)):
        return _is_json(value, found)
    if isinstance(value, str):
        # A column that is declared text has the digits of numbers.
        is_scalar = isinstance(found, (bool, int, float)) and value not in ("true", "false")
        if isinstance(found, bool):
            return value == ("true" if found else "false")
        return bool(found == value) or (is_scalar and _is_json(value, found))
    return isinstance(found, str) and cells.means(found.encode("utf-8", "replace"), value, kind, ())


def _is_json(text: str, value: Any) -> bool:
    try:
        return bool(json.loads(text) == value)
    except ValueError:
        return False


def is_nothing(found: Any) -> bool:
    """Whether there is no value.

    There are only objects, whose fields are columns of their own. ``a.b`` may also be a field's own
    name.
    """
    if isinstance(found, list):
        return bool(found) and all(map(is_nothing, found))
    return found is None or isinstance(found, dict)


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for item in value:
            yield from _flat(item)
    else:
        yield value


def seeds() -> list[bytes]:
    """Lines of all kinds of values, nested and not."""
    texts = [
        b'{"a":1,"b":"x"}\n{"a":2,"b":null}\n{"b":"y"}\n',
        b'{"a":{"b":1,"c":[1.5,2]},"d":true}\n\n{"a":{"b":2,"c":[]},"d":false}\n',
        b'{"a":[{"b":1},{"b":2}],"t":"2013-01-31T05:15:00"}\r\n{"a":[],"t":"2013-02-01T05:15:00"}\r\n',
        b'{"a":[[1,2],[3,4]],"b":{"c":0.1}}\n{"a":[[5,6],[7,8]],"b":{"c":1e5}}\n',
        '{"a":"é\\u00e9\\ud83d\\ude00","b":-0.0}\n{"a":"","b":1}\n'.encode(),
        b'{"a":1}\nnot json\n{"a":"x"}\n[1]\n{"a":2}',
    ]
    return [
        head + text
        for head in (b"1AAA", b"qA\x05A", b"0A\x05A", b"3A\x90\xc0", b"\x0dA\x90A", b"\x1dA\x90A")
        for text in texts
    ]


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Changes the values of a line, or splices tokens."""
    text = data[HEAD:]
    if chance.randrange(2):
        return mutations.keep_head(data, HEAD, mutations.splice(text, _TOKENS, chance), chance)
    lines = text.split(b"\n")
    number = chance.randrange(len(lines))
    try:
        value = json.loads(lines[number])
    except (ValueError, RecursionError):
        value = {"a": chance.choice(_VALUES)}
    changed = json.dumps(changed_value(value, chance, 0), ensure_ascii=bool(chance.randrange(2)))
    copies = [changed.encode("utf-8", "replace")] * chance.choice((1, 1, 1, 3))
    return mutations.keep_head(
        data, HEAD, b"\n".join([*lines[:number], *copies, *lines[number + 1 :]]), chance
    )


def changed_value(value: Any, chance: random.Random, depth: int) -> Any:
    """Returns a parsed value with one part replaced, added or left out."""
    if depth > _DEEPEST or not chance.randrange(4):
        return chance.choice((chance.choice(_VALUES), {"a": value}, [value], value))
    if isinstance(value, dict) and value:
        name = chance.choice(list(value))
        if not chance.randrange(4):
            return {key: item for key, item in value.items() if key != name} | {
                chance.choice(("a", "b", "c", "d", "a.b", "")): chance.choice(_VALUES)
            }
        return value | {name: changed_value(value[name], chance, depth + 1)}
    if isinstance(value, list) and value:
        place = chance.randrange(len(value))
        return [
            *value[:place],
            changed_value(value[place], chance, depth + 1),
            *value[place + chance.randrange(2) :],
        ]
    if isinstance(value, int) and not isinstance(value, bool):
        return mutations.near(value, chance)
    return chance.choice(_VALUES)


TARGET = Target(run, seeds, mutate, max_bytes=6_000)
