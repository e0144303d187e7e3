"""Compares statistics with a schema, a baseline and other splits.

The rules are in ``analysis.anomalies.rules``.
"""

from __future__ import annotations

from beam_pipelines.analysis.anomalies.find import (
    Row,
    SplitAnomalies,
    anomalies_to_proto,
    describe,
    find_anomalies,
)

__all__ = ["Row", "SplitAnomalies", "anomalies_to_proto", "describe", "find_anomalies"]
