"""Words for the anomalies that a dataset or a description records."""

from __future__ import annotations

from collections.abc import Iterator

from tensorflow_metadata.proto.v0 import anomalies_pb2

from beam_pipelines.analysis.anomalies.find import DATASET
from beam_pipelines.analysis.anomalies.policy import ValidationPolicy
from beam_pipelines.core.schema_features import name_of


def recorded_anomalies(
    anomalies: anomalies_pb2.Anomalies, policy: ValidationPolicy
) -> Iterator[tuple[str, str, str]]:
    """Yields severity, place and text of each anomaly of a split.

    The whole split precedes its features, which are in order. The severity is a word: ``anomaly``
    for an ERROR, ``accepted`` for a WARNING that the policy accepts, ``warning`` for any other.

    Args:
      anomalies: of one split.
      policy: of the run that found them.
    """
    if anomalies.HasField("dataset_anomaly_info"):
        info = anomalies.dataset_anomaly_info
        yield _severity(info, DATASET, policy), "the split", _text(info)
    for path, info in sorted(anomalies.anomaly_info.items()):
        steps = tuple(info.path.step) or (path,)
        yield _severity(info, name_of(steps), policy), f"feature '{'.'.join(steps)}'", _text(info)


def _severity(info: anomalies_pb2.AnomalyInfo, name: str, policy: ValidationPolicy) -> str:
    if info.severity != anomalies_pb2.AnomalyInfo.WARNING:
        return "anomaly"
    accepted = all(policy.accepts(reason.type, name) for reason in info.reason)
    return "accepted" if accepted else "warning"


def _text(info: anomalies_pb2.AnomalyInfo) -> str:
    # The short description of a condition in SQL is its author's, often a sentence.
    short = info.short_description
    return f"{short}{'' if short.endswith(('.', '!', '?')) else '.'} {info.description}".strip()
