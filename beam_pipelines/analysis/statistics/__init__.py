"""Statistics of splits: accumulators that merge, and the protos they become.

Accumulators are computed from RecordBatches.
"""

from __future__ import annotations

from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.plan import StatisticsPlan, plan_statistics
from beam_pipelines.analysis.statistics.proto import to_proto
from beam_pipelines.analysis.statistics.table import TableStatistics

__all__ = ["ColumnStatistics", "StatisticsPlan", "TableStatistics", "plan_statistics", "to_proto"]
