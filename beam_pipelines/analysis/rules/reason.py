"""What a rule finds: a reason for an anomaly, and how the schema would have to change for it to be
none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2

from beam_pipelines.core.schema_features import Domains

Info = anomalies_pb2.AnomalyInfo


class Reason(NamedTuple):
    """One thing that is wrong with a feature.

    Attributes:
      type: ``AnomalyInfo.Type``.
      short: TFDV's short description.
      description: a sentence.
      expected, found: for a table.
      severity: ``AnomalyInfo.Severity``: ERROR, as in TFDV, or WARNING when the user has accepted
        it.
    """

    type: int
    short: str
    description: str
    expected: str
    found: str
    severity: int = Info.ERROR


class Finding(NamedTuple):
    """A reason, and what TFDV's ``update_schema`` does about it.

    Attributes:
      reason: what is wrong.
      widen: changes a feature (the string domains of its schema are given as well) so that it is no
        longer wrong.
    """

    reason: Reason
    widen: Callable[[schema_pb2.Feature, Domains], None]


def deprecate(feature: schema_pb2.Feature, _: Domains) -> None:
    """Takes a feature out of validation, as TFDV does when there is no way to widen it."""
    feature.lifecycle_stage = schema_pb2.DEPRECATED


def clear_domain(feature: schema_pb2.Feature, _: Domains) -> None:
    """Removes whatever restricts the values."""
    kind = feature.WhichOneof("domain_info")
    if kind is not None:
        feature.ClearField(kind)


def number_text(value: float) -> str:
    """Returns whole numbers in full, others with up to six significant digits, as TFDV does."""
    return str(value) if isinstance(value, int) else f"{value:.6g}"
