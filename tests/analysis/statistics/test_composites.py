"""Counts of sparse and weighted features, against loops over rows."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.anomalies import describe, find_anomalies
from beam_pipelines.analysis.schema.update import update_schema
from beam_pipelines.analysis.statistics.composites import Composite, composites_in
from beam_pipelines.analysis.statistics.datasets import StoredStatistics, merged_statistics
from beam_pipelines.analysis.statistics.plan import StatisticsPlan
from beam_pipelines.analysis.statistics.proto import to_proto
from beam_pipelines.analysis.statistics.storage import from_bytes, to_bytes
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.analysis.statistics.view import feature_name
from beam_pipelines.cli.main import run
from tests.analysis.statistics.support import three_ways

SCHEMA = text_format.Parse(
    """
    feature { name: "i" type: INT } feature { name: "j" type: INT } feature { name: "v" type: INT }
    sparse_feature {
      name: "s" value_feature { name: "v" } index_feature { name: "j" } index_feature { name: "i" }
    }
    sparse_feature { name: "t" value_feature { name: "v" } index_feature { name: "absent" } }
    weighted_feature { name: "w" feature { step: "v" } weight_feature { step: "one" } }
    """,
    schema_pb2.Schema(),
)
LISTS = pa.list_(pa.int64())
COLUMNS = pa.schema([("i", LISTS), ("j", LISTS), ("v", LISTS), ("one", pa.float64())])
CELL = st.none() | st.lists(st.just(1), max_size=3)
ROWS = st.lists(
    st.fixed_dictionaries({"i": CELL, "j": CELL, "v": CELL, "one": st.none() | st.just(0.5)}),
    max_size=12,
)
PLAN = StatisticsPlan(composites=composites_in(SCHEMA))


def loop(rows: list[dict[str, Any]], composite: Composite) -> dict[str, Any]:
    """Returns TFDV's custom statistics of a composite, row by row."""
    names = (composite.value, *composite.others)
    kept = [row for row in rows if any(row.get(name) is not None for name in names)]

    def length(row: dict[str, Any], name: str) -> int:
        cell = row.get(name)
        return 0 if cell is None else len(cell) if isinstance(cell, list) else 1

    missing = {name: sum(row.get(name) is None for row in kept) for name in names}
    differences = {
        name: [length(row, name) - length(row, composite.value) for row in kept] or [0]
        for name in composite.others
    }
    if composite.is_weighted:
        (weight,) = composite.others
        return {
            "missing_weight": missing[weight],
            "missing_value": missing[composite.value],
            "min_weight_length_diff": min(differences[weight]),
            "max_weight_length_diff": max(differences[weight]),
        }
    return {
        "missing_value": missing[composite.value],
        "missing_index": {name: missing[name] for name in composite.others},
        "max_length_diff": {name: max(differences[name]) for name in composite.others},
        "min_length_diff": {name: min(differences[name]) for name in composite.others},
    }


def custom(table: TableStatistics) -> dict[str, dict[str, Any]]:
    """Returns the custom statistics in a table's proto by feature."""
    dataset = to_proto({"": table})[""].datasets[0]
    return {
        feature_name(feature): {
            each.name: {bucket.label: bucket.sample_count for bucket in each.rank_histogram.buckets}
            if each.HasField("rank_histogram")
            else each.num
            for each in feature.custom_stats
        }
        for feature in dataset.features
        if feature.custom_stats
    }


def of(batch: pa.RecordBatch) -> TableStatistics:
    return TableStatistics.of(batch, PLAN)


@given(ROWS)
def test_counts_are_those_of_a_loop_over_rows(rows: list[dict[str, Any]]) -> None:
    """Counts merge in any order, and equal a loop over rows."""
    batch = pa.RecordBatch.from_pylist(rows, COLUMNS)
    expected = {composite.name: loop(rows, composite) for composite in PLAN.composites}
    for table in three_ways(batch, of, TableStatistics.merged):
        stored, plan = from_bytes(to_bytes(table, PLAN), "file")
        assert plan == PLAN
        assert custom(stored) == expected


def test_the_composites_of_a_schema() -> None:
    """Indices are in order of their names, as in TFDV's histograms."""
    assert PLAN.composites == (
        Composite("s", "v", ("i", "j")),
        Composite("t", "v", ("absent",)),
        Composite("w", "v", ("one",), is_weighted=True),
    )


def test_each_slice_has_its_own_counts() -> None:
    """Each slice has the counts of its rows."""
    batch = pa.RecordBatch.from_pydict(
        {"k": ["a", "b", "b"], "v": [[1], [1], None], "one": [1.0, None, None]}
    )
    plan = StatisticsPlan(slice_by=("k",), composites=PLAN.composites[-1:])
    table = TableStatistics.of(batch, plan)
    assert [one.custom_stats[0].num for one in last_features(table)] == [1, 0, 1]


def last_features(table: TableStatistics) -> list[Any]:
    return [dataset.features[-1] for dataset in to_proto({"": table})[""].datasets]


def test_a_column_with_the_name_of_a_composite_shares_its_feature() -> None:
    """One feature has the statistics of column and composite."""
    batch = pa.RecordBatch.from_pydict({"w": [1], "v": [[1]]})
    features = to_proto({"": TableStatistics.of(batch, PLAN)})[""].datasets[0].features
    assert [feature_name(feature) for feature in features] == ["w", "v", "s", "t"]
    assert features[0].num_stats.mean == 1
    assert features[0].custom_stats[0].name == "missing_weight"


def test_other_accumulators_do_not_change() -> None:
    """Without such features, no word of them is stored."""
    table = TableStatistics.of(pa.RecordBatch.from_pydict({"n": [1]}))
    assert b"composites" not in to_bytes(table, StatisticsPlan())


@pytest.mark.parametrize(
    ("i", "v", "one", "types"),
    [
        ([1], [1], 1.0, []),
        (None, [1], 1.0, ["SPARSE_FEATURE_MISSING_INDEX", "SPARSE_FEATURE_LENGTH_MISMATCH"]),
        ([1], None, 1.0, [
            "SPARSE_FEATURE_MISSING_VALUE", "SPARSE_FEATURE_LENGTH_MISMATCH",
            "WEIGHTED_FEATURE_MISSING_VALUE", "WEIGHTED_FEATURE_LENGTH_MISMATCH",
        ]),
        ([1], [1, 1], 1.0, ["SPARSE_FEATURE_LENGTH_MISMATCH", "WEIGHTED_FEATURE_LENGTH_MISMATCH"]),
        ([1], [1], None, ["WEIGHTED_FEATURE_MISSING_WEIGHT", "WEIGHTED_FEATURE_LENGTH_MISMATCH"]),
    ],
)  # fmt: skip
def test_anomalies_of_our_own_statistics(i: Any, v: Any, one: Any, types: list[str]) -> None:
    """Columns that do not fit each other are anomalies; ``schema update`` deprecates."""
    schema = text_format.Parse(
        """
        feature { name: "i" type: INT } feature { name: "v" type: INT }
        feature { name: "one" type: FLOAT }
        sparse_feature { name: "s" value_feature { name: "v" } index_feature { name: "i" } }
        weighted_feature { name: "w" feature { step: "v" } weight_feature { step: "one" } }
        """,
        schema_pb2.Schema(),
    )
    rows = [{"i": [1], "v": [1], "one": 1.0}, {"i": i, "v": v, "one": one}]
    columns = pa.schema([("i", LISTS), ("v", LISTS), ("one", pa.float64())])
    plan = StatisticsPlan(composites=composites_in(schema))
    table = TableStatistics.of(pa.RecordBatch.from_pylist(rows, columns), plan)
    [proto] = to_proto({"": table}).values()
    for statistics in (table, proto.datasets[0]):
        found = describe(find_anomalies({"train": statistics}, schema))
        assert sorted(dict.fromkeys(row.type for row in found)) == sorted(types)
        wider = update_schema(schema, [statistics])
        assert not find_anomalies({"train": statistics}, wider)["train"].reasons
        retired = [f.name for f in (*wider.sparse_feature, *wider.weighted_feature)
                   if f.lifecycle_stage == schema_pb2.DEPRECATED]  # fmt: skip
        assert retired == sorted({row.feature for row in found})


def test_update_does_what_is_asked_only() -> None:
    """An anomaly that is not chosen changes no feature."""
    table = of(pa.RecordBatch.from_pylist([{"v": [1]}], COLUMNS))
    assert update_schema(SCHEMA, [table], lambda _type, feature: feature == "w") != SCHEMA
    assert update_schema(SCHEMA, [table], lambda _type, _feature: False) == SCHEMA


def test_datasets_with_other_schemas_merge() -> None:
    """Merged datasets keep the counts that all of them have."""
    batch = pa.RecordBatch.from_pylist([{"v": [1]}], COLUMNS)
    backwards = dataclasses.replace(PLAN, composites=PLAN.composites[:0:-1])
    first, second = (
        StoredStatistics("", {"train": TableStatistics.of(batch, plan)}, plan)
        for plan in (PLAN, backwards)
    )
    merged = merged_statistics([first, second])
    assert merged.plan.composites == PLAN.composites[1:]
    assert custom(merged.splits["train"])["w"]["missing_weight"] == 2


@pytest.mark.end_to_end
def test_a_conversion_stops(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Weights that do not fit their values stop a conversion.

    An accepted anomaly deprecates the feature.
    """
    (tmp_path / "d.jsonl").write_text('{"v": [1, 2], "w": [0.5]}\n{"v": [3], "w": [1.5]}\n')
    (tmp_path / "s.pbtxt").write_text(
        'feature { name: "v" type: INT } feature { name: "w" type: FLOAT }\n'
        'weighted_feature { name: "x" feature { step: "v" } weight_feature { step: "w" } }\n'
    )
    (tmp_path / "r.yaml").write_text("name: d\nsources: {d: d.jsonl}\nschema: s.pbtxt\n")
    convert = ["convert", str(tmp_path / "r.yaml"), "--output", str(tmp_path / "out"), "--quiet"]
    assert run(convert) == 1
    assert "min_weight_length_diff = -1" in capsys.readouterr().err
    assert run([*convert, "--allow_anomalies", "WEIGHTED_FEATURE_LENGTH_MISMATCH"]) == 0
    assert "lifecycle_stage: DEPRECATED" in (tmp_path / "out/schema/schema.pbtxt").read_text()
