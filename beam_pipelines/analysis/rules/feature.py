"""All rules about one feature, in TFDV's order: which apply depends on what was found before."""

from __future__ import annotations

from collections.abc import Iterator

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.rules.domains import domain_findings
from beam_pipelines.analysis.rules.presence import (
    not_present,
    presence_findings,
    unique_findings,
    valency_findings,
    wrong_type,
)
from beam_pipelines.analysis.rules.reason import Finding
from beam_pipelines.analysis.statistics.view import FeatureView
from beam_pipelines.core.schema_features import Domains

_RETIRED_STAGES = (
    schema_pb2.PLANNED,
    schema_pb2.ALPHA,
    schema_pb2.DEPRECATED,
    schema_pb2.DEBUG_ONLY,
    schema_pb2.DISABLED,
)


def is_retired(feature: schema_pb2.Feature) -> bool:
    """Whether a feature is not to be checked."""
    return bool(feature.deprecated) or feature.lifecycle_stage in _RETIRED_STAGES


def is_in_environment(
    feature: schema_pb2.Feature, schema: schema_pb2.Schema, environment: str | None
) -> bool:
    """Whether a feature belongs to an environment. Without one, every feature does."""
    if environment is None or environment in feature.in_environment:
        return True
    return (
        environment not in feature.not_in_environment and environment in schema.default_environment
    )


def is_required(
    feature: schema_pb2.Feature, schema: schema_pb2.Schema, environment: str | None
) -> bool:
    """Whether a feature has to be there."""
    presence = feature.presence
    return (presence.min_count > 0 or presence.min_fraction > 0) and is_in_environment(
        feature, schema, environment
    )


def feature_findings(
    feature: schema_pb2.Feature, view: FeatureView, domains: Domains, required: bool
) -> Iterator[Finding]:
    """Yields what is wrong with a feature that has a column and is not retired.

    Values are looked at only if they are of the schema's type.

    Args:
      feature: of the schema.
      view: its statistics.
      domains: the schema's string domains.
      required: whether the feature has to be there.
    """
    if not view.present:
        if required:
            yield not_present()
        return
    yield from valency_findings(feature, view)
    yield from presence_findings(feature, view)
    wrong = list(wrong_type(feature, view))
    yield from wrong
    if not wrong:
        yield from domain_findings(feature, view, domains)
        yield from unique_findings(feature, view)
