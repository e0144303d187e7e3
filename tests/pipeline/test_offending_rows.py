"""Offending rows: found by the rules of anomalies, with their positions."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.anomalies import find_anomalies
from beam_pipelines.analysis.anomalies.rules.offenders import can_blame_rows
from beam_pipelines.analysis.anomalies.rules.offenders import offending_rows as blamed
from beam_pipelines.analysis.anomalies.rules.reason import Info
from beam_pipelines.analysis.statistics import TableStatistics
from beam_pipelines.core.chunks import ROW
from beam_pipelines.pipeline import offending_rows
from beam_pipelines.pipeline.offending_rows import AnomalyKey, find_bad_row, find_offenders
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.planning.recipes import load
from beam_pipelines.pipeline.planning.stages import make_plan
from tests.analysis.statistics.support import VALUES_FOR_TYPE
from tests.support.runs import short_ranges
from tests.support.tables import write_table


def parsed(text: str) -> schema_pb2.Schema:
    return text_format.Parse(text, schema_pb2.Schema())


@given(st.data())
def test_rows_are_to_blame_when_the_data_without_them_are_fine(data: st.DataObject) -> None:
    """Without the blamed rows the anomaly is gone.

    Each of them has it alone.
    """
    kind = data.draw(st.sampled_from(list(VALUES_FOR_TYPE)))
    values = data.draw(st.lists(st.none() | VALUES_FOR_TYPE[kind], min_size=1, max_size=8))
    domains = (
        "int_domain { min: -2 max: 2 }",
        "float_domain { min: -1 max: 1 disallow_nan: true disallow_inf: true }",
        "bool_domain { true_value: 'true' }",
        "string_domain { value: 'a' }",
    )
    shapes = (
        "",
        "shape { dim { size: 1 } }",
        "value_count { min: 1 max: 1 }",
        "presence { min_fraction: 1 }",
    )
    type_ = data.draw(st.sampled_from(("INT", "FLOAT", "BYTES")))
    feature = (
        f"type: {type_} {data.draw(st.sampled_from(domains))} {data.draw(st.sampled_from(shapes))}"
    )
    schema = parsed(f'feature {{ name: "x" {feature} }}')

    def types(rows: list[Any]) -> set[int]:
        table = TableStatistics.of(pa.record_batch({"x": pa.array(rows, kind)}))
        reasons = find_anomalies({"s": table}, schema)["s"].reasons.get("x", ())
        return {reason.type for reason in reasons if can_blame_rows(reason.type)}

    for found in types(values):
        mask = blamed(pa.array(values, kind), found, schema.feature[0], schema).tolist()
        assert any(mask)
        left = [value for value, bad in zip(values, mask, strict=True) if not bad]
        if any(value is not None for value in left):
            assert found not in types(left)
        for value, bad in zip(values, mask, strict=True):
            if bad and value is not None:  # a row of nulls is a feature that is not there
                assert found in types([value]) or found in _BOOLEAN


# A boolean domain reports the lowest value first: alone, a row may have the other anomaly.
_BOOLEAN = (Info.BOOL_TYPE_SMALL_INT, Info.BOOL_TYPE_BIG_INT)

SCHEMA = """
feature { name: "n" type: INT int_domain { max: 5 } }
feature { name: "t" type: BYTES string_domain { value: "ok" } }
feature { name: "f" type: FLOAT presence { min_fraction: 1 } }
"""


def found(tmp_path: Path, recipe: str, schema: str = SCHEMA) -> Mapping[AnomalyKey, Any]:
    """Returns anomaly -> (file, position, reason, text) of a recipe's data."""
    (tmp_path / "r.yaml").write_text(recipe)
    loaded = load(str(tmp_path / "r.yaml"))
    planned = make_plan(loaded)
    contract = parsed(schema)
    offenders = find_offenders(planned, find_anomalies(_statistics(planned), contract), contract)
    return {
        key: [(Path(row.file).name, row.position, row.reason, row.text) for row in rows]
        for key, rows in offenders.rows.items()
    }


def _statistics(planned: Plan) -> dict[str, TableStatistics]:
    reader = offending_rows.RangeReader(planned)
    tables: dict[str, list[TableStatistics]] = {}
    for byte_range in planned.base.ranges:
        for part in reader.split(byte_range):
            batch = part.batch.drop_columns([ROW])
            tables.setdefault(part.split, []).append(TableStatistics.of(batch))
    return {split: TableStatistics.merged(parts) for split, parts in tables.items()}


def test_lines_of_a_csv_are_counted_as_an_editor_does(tmp_path: Path) -> None:
    """Multi-line cells, blank lines and rejected rows do not change line numbers."""
    (tmp_path / "a.csv").write_text('n,t,f\n1,"o\nk",1\n\n9,ok,1\n1,ok\n2,"b\n\nd",\n7,ok,2\n')
    recipe = (
        "name: a\nsources: {a: {path: a.csv, types: {n: int64, f: float64}}}\non_error: "
        "{reject: 50%}"
    )
    rows = found(tmp_path, recipe)
    assert rows == {
        AnomalyKey("train", "n", Info.INT_TYPE_BIG_INT): [
            ("a.csv", "line 5", "found 9, expected at most 5", "9,ok,1"),
            ("a.csv", "line 10", "found 7, expected at most 5", "7,ok,2"),
        ],
        AnomalyKey("train", "t", Info.ENUM_TYPE_UNEXPECTED_STRING_VALUES): [
            ("a.csv", "line 2", "found 'o\\nk', expected one of 1 values", '1,"o\nk",1'),
            ("a.csv", "line 7", "found 'b\\n\\nd', expected one of 1 values", '2,"b\n\nd",'),
        ],
        AnomalyKey("train", "f", Info.FEATURE_TYPE_LOW_FRACTION_PRESENT): [
            ("a.csv", "line 7", "found null, expected a value", '2,"b\n\nd",')
        ],
    }


def test_rows_are_followed_through_join_filter_and_split(tmp_path, monkeypatch):
    """The base source's line is named after join, filter and split."""
    short_ranges(monkeypatch, 200)
    names = [f"k{number % 7}" for number in range(100)]
    (tmp_path / "a.csv").write_text(
        "k,day\n" + "".join(f"{name},{number}\n" for number, name in enumerate(names))
    )
    (tmp_path / "b.csv").write_text(
        "k,n\n" + "".join(f"k{number},{number}\n" for number in range(7))
    )
    recipe = (
        "name: a\nsources: {a: a.csv, b: b.csv}\nfrom: a\njoin: [{source: b, on: k, strategy: "
        "STRATEGY}]\n"
        "filter: day >= 10\nsplit: {column: day, train: {before: 50}, eval: {after: 50}}"
    )
    schema = (
        'feature { name: "n" type: INT int_domain { max: 5 } } feature { name: "k" type: '
        'BYTES } feature { name: "day" type: INT }'
    )
    lines = {
        "train": [f"line {number + 2}" for number in range(10, 50) if number % 7 == 6],
        "eval": [f"line {number + 2}" for number in range(50, 100) if number % 7 == 6],
    }
    for strategy in ("broadcast", "hash"):
        rows = found(tmp_path, recipe.replace("STRATEGY", strategy), schema)
        for split, expected in lines.items():
            assert [
                place for _, place, _, _ in rows[AnomalyKey(split, "n", Info.INT_TYPE_BIG_INT)]
            ] == expected[:10]


def test_rows_that_an_expression_rejects_are_passed_over(tmp_path: Path) -> None:
    """A rejected row does not stop the search.

    Later rows keep their positions.
    """
    (tmp_path / "a.csv").write_text("n,t,f\n1,2,1\n1,x,1\n9,3,1\n")
    recipe = (
        "name: a\nsources: {a: {path: a.csv, types: {t: text}}}\n"
        'derive: {d: "CAST(t AS BIGINT)"}\non_error: {reject: 50%}'
    )
    rows = found(tmp_path, recipe)
    assert [place for _, place, _, _ in rows[AnomalyKey("train", "n", Info.INT_TYPE_BIG_INT)]] == [
        "line 4"
    ]


def test_the_search_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search stops at ten rows an anomaly.

    It reads files from the start, up to a limit.
    """
    for name, value in (("a", 1), ("b", 9)):
        (tmp_path / f"{name}.csv").write_text("n,t,f\n" + f"{value},ok,1\n" * 30)
    recipe = 'name: a\nsources: {a: "*.csv"}'
    key = AnomalyKey("train", "n", Info.INT_TYPE_BIG_INT)
    rows = found(tmp_path, recipe)
    assert [(name, place) for name, place, _, _ in rows[key]] == [
        ("b.csv", f"line {line}") for line in range(2, 12)
    ]
    monkeypatch.setattr(offending_rows, "MAX_READ_BYTES", 1)
    assert found(tmp_path, recipe)[key] == []


def test_blame_of_dates_and_times() -> None:
    """Dates, times and booleans are compared as the integers of their features."""
    schema = parsed('feature { name: "x" type: INT int_domain { max: 1 } }')
    day = pa.array([datetime.date(1970, 1, 2), datetime.date(1970, 1, 3), None])
    assert blamed(day, Info.INT_TYPE_BIG_INT, schema.feature[0], schema).tolist() == [
        False,
        True,
        False,
    ]
    lists = pa.array([[1.0], [1.0, math.nan], None, []])
    assert blamed(lists, Info.FLOAT_TYPE_HAS_NAN, schema.feature[0], schema).tolist() == [
        False,
        True,
        False,
        False,
    ]


# Files with 1e60 in row 3 -> what writes one, how the row is named.
BEYOND: dict[str, tuple[Callable[[Path], object], str]] = {
    "a.csv": (lambda path: path.write_text("x\n1.5\n2\n1e60\n"), "line 4 ('1e60')"),
    "a.tsv": (lambda path: path.write_text("x\ty\n1.5\t1\n2\t1\n1E60\t1\n"), "line 4 ('1E60\\t1')"),
    "a.jsonl": (lambda path: path.write_text('{"x": 1.5}\n{"x": 2}\n{"x": 1e60}\n'), "line 3 ('{\"x\": 1e60}')"),
    **{f"a.{name}": (lambda path: write_table(path, NUMBERS), "row 3 ({'x': 1e+60})") for name in ("parquet", "feather", "orc", "npz")},
    "lists.parquet": (lambda path: write_table(path, pa.table({"x": [[1.5], [], [2.5, 1e60]]})), "row 3 ({'x': [2.5, 1e+60]})"),
    "a.libsvm": (lambda path: path.write_text("1.5 1:2\n2 1:2\n1e60 1:2\n"), "line 3 ('1e60 1:2')"),
}  # fmt: skip
NUMBERS = pa.table({"x": [1.5, 2.0, 1e60]})


@pytest.mark.parametrize("name", BEYOND)
def test_values_that_cannot_be_encoded_have_a_place(name: str, tmp_path: Path) -> None:
    """Each format's error names the row and the column's remedies."""
    write, where = BEYOND[name]
    write(tmp_path / name)
    (tmp_path / "r.yaml").write_text(f"name: a\nsources: {{a: {{path: {name}}}}}\n")
    planned = make_plan(load(str(tmp_path / "r.yaml")))
    found = find_bad_row(planned, f"{planned.base.files[0].path}, column")
    assert f"{name}, {where}" in found
    assert "a number beyond the range of float32" in found
    is_list = "list" in name
    assert ("Declare 'types: {" in found) != is_list


def test_expressions_without_a_value_have_a_place(tmp_path: Path) -> None:
    """Filters before and after a join, and derived columns, name the line."""
    (tmp_path / "a.csv").write_text("k,t\n1,5\n\n2,oh\n")
    (tmp_path / "b.csv").write_text("k,w\n1,1\n2,2\n")
    base = "name: a\nsources: {a: a.csv, b: b.csv}\nfrom: a\njoin: [{source: b, on: k}]\n"
    for line, what in (
        ("filter: CAST(t AS INT) > 1", "filter"),
        ("filter: CAST(t AS INT) > w", "filter"),
        ("derive: {z: CAST(t AS INT)}", "derived column 'z'"),
    ):
        (tmp_path / "r.yaml").write_text(base + line)
        planned = make_plan(load(str(tmp_path / "r.yaml")))
        found = find_bad_row(planned, str(tmp_path / "a.csv"))
        assert f"a.csv, line 4 ('2,oh'), {what}: found" in found
    assert find_bad_row(planned, str(tmp_path / "b.csv")) == ""
