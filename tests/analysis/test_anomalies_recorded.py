"""The words for recorded anomalies: accepted or not, where."""

from __future__ import annotations

from tensorflow_metadata.proto.v0 import anomalies_pb2, path_pb2

from beam_pipelines.analysis.anomalies.table import recorded_anomalies

Info = anomalies_pb2.AnomalyInfo


def test_the_whole_split_comes_first_then_features_in_order() -> None:
    """A warning is an accepted anomaly; a place is a path."""
    anomalies = anomalies_pb2.Anomalies()
    anomalies.dataset_anomaly_info.short_description = "Too few rows"
    anomalies.dataset_anomaly_info.description = "2 rows."
    for name, severity in (("b", Info.ERROR), ("##SEQUENCE##.a", Info.WARNING)):
        info = anomalies.anomaly_info[name]
        info.path.CopyFrom(path_pb2.Path(step=name.split(".")))
        info.severity, info.short_description, info.description = severity, "Odd", "Why?"
    assert list(recorded_anomalies(anomalies)) == [
        ("anomaly", "the split", "Too few rows. 2 rows."),
        ("accepted", "feature '##SEQUENCE##.a'", "Odd. Why?"),
        ("anomaly", "feature 'b'", "Odd. Why?"),
    ]
