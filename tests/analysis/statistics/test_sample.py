"""Statistics of a sample of the rows: ``statistics: {sample: …}``."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2

from beam_pipelines.analysis.anomalies import describe, find_anomalies
from beam_pipelines.analysis.schema import infer_schema
from beam_pipelines.analysis.statistics.plan import StatisticsPlan
from beam_pipelines.analysis.statistics.proto import proto_of
from beam_pipelines.analysis.statistics.storage import from_bytes, to_bytes
from beam_pipelines.analysis.statistics.table import TableStatistics, sample_rows
from beam_pipelines.cli.main import run
from tests.analysis.statistics.support import VALUES_FOR_TYPE

COLUMNS = pa.schema(
    [
        ("w", pa.float64()),
        ("n", pa.int64()),
        ("t", pa.string()),
        ("f", pa.float64()),
        ("l", pa.list_(pa.string())),
        ("s", pa.list_(pa.list_(pa.int64()))),
    ]
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "w": st.floats(0, 9),
            "s": st.none() | st.lists(st.none() | st.lists(st.integers(0, 9), max_size=2)),
            **{
                name: st.none() | VALUES_FOR_TYPE[COLUMNS.field(name).type]
                for name in ("n", "t", "f", "l")
            },
        }
    ),
    max_size=15,
)


@given(st.floats(0.001, 1), st.tuples(st.integers(0, 1 << 40), st.integers(0, 9)))
def test_a_sample_has_its_share_of_the_rows(share: float, address: tuple[int, int]) -> None:
    """A share is met within five standard deviations.

    Larger samples contain smaller ones.
    """
    rows = 20_000
    chosen = sample_rows(share, address, rows)
    assert abs(chosen.sum() - share * rows) <= 5 * np.sqrt(rows * share * (1 - share)) + 1
    assert not (chosen & ~sample_rows(min(1, share * 1.5), address, rows)).any()
    assert (sample_rows(share, address, 100) == chosen[:100]).all()


def test_the_sample_never_changes() -> None:
    """Positions of a sample are those of every version and platform."""
    assert np.flatnonzero(sample_rows(0.1, (3, 1), 60)).tolist() == [
        2,
        5,
        11,
        21,
        31,
        44,
        49,
        55,
        57,
    ]
    assert sample_rows(1, (0, 0), 1000).all()


@settings(deadline=None, max_examples=40)
@given(ROWS, st.sampled_from([0.3, 0.7, 1.0]), st.booleans(), st.integers(0, 15))
def test_values_are_those_of_the_sample(rows, share, is_sliced, cut):
    """Presence is of all rows, values are of the sampled rows."""
    everything = StatisticsPlan("w", ("t",) if is_sliced else (), ("n",), ("s",))
    plan = dataclasses.replace(everything, sample=share)
    batch = pa.RecordBatch.from_pylist(rows, COLUMNS)
    parts = [batch[:cut], batch[cut:]]
    masks = [sample_rows(share, (number, 0), len(part)) for number, part in enumerate(parts)]
    found = TableStatistics.merged(
        [TableStatistics.of(part, plan, (number, 0)) for number, part in enumerate(parts)]
    )
    of_all, of_some = (
        TableStatistics.merged([TableStatistics.of(part, everything) for part in some])
        for some in (
            parts,
            [part.filter(pa.array(mask)) for part, mask in zip(parts, masks, strict=True)],
        )
    )
    expected = dataclasses.replace(
        with_values_of(of_all, of_some),
        slices={
            key: with_values_of(table, of_some.slices[key])
            if key in of_some.slices
            else found.slices[key]  # the sample has no row of the slice
            for key, table in of_all.slices.items()
        },
    )
    stored = to_bytes(found, plan)
    assert stored == to_bytes(expected, plan)
    assert to_bytes(*from_bytes(stored, "file")) == stored


def with_values_of(every: TableStatistics, some: TableStatistics) -> TableStatistics:
    """Returns statistics of all rows with the values of some rows."""
    columns = {
        name: dataclasses.replace(
            column,
            values=some.columns[name].values,
            categories=some.columns[name].categories,
            sampled=some.rows,
        )
        for name, column in every.columns.items()
    }
    return dataclasses.replace(every, columns=columns)


def sampled(values: dict[str, list[Any]], share: float = 0.1) -> TableStatistics:
    return TableStatistics.of(pa.RecordBatch.from_pydict(values), StatisticsPlan(sample=share))


def test_no_domain_is_inferred_from_a_sample() -> None:
    """Rows outside the sample may have other values; presence is known."""
    table = sampled({"t": ["a", "b"] * 50, "n": [0, 1] * 50, "i": ["1", "2"] * 49 + [None] * 2})
    schema = infer_schema({"train": table})
    present = "presence { min_fraction: 1 min_count: 1 } shape { dim { size: 1 } }"
    expected = f"""
        feature {{ name: "t" type: BYTES {present} }} feature {{ name: "n" type: INT {present} }}
        feature {{ name: "i" type: BYTES presence {{ min_count: 1 }} value_count {{ min: 1 max: 1 }} }}
    """
    assert schema == text_format.Parse(expected, schema_pb2.Schema())


def test_checks_of_a_sample() -> None:
    """Presence is checked in all rows, values in the sample.

    The number of distinct values is not checked.
    """
    table = sampled({"t": ["a"] * 99 + [None], "n": [7] * 100})
    schema = text_format.Parse(
        """
        feature { name: "t" type: BYTES presence { min_fraction: 1 } unique_constraints { min: 2 }
          string_domain { value: "b" } }
        feature { name: "n" type: INT int_domain { max: 5 } }
        """,
        schema_pb2.Schema(),
    )
    rows = describe(find_anomalies({"train": table}, schema))
    assert [(row.feature, row.type) for row in rows] == [
        ("t", "FEATURE_TYPE_LOW_FRACTION_PRESENT"),
        ("t", "ENUM_TYPE_UNEXPECTED_STRING_VALUES"),
        ("n", "INT_TYPE_BIG_INT"),
    ]
    assert "a (~100%)" in rows[1].found


@pytest.mark.parametrize("values", [["a"], [1], [0.5]])
def test_an_empty_sample_says_nothing_about_values(values: list[Any]) -> None:
    """Without values in the sample, there is no anomaly of values."""
    table = sampled({"x": values}, 1e-9)
    assert table.columns["x"].sampled == 0
    kind = {"a": "BYTES string_domain { value: 'b' }", 1: "INT int_domain { min: 5 }"}
    domain = kind.get(values[0], "FLOAT float_domain { min: 5 }")
    schema = text_format.Parse(f'feature {{ name: "x" type: {domain} }}', schema_pb2.Schema())
    assert not find_anomalies({"train": table}, schema)["train"].reasons


def test_a_proto_says_that_values_are_sampled() -> None:
    """Each feature has the number of rows whose values were counted."""
    features = proto_of(sampled({"t": ["a"] * 500, "n": [1] + [None] * 499})).features
    numbers = [(custom.name, custom.num) for f in features for custom in f.custom_stats]
    [(name, rows)] = set(numbers)
    assert name == "sampled_rows"
    assert 20 < rows < 90
    assert features[0].string_stats.common_stats.num_non_missing == 500
    assert features[0].string_stats.top_values[0].frequency == rows


@pytest.mark.end_to_end
def test_a_conversion_with_a_sample(tmp_path: Path) -> None:
    """Statistics of a sample are the same for any workers.

    A sparse tensor needs its size.
    """
    lines = "".join(f"{n % 2} {n % 50 + 1}:{n}\n" for n in range(3000))
    (tmp_path / "d.libsvm").write_text(lines)

    def convert(size: str, *options: str) -> int:
        (tmp_path / "r.yaml").write_text(
            f"name: d\nsources: {{d: {{path: d.libsvm, {size}}}}}\nstatistics: {{sample: 20%}}\n"
        )
        recipe, output = str(tmp_path / "r.yaml"), str(tmp_path / "out")
        return run(["convert", recipe, "--output", output, "--quiet", *options])

    assert convert("") == 2
    seen = []
    for workers in ("1", "2"):
        assert convert("libsvm: {size: 50}", "--overwrite", "--direct_num_workers", workers) == 0
        path = tmp_path / "out/statistics/Split-train/FeatureStats.pb"
        seen.append(path.read_bytes())
    assert seen[0] == seen[1]
    [dataset] = statistics_pb2.DatasetFeatureStatisticsList.FromString(seen[0]).datasets
    label = dataset.features[0].num_stats
    assert label.common_stats.num_non_missing == dataset.num_examples == 3000
    assert 480 < sum(bucket.sample_count for bucket in label.histograms[0].buckets) < 720
    manifest = json.loads((tmp_path / "out/dataset.json").read_text())
    assert manifest["recipe"]["statistics"]["sample"] == 0.2
