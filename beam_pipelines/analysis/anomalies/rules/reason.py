"""Results of rules: a reason, and a schema change that removes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2

from beam_pipelines.core.layout.schema_features import Domains

Info = anomalies_pb2.AnomalyInfo


class Reason(NamedTuple):
    """A reason for an anomaly of a feature or a split.

    Attributes:
      type: ``AnomalyInfo.Type``.
      short: TFDV's short description.
      description: a sentence.
      expected, found: texts for a table.
      severity: ``AnomalyInfo.Severity``: ERROR, as in TFDV, or WARNING if the policy says so.
      is_accepted: whether the run accepts it.
    """

    type: int
    short: str
    description: str
    expected: str
    found: str
    severity: int = Info.ERROR
    is_accepted: bool = False


class ReasonFound(NamedTuple):
    """A reason, and the change that TFDV's ``update_schema`` makes for it.

    Attributes:
      reason: reason for the anomaly.
      widen: changes a feature, given with the string domains of its schema, so that the reason
        no longer applies.
    """

    reason: Reason
    widen: Callable[[schema_pb2.Feature, Domains], None]


def deprecate(feature: schema_pb2.Feature, _: Domains) -> None:
    """Excludes a feature from validation, as TFDV does if widening cannot help."""
    feature.lifecycle_stage = schema_pb2.DEPRECATED


def clear_domain(feature: schema_pb2.Feature, _: Domains) -> None:
    """Removes the domain of a feature, and constraints that need one."""
    kind = feature.WhichOneof("domain_info")
    if kind is not None:
        feature.ClearField(kind)
    feature.ClearField("distribution_constraints")


def number_text(value: float) -> str:
    """Returns a number as text, as TFDV prints it.

    Whole numbers are in full; others have up to six significant digits.
    """
    return str(value) if isinstance(value, int) else f"{value:.6g}"
