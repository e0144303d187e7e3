"""Statistics of splits: accumulators over RecordBatches that merge, and the protos they become."""

from __future__ import annotations

from beam_pipelines.statistics.compute import ComputeStatistics
from beam_pipelines.statistics.plan import StatisticsPlan, plan_statistics
from beam_pipelines.statistics.proto import to_proto
from beam_pipelines.statistics.table import ColumnStatistics, TableStatistics

__all__ = [
    "ColumnStatistics",
    "ComputeStatistics",
    "StatisticsPlan",
    "TableStatistics",
    "plan_statistics",
    "to_proto",
]
