"""Comparing two datasets by a key, against loops over rows."""

from __future__ import annotations

import collections
import dataclasses
import json
import math
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import beam_pipelines as bp
from beam_pipelines.cli.main import run
from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.dataset import compare as compare_module
from beam_pipelines.dataset.compare import compare
from beam_pipelines.dataset.row_pairs import (
    FeatureSkew,
    MatchStats,
    compare_column,
    pair_rows,
    single_values,
)

KEYS = st.lists(
    st.tuples(st.none() | st.integers(0, 4), st.none() | st.sampled_from([b"", b"a"])), max_size=12
)
VALUES = {
    pa.int64(): st.integers(-2, 2),
    pa.float32(): st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf]),
    pa.large_binary(): st.binary(max_size=2),
}


@given(KEYS, KEYS)
def test_rows_are_paired_by_their_keys(base: list[Any], test: list[Any]) -> None:
    """Pairs and counts equal those of dictionaries of rows."""
    sides = [rows_by_key(base), rows_by_key(test)]
    ids = sides[0].keys() | sides[1].keys()
    single = sorted(
        (sides[0][key][0], sides[1][key][0])
        for key in ids
        if len(sides[0][key]) == len(sides[1][key]) == 1
    )
    found = pair_rows(columns_of(base), columns_of(test))
    assert list(zip(found.base.tolist(), found.test.tolist(), strict=True)) == single
    with_key = [sum(map(len, side.values())) for side in sides]
    assert found.stats == MatchStats(
        with_key[0],
        with_key[1],
        len(ids),
        sum(not sides[0][key] for key in ids),
        sum(not sides[1][key] for key in ids),
        sum(len(sides[0][key]) * len(sides[1][key]) for key in ids),
        len(base) - with_key[0],
        len(test) - with_key[1],
        sum(len(sides[0][key]) > 1 or len(sides[1][key]) > 1 for key in ids),
    )


def rows_by_key(keys: list[Any]) -> collections.defaultdict[Any, list[int]]:
    found: collections.defaultdict[Any, list[int]] = collections.defaultdict(list)
    for row, key in enumerate(keys):
        if None not in key:
            found[key].append(row)
    return found


def columns_of(keys: list[Any]) -> list[pa.Array]:
    """Returns the two parts of the keys, as decoded examples have them."""
    parts = zip(*keys, strict=True) if keys else ((), ())
    lists = [[None if part is None else [part] for part in column] for column in parts]
    types = (pa.int64(), pa.large_binary())
    return [
        single_values(pa.array(column, pa.large_list(kind)))
        for column, kind in zip(lists, types, strict=True)
    ]


@given(st.data())
def test_features_are_compared_value_by_value(data: st.DataObject) -> None:
    """Counts equal those of a loop; floats compare by their bits."""
    kinds = [data.draw(st.sampled_from(list(VALUES))) for _ in range(2)]
    cells = [st.none() | st.lists(VALUES[kind], max_size=2) for kind in kinds]
    rows = data.draw(st.lists(st.tuples(*cells), max_size=12))
    arrays = [
        pa.array([row[side] for row in rows], pa.large_list(kind))
        for side, kind in enumerate(kinds)
    ]
    counts, differs = collections.Counter[str](), []
    for base, test in rows:
        left, right = bits(base, kinds[0]), bits(test, kinds[1])
        counts["base_count"] += bool(left)
        counts["test_count"] += bool(right)
        if left and right:
            counts["match_count" if left == right else "mismatch_count"] += 1
        elif left or right:
            counts["base_only" if left else "test_only"] += 1
        else:
            counts["match_count"] += base is not None and test is not None
        differs.append(bool((left or right) and left != right))
    skew, found = compare_column(*arrays)
    assert skew == FeatureSkew(**counts)
    assert found.tolist() == differs


def bits(values: list[Any] | None, kind: pa.DataType) -> list[Any]:
    if pa.types.is_floating(kind):
        return [struct.pack("f", value) for value in values or ()]
    return [(str(kind), value) for value in values or ()]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two datasets share 40 of 50 keys, and 10 of these differ."""
    folder = tmp_path_factory.mktemp("compared")
    lines: dict[str, list[str]] = {"base": ["id,x,t"], "test": ["id,x,t"]}
    for number in range(50):
        lines["base"].append(f"k{number},{number / 2},t{number % 3}")
    for number in range(10, 60):
        x = "" if number < 15 else 1.25 if number < 20 else number / 2
        lines["test"].append(f"k{number},{x},t{number % 3}")
    lines["test"] += ["k59,1,t0", ",1,t0"]
    for name, text in lines.items():
        (folder / f"{name}.csv").write_text("\n".join(text) + "\n")
        bp.convert({"name": "d", "sources": {"d": str(folder / f"{name}.csv")}}, str(folder / name))
    return folder


@pytest.mark.end_to_end
def test_two_datasets(
    folders: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command prints and writes the counts; partitions do not change them."""
    monkeypatch.chdir(folders)
    assert run(["compare", "base", "test", "--by", "id", "-n", "2", "--output", "c.json"]) == 0
    printed = capsys.readouterr().out
    assert "id: 40 in both, 10 in base only, 10 in test only" in printed
    assert "1 occur several times" in printed
    assert "1 examples without id" in printed
    written = json.loads((folders / "c.json").read_text())
    assert written["features"]["x"] == {
        "base_count": 40, "test_count": 35, "match_count": 30, "base_only": 5, "test_only": 0,
        "mismatch_count": 5, "diff_count": 10,
    }  # fmt: skip
    assert written["features"]["t"]["match_count"] == 40
    assert len(written["examples"]) == 2
    whole = compare("base", "test", ["id"], examples=100)
    monkeypatch.setattr(compare_module, "_PARTITION_BYTES", 300)
    parts = compare("base", "test", ["id"], examples=100)
    assert (parts.match_stats, parts.features) == (whole.match_stats, whole.features)
    texts = [str(dataclasses.astuple(one)[-1]) for one in (whole, parts)]
    assert sorted(row.key["id"] for row in whole.examples) == sorted(
        row.key["id"] for row in parts.examples
    )
    assert "('7.5', '1.25')" in texts[0]


@pytest.mark.end_to_end
@pytest.mark.parametrize(
    ("by", "split", "message"),
    [
        (["ids"], None, "found no feature 'ids' to join by. Did you mean 'id'?"),
        (["id"], "trian", "found no split 'trian', expected one of train. Did you mean 'train'?"),
    ],
)
def test_what_cannot_be_compared(
    folders: Path, by: list[str], split: str | None, message: str
) -> None:
    """An unknown feature or split is an error."""
    with pytest.raises(RecipeError, match=message.replace("?", r"\?")):
        compare(str(folders / "base"), str(folders / "test"), by, split=split)


@pytest.mark.end_to_end
def test_an_identifier_with_several_values(folders: Path, tmp_path: Path) -> None:
    """An identifier has one value, and one type."""
    (tmp_path / "d.jsonl").write_text('{"id": ["a", "b"], "n": 1}\n')
    (tmp_path / "e.jsonl").write_text('{"id": ["a", "b"], "n": 1.5}\n')
    for name in "de":
        bp.convert(
            {"name": "d", "sources": {"d": str(tmp_path / f"{name}.jsonl")}}, tmp_path / name
        )
    with pytest.raises(DataError, match="found several values of 'id'"):
        compare(str(tmp_path / "d"), str(tmp_path / "d"), ["id"])
    with pytest.raises(RecipeError, match=r"found INT in .* and FLOAT in"):
        compare(str(tmp_path / "d"), str(tmp_path / "e"), ["n"])
