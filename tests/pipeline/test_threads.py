"""Conversions in several threads of one process."""

from __future__ import annotations

import itertools
import json
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import beam_pipelines as bp
from beam_pipelines.runners import beam_patches
from tests.support.contents import TIMED, contents

pytestmark = pytest.mark.end_to_end

THREADS = 4
CODE = (types.FunctionType, types.BuiltinFunctionType, staticmethod, classmethod, property)
RECIPES: dict[str, dict[str, Any]] = {
    "csv": {"sources": {"t": "t.csv"}, "encode": {"n": "z_score", "w": {"vocabulary": {}}}},
    "json": {"sources": {"t": "t.jsonl"}, "filter": "n > 3", "output": {"compression": "none"}},
    "parquet": {"sources": {"t": "t.parquet"}, "split": {"a": 0.5, "b": 0.5}},
    "arrow": {"sources": {"t": "t.arrow"}, "derive": {"m": "n * 2"}, "output": {"num_shards": 2}},
    "rejects": {"sources": {"t": {"path": "bad.csv", "types": {"n": "int64"}}}, "on_error": {"reject": 1}},
    "join": {"sources": {"t": "t.csv", "u": {"path": "t.parquet", "key": "n"}}, "from": "t",
             "join": [{"source": "u", "on": "n", "prefix": "u_"}]},
    "damaged": {"sources": {"t": {"path": "bad.csv", "types": {"n": "int64"}}}},
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with tables and recipes, which is the current one."""
    table = pa.table({"n": list(range(60)), "w": [f"w{row % 5}" for row in range(60)]})
    lines = [f"{row['n']},{row['w']}\n" for row in table.to_pylist()]
    (tmp_path / "t.csv").write_text("n,w\n" + "".join(lines))
    (tmp_path / "bad.csv").write_text("n,w\n" + "".join(lines) + "x,y\n")
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(r) + "\n" for r in table.to_pylist()))
    pq.write_table(table, tmp_path / "t.parquet")
    with pa.ipc.new_file(str(tmp_path / "t.arrow"), table.schema) as writer:
        writer.write_table(table)
    for name, recipe in RECIPES.items():
        (tmp_path / f"{name}.yaml").write_text(json.dumps({"name": "t", **recipe}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def result_of(name: str, output: Path) -> object:
    """Converts a recipe; returns its files, or its error."""
    try:
        bp.convert(f"{name}.yaml", str(output), quiet=True)
    except bp.DataError as error:
        return str(error).replace(str(output), "")
    return contents(output, TIMED)


def patched() -> dict[tuple[str, ...], object]:
    """Returns what Beam's modules and classes refer to."""
    found: dict[tuple[str, ...], object] = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "apache_beam" or name in ("bz2", "logging", "signal"):
            for key, value in list(vars(module).items()):
                if isinstance(value, type) and value.__module__ == name:
                    own = {one: of for one, of in vars(value).items() if isinstance(of, CODE)}
                    found |= {(name, key, one): of for one, of in own.items()}
                if isinstance(value, (*CODE, type, types.ModuleType)):
                    found[name, key] = value
    return found


@pytest.mark.parametrize("times", [4, pytest.param(34, marks=pytest.mark.slow)])
def test_conversions_in_threads(folder: Path, times: int) -> None:
    """Results are those of single runs; each patch is taken back."""
    alone = {name: result_of(name, folder / f"alone-{name}") for name in RECIPES}
    assert {name for name, result in alone.items() if isinstance(result, str)} == {"damaged"}
    before = patched()

    def convert_some(thread: int) -> list[str]:
        names = itertools.islice(itertools.cycle(RECIPES), 2 * thread, 2 * thread + times)
        return [
            name
            for number, name in enumerate(names)
            if result_of(name, folder / f"{thread}-{number}") != alone[name]
        ]

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(convert_some, range(THREADS))) == [[]] * THREADS
    after = patched()
    changed = [key for key, value in before.items() if after.get(key) is not value]
    assert changed == []
    assert not beam_patches._active.get()
