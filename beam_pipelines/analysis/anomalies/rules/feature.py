"""Applies all rules for one feature, in TFDV's order.

Some rules apply only if earlier ones found nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.anomalies.rules import presence
from beam_pipelines.analysis.anomalies.rules.domains import domain_findings
from beam_pipelines.analysis.anomalies.rules.reason import Reason
from beam_pipelines.analysis.statistics.view import FeatureView
from beam_pipelines.core.layout.schema_features import Domains

RETIRED_STAGES = (
    schema_pb2.PLANNED,
    schema_pb2.ALPHA,
    schema_pb2.DEPRECATED,
    schema_pb2.DEBUG_ONLY,
    schema_pb2.DISABLED,
)


def is_retired(feature: schema_pb2.Feature) -> bool:
    """Whether a feature is deprecated or its stage is not validated."""
    return bool(feature.deprecated) or feature.lifecycle_stage in RETIRED_STAGES


def is_in_environment(
    feature: schema_pb2.Feature, schema: schema_pb2.Schema, environment: str | None
) -> bool:
    """Whether a feature belongs to an environment; ``None`` contains every feature."""
    if environment is None or environment in feature.in_environment:
        return True
    return (
        environment not in feature.not_in_environment and environment in schema.default_environment
    )


def is_required(
    feature: schema_pb2.Feature, schema: schema_pb2.Schema, environment: str | None
) -> bool:
    """Whether a feature must be present in an environment."""
    presence = feature.presence
    return (presence.min_count > 0 or presence.min_fraction > 0) and is_in_environment(
        feature, schema, environment
    )


def feature_findings(
    feature: schema_pb2.Feature, view: FeatureView, domains: Domains, required: bool
) -> Iterator[Reason]:
    """Yields the findings about an active feature that has a column.

    Values are checked only if they are counted and of the schema's type.

    Args:
      feature: feature of the schema.
      view: statistics of the feature.
      domains: string domains of the schema.
      required: whether the feature must be present.
    """
    if not view.present:
        if required:
            yield presence.not_present()
        return
    yield from presence.valency_findings(feature, view)
    yield from presence.presence_findings(feature, view)
    wrong = list(presence.wrong_type(feature, view))
    yield from wrong
    if not wrong and view.is_counted:
        yield from domain_findings(feature, view, domains)
        if view.counted is None:  # a sample has fewer distinct values
            yield from presence.unique_findings(feature, view)
