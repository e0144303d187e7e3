"""Remedies that messages name, applied as they are written."""

from __future__ import annotations

import copy
import gzip
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import beam_pipelines as bp
from beam_pipelines.core.errors import PipelineError
from beam_pipelines.pipeline.previews.first_rows import first_rows

OF_SOURCE = {
    *("compression", "columns", "delimiter", "encoding", "format", "formats", "infer", "libsvm"),
    *("missing", "nulls", "types"),
}
OF_JOIN = {"prefix", "require_match"}
NUMBERS = [f"{i},x" for i in range(200)]


def csv(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def table(**columns: Any) -> pa.Table:
    return pa.table(columns)


def joined(left: str, right: str) -> dict[str, Any]:
    """Returns the keys of a recipe that joins two files."""
    on = {"source": "b", "on": "k", "prefix": "b_"}
    return {"sources": {"a": {"path": left}, "b": {"path": right}}, "from": "a", "join": [on]}


def united(*paths: str) -> dict[str, Any]:
    """Returns the keys of a recipe with a union of files."""
    files = {f"s{number}": {"path": path} for number, path in enumerate(paths)}
    return {"sources": {**files, "a": {"union": list(files)}}, "from": "a"}


# Files, keys of the source, keys of the recipe, remedies that are lines.
CASES: dict[str, tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any], int]] = {
    "fraction": ({"a.csv": csv("k,b", "1,x", "2.5,y")}, {"types": {"k": "int64"}}, {}, 2),
    "large": ({"a.csv": csv("k,b", f"{10**20},x")}, {"types": {"k": "int64"}}, {}, 2),
    "inferred": ({"a.csv": csv("k,b", f"{10**23},x", "2,y")}, {}, {}, 2),
    "named on": ({"a.csv": csv("on,b", f"{10**23},x", "2,y")}, {}, {}, 2),
    "a colon": ({"a.csv": csv('"a: b",c', "2.5,x")}, {"types": {"a: b": "int64"}}, {}, 2),
    "bool": ({"a.csv": csv("k,b", "maybe,y")}, {"types": {"k": "bool"}}, {}, 2),
    "date": ({"a.csv": csv("k,b", "1/2/2024,y")}, {"types": {"k": "date"}}, {}, 3),
    "timestamp": ({"a.csv": csv("k,b", "soon,y")}, {"types": {"k": "timestamp"}}, {}, 2),
    "zone": ({"a.csv": csv("k,b", "2024-01-01T10:00:00Z,y")}, {"types": {"k": "timestamp"}}, {}, 2),
    "infinite": ({"a.csv": csv("k,b", "1.5,x", "1e999,y")}, {}, {}, 2),
    "nearly": ({"a.csv": csv("k,b", *NUMBERS, "?,y")}, {}, {}, 3),
    "nearly no": ({"a.csv": csv("no,b", *NUMBERS, "?,y")}, {}, {}, 3),
    "short line": ({"a.csv": csv("k,b", "1,x", "2", "3,z")}, {}, {}, 1),
    "bytes": ({"a.csv": b"k,b\n1,\x81\x9d\xff\n"}, {}, {}, 1),
    "gzip": ({"a.csv": gzip.compress(b"k,b\n1,2\n")}, {}, {}, 1),
    "JSON as CSV": ({"a.csv": '{"k": 1}\n{"k": 2}\n'}, {}, {}, 2),
    "Parquet as CSV": ({"a.csv": table(k=[1, 2])}, {}, {}, 1),
    "CSV as Parquet": ({"a.parquet": "k,b\n1,2\n"}, {}, {}, 1),
    "CSV as JSON": ({"a.jsonl": "k,b\n1,2\n"}, {}, {}, 1),
    "days": ({"a.csv": csv("k,b", "01/02/2024,1", "03/04/2024,2")}, {}, {}, 4),
    "decimals": ({"a.csv": csv("k;b", "1.234;1", "2.345;2")}, {}, {}, 4),
    "JSON type": ({"a.jsonl": '{"k": 1}\n{"k": "x"}\n'}, {"types": {"k": "int64"}}, {}, 1),
    "JSON digits": ({"a.jsonl": f'{{"k": 1}}\n{{"k": {10**20}}}\n'}, {}, {}, 2),
    "JSON rounds": ({"a.jsonl": f'{{"no": 1.5}}\n{{"no": {2**53 + 1}}}\n'}, {}, {}, 2),
    "JSON kinds": ({"a.jsonl": '{"k": 1, "b": 1}\n{"k": {"b": 1}, "b": 2}\n'}, {}, {}, 2),
    "JSON lists": ({"a.jsonl": '{"k": [[1, 2], [3]], "b": 1}\n'}, {}, {}, 4),
    "JSON null": ({"a.jsonl": '{"k": [1, null], "b": 1}\n{"k": [2], "b": 1}\n'}, {}, {}, 3),
    "uint64": ({"a.parquet": table(k=pa.array([2**63 + 5], pa.uint64()), b=[1])}, {}, {}, 2),
    "Parquet type": ({"a.parquet": table(k=["x"], b=[1])}, {"types": {"k": "int64"}}, {}, 1),
    "halves": ({"a.parquet": table(k=[1.0, 2.5], b=[1, 2])}, {"types": {"k": "int64"}}, {}, 2),
    "null in list": ({"a.parquet": table(k=[[1, None], [2]], b=[1, 2])}, {}, {}, 2),
    "two names": ({"a.parquet": pa.Table.from_arrays([[1], ["x"], [3]], names=["k", "b", "k"])}, {}, {}, 1),
    "union": ({"a.csv": csv("k,b", "1,x"), "b.csv": csv("k,c", "1,x")}, {}, united("a.csv", "b.csv"), 2),
    "union types": ({"a.csv": csv("no,b", "1,x"), "b.csv": csv("no,b", "z,x")}, {}, united("a.csv", "b.csv"), 1),
    "lines": ({"a.txt": b"ok\n\xff\xfe\n"}, {"format": "lines"}, {}, 1),
    "indices": ({"a.libsvm": "1 0:1 3:2\n0 1:1\n"}, {}, {}, 1),
    "a value's cast": ({"a.csv": csv("k,b", "1,x", "2,3")}, {}, {"derive": {"z": "CAST(b AS BIGINT)"}}, 1),
    "a condition's cast": ({"a.csv": csv("k,b", "1,x", "2,3")}, {}, {"filter": "CAST(b AS BIGINT) > 1"}, 1),
    "time of split": ({"a.csv": csv("d t,b", "2024-01-01,1", ",2", "2024-03-01,4")}, {},
                      {"split": {"column": "d t", "train": {"before": "2024-02-01"}, "eval": {"after": "2024-02-01"}}}, 1),
    "prefix": ({"a.csv": csv("k,b", "1,x"), "b.csv": csv("k,b", "1,x")}, {},
               {**joined("a.csv", "b.csv"), "join": [{"source": "b", "on": "k"}]}, 1),
}  # fmt: skip


def remedies(message: str, recipe: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the recipe, changed as each line of a message says."""
    together = re.search(r"'(types: [^']*)' with '(sequence: [^']*)'", message)
    if together:
        yield _with(_with(recipe, together[1], message), together[2], message)
        message = message.replace(together[0], "")
    for found in re.finditer(r"'(\w+: .+?)'(?=[ ,.;)]|$)|\"(\w+: .+?)\"(?=[ ,.;)]|$)", message):
        line = found[1] or found[2]
        if "…" not in line and line.split(":")[0] in {*OF_SOURCE, *OF_JOIN, "filter", "on_error"}:
            yield _with(recipe, line, message)
    if null := re.search(r"Add '(.*?)' to 'nulls'", message):
        yield _with(recipe, f"nulls: ['', '{null[1]}']", message)
    if "in 'columns'" in message or "out with 'columns'" in message:
        declared = _with(recipe, "columns: [b]", message)
        if not recipe["sources"]["a"].get("types"):
            yield declared
    if "Use TRY_CAST" in message:
        yield yaml.safe_load(yaml.safe_dump(recipe).replace("CAST(", "TRY_CAST("))


def _with(recipe: dict[str, Any], line: str, message: str) -> dict[str, Any]:
    changed = copy.deepcopy(recipe)
    [(key, value)] = yaml.safe_load(line).items()
    named = re.search(r"to source '(\w+)'|text}' of (\w+) makes", message)
    source = changed["sources"][next(filter(None, named.groups())) if named else "a"]
    target = source if key in OF_SOURCE else changed["join"][0] if key in OF_JOIN else changed
    target[key] = {**target.get(key, {}), **value} if isinstance(value, dict) else value
    return changed


def _fault(recipe: dict[str, Any]) -> str:
    try:
        first_rows(bp.plan(copy.deepcopy(recipe)), 1_000)
    except PipelineError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", CASES)
def test_each_remedy_of_a_message_works(tmp_path, monkeypatch, name):
    """The run goes on, or another fault of the data stops it."""
    monkeypatch.chdir(tmp_path)
    files, source, keys, number = CASES[name]
    for path, content in files.items():
        if isinstance(content, pa.Table):
            pq.write_table(content, path)
        else:
            Path(path).write_bytes(content if isinstance(content, bytes) else content.encode())
    recipe = {"name": "t", "sources": {"a": {"path": next(iter(files)), **source}}, **keys}
    message = _fault(recipe)
    tried = list(remedies(message, recipe))
    assert len(tried) == number, message
    for changed in tried:
        after = _fault(changed)
        assert after != message, (message, changed)
        assert not after or name == "bytes", (message, after)
