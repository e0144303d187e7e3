"""Statistics without the values of private columns."""

from __future__ import annotations

import dataclasses

import hypothesis
import hypothesis.strategies as st
import pyarrow as pa
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.anomalies import describe, find_anomalies
from beam_pipelines.analysis.schema import infer_schema
from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.plan import StatisticsPlan
from beam_pipelines.analysis.statistics.proto import to_proto
from beam_pipelines.analysis.statistics.storage import from_bytes, to_bytes
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.core.layout.schema_features import name_of

COLUMNS = pa.schema(
    [("n", pa.int64()), ("t", pa.string()), ("f", pa.float64()), ("l", pa.list_(pa.string()))]
)
ROWS = st.fixed_dictionaries(
    {
        "n": st.none() | st.integers(0, 3),
        "t": st.none() | st.sampled_from(["a", "b", "1"]),
        "f": st.none() | st.floats(),
        "l": st.none() | st.lists(st.sampled_from(["x", "y"]), max_size=3),
    }
)


def presence(column: ColumnStatistics) -> tuple[object, ...]:
    counts = ("present", "missing", "min_values", "max_values", "num_values", "null_steps")
    return (*(getattr(column, name) for name in counts), column.type)


@hypothesis.given(
    st.lists(ROWS, max_size=12),
    st.sets(st.sampled_from(COLUMNS.names)),
    st.integers(0, 12),
    st.booleans(),
)
def test_the_other_columns_keep_their_presence(rows, chosen, cut, sliced):
    """Of columns that are not chosen, only presence is counted."""
    everything = StatisticsPlan(slice_by=("t",) if sliced else (), lists=("l",))
    plan = dataclasses.replace(everything, private=tuple(sorted({*COLUMNS.names} - chosen)))
    batch = pa.RecordBatch.from_pylist(rows, COLUMNS)
    found, full = (
        TableStatistics.merged(
            [TableStatistics.of(part, one) for part in (batch[:cut], batch[cut:])]
        )
        for one in (plan, everything)
    )
    found, stored = from_bytes(to_bytes(found, plan), "file")
    assert stored == plan
    assert found.rows == full.rows
    for name, column in full.columns.items():
        assert presence(found.columns[name]) == presence(column)
        assert found.columns[name].is_counted == (name in chosen)
    [kept], [all_] = (to_proto({"": table}).values() for table in (found, full))
    assert [dataset.name for dataset in kept.datasets] == [d.name for d in all_.datasets]
    for some, every in zip(kept.datasets, all_.datasets, strict=True):
        wanted = [
            f for f in every.features if name_of(tuple(f.path.step)) in (chosen | parents(chosen))
        ]
        # As bytes, because NaN does not equal NaN.
        assert [f.SerializeToString() for f in some.features] == [
            f.SerializeToString() for f in wanted
        ]


def parents(chosen: set[str]) -> set[str]:
    return {"##SEQUENCE##"} if "l" in chosen else set()


def test_a_schema_has_every_column() -> None:
    """Columns that are not counted have a type and no domain."""
    batch = pa.RecordBatch.from_pydict({"n": [0, 1, 1], "t": ["a", "b", None], "u": ["a"] * 3})
    table = TableStatistics.of(batch, StatisticsPlan(private=("n", "t")))
    expected = """
        feature { name: "n" type: INT presence { min_fraction: 1 min_count: 1 }
          shape { dim { size: 1 } } }
        feature { name: "t" type: BYTES presence { min_count: 1 } value_count { min: 1 max: 1 } }
        feature { name: "u" type: BYTES domain: "u" presence { min_fraction: 1 min_count: 1 }
          shape { dim { size: 1 } } }
        string_domain { name: "u" value: "a" }
    """
    schema = infer_schema({"train": table})
    assert schema == text_format.Parse(expected, schema_pb2.Schema())
    assert not find_anomalies({"train": table}, schema)["train"].reasons


def test_presence_is_validated_and_values_are_not() -> None:
    """Of a column that is not counted, presence is validated."""
    batch = pa.RecordBatch.from_pydict({"n": [5, None], "t": ["z", "z"]})
    table = TableStatistics.of(batch, StatisticsPlan(private=("n", "t")))
    schema = text_format.Parse(
        """
        feature { name: "n" type: INT presence { min_fraction: 1 } int_domain { max: 1 }
          unique_constraints { min: 9 } }
        feature { name: "t" type: FLOAT }
        """,
        schema_pb2.Schema(),
    )
    rows = describe(find_anomalies({"train": table}, schema))
    assert [(row.feature, row.type) for row in rows] == [
        ("n", "FEATURE_TYPE_LOW_FRACTION_PRESENT"),
        ("t", "UNEXPECTED_DATA_TYPE"),
    ]


def test_the_accumulators_of_all_columns_do_not_change() -> None:
    """Without the key, no word of it is stored."""
    table = TableStatistics.of(pa.RecordBatch.from_pydict({"n": [1]}))
    assert b"private" not in to_bytes(table, StatisticsPlan())
    assert b"is_counted" not in to_bytes(table, StatisticsPlan())
