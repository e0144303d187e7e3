"""The memory of all columns is independent of their number.

It is also independent of the rows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from beam_pipelines.analysis.statistics import TableStatistics
from beam_pipelines.analysis.statistics.limits import BYTES_PER_TEXT, TABLE_BYTES, ColumnLimits


@pytest.mark.parametrize("columns", [1, 8, 9, 40, 512, 2000, 5000])
def test_columns_share_one_budget(columns: int) -> None:
    """Up to 5,000 full columns stay within the limit of a table."""
    limits = ColumnLimits.of_columns(columns)
    assert limits.text_bytes * columns <= TABLE_BYTES
    assert (limits.kept_bytes + 8 * limits.hashes) * columns <= TABLE_BYTES
    assert 16 * limits.numbers * columns <= TABLE_BYTES
    assert 700 < limits.points <= limits.numbers // 2


def test_more_columns_hold_less_each() -> None:
    """A table of many columns makes sketches earlier and keeps its share."""
    generator = np.random.default_rng(1)
    limits = ColumnLimits.of_columns(2000)
    tables: list[TableStatistics] = []
    for _ in range(6):
        numbers = generator.integers(0, 1 << 62, 3000)
        columns = {f"t{i}": pa.array([""] * 3000) for i in range(1998)}
        batch = pa.record_batch({"f": numbers / 7, "t": numbers.astype(str), **columns})
        table = TableStatistics.merged([*tables, TableStatistics.of(batch)])
        tables = [table]
    texts, values = table.columns["t"].values, table.columns["f"].values
    assert not texts.exact
    assert not values.exact
    assert len(values.values) <= limits.numbers < 6 * 3000
    assert (
        sum(map(len, texts.values.to_pylist())) + BYTES_PER_TEXT * len(texts.values)
        <= limits.kept_bytes
    )
    assert texts.distinct == pytest.approx(18_000, rel=0.1)
    assert values.distribution.rank_error < 0.005
