"""Widens a schema until statistics fit, as TFDV's ``update_schema`` does; what the data do not
contradict stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.rules.feature import feature_findings, is_required, is_retired
from beam_pipelines.analysis.rules.reason import Info, deprecate
from beam_pipelines.analysis.schema.infer import infer_features
from beam_pipelines.analysis.statistics.view import Statistics, view_of
from beam_pipelines.core.schema_features import domains_of, features_of


def update_schema(
    schema: schema_pb2.Schema,
    statistics: Sequence[Statistics],
    applies: Callable[[int, str], bool] = lambda _type, _feature: True,
) -> schema_pb2.Schema:
    """Returns a schema widened so that none of the statistics has an anomaly of a feature.

    A required feature that one of the datasets lacks becomes DEPRECATED, as does one of another
    type. Environments, comparators and everything about the dataset as a whole stay as they are. A
    new column gets the feature that ``infer_schema`` gives it, with a shape if it fits; TFDV gives
    it none.

    Args:
      schema: stays as it is.
      statistics: of splits or datasets; those without rows have no say.
      applies: whether to widen for an anomaly of a type (``AnomalyInfo.Type``) of a feature; by
        default for any.
    """
    updated = schema_pb2.Schema()
    updated.CopyFrom(schema)
    views = [view for view in map(view_of, statistics) if view.rows]
    domains = domains_of(updated)
    for feature in features_of(updated):
        for view in views:
            if is_retired(feature) or not feature.HasField("type"):
                break
            column = view.features.get(feature.name)
            required = is_required(feature, updated, None)
            if column is None and required and applies(Info.SCHEMA_MISSING_COLUMN, feature.name):
                deprecate(feature, domains)
            elif column is not None:
                for finding in list(feature_findings(feature, column, domains, required)):
                    if applies(finding.reason.type, feature.name):
                        finding.widen(feature, domains)
    known = {feature.name for feature in features_of(updated)}
    names = dict.fromkeys(name for view in views for name in view.features if name not in known)
    infer_features(
        [name for name in names if applies(Info.SCHEMA_NEW_COLUMN, name)], views, updated
    )
    return updated
