"""Anomalies: statistics compared with a schema, an earlier dataset and other splits, by the rules
of ``anomaly_rules``.
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
