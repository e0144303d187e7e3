"""The words for recorded anomalies: accepted, warning, full stops."""

from __future__ import annotations

import pytest
from tensorflow_metadata.proto.v0 import anomalies_pb2, path_pb2

from beam_pipelines.analysis.anomalies.policy import Override, ValidationPolicy, parse_allowed
from beam_pipelines.analysis.anomalies.table import recorded_anomalies

Info = anomalies_pb2.AnomalyInfo
BIG, NEW = Info.INT_TYPE_BIG_INT, Info.SCHEMA_NEW_COLUMN


@pytest.mark.parametrize(
    ("severity", "types", "allowed", "word"),
    [
        (Info.ERROR, [BIG], "", "anomaly"),
        (Info.ERROR, [BIG, NEW], "x:INT_TYPE_BIG_INT", "anomaly"),
        (Info.WARNING, [BIG], "x:INT_TYPE_BIG_INT", "accepted"),
        (Info.WARNING, [BIG, NEW], "INT_TYPE_BIG_INT,SCHEMA_NEW_COLUMN", "accepted"),
        (Info.WARNING, [BIG, NEW], "INT_TYPE_BIG_INT", "warning"),
        (Info.WARNING, [BIG], "y:INT_TYPE_BIG_INT", "warning"),
        (Info.WARNING, [BIG], "", "warning"),
    ],
)
def test_only_what_a_run_accepts_is_accepted(severity, types, allowed, word):
    """Warnings of severity files and of conditions are warnings."""
    anomalies = anomalies_pb2.Anomalies()
    info = anomalies.anomaly_info["##SEQUENCE##.x"]
    info.path.CopyFrom(path_pb2.Path(step=["##SEQUENCE##", "x"]))
    info.severity = severity
    for kind in types:
        info.reason.add(type=kind)
    policy = ValidationPolicy(
        overrides=(Override(BIG, None), Override(NEW, None), *parse_allowed(allowed, None))
    )
    [(found, where, _)] = recorded_anomalies(anomalies, policy)
    assert (found, where) == (word, "feature '##SEQUENCE##.x'")


def test_a_description_that_is_a_sentence_gets_no_second_full_stop() -> None:
    """The whole split comes first, then features in order."""
    anomalies = anomalies_pb2.Anomalies()
    anomalies.dataset_anomaly_info.short_description = "Too few rows"
    anomalies.dataset_anomaly_info.description = "2 rows."
    anomalies.anomaly_info["b"].short_description = "Odd."
    anomalies.anomaly_info["b"].description = "Query: x"
    anomalies.anomaly_info["a"].short_description = "Why?"
    assert [text for *_, text in recorded_anomalies(anomalies, ValidationPolicy())] == [
        "Too few rows. 2 rows.",
        "Why?",
        "Odd. Query: x",
    ]
