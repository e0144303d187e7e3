"""Widens a schema until statistics fit, as TFDV's ``update_schema`` does.

Fields that the data does not contradict stay unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.anomalies.rules.composite import composite_reasons, composites_of
from beam_pipelines.analysis.anomalies.rules.feature import (
    feature_findings,
    is_required,
    is_retired,
)
from beam_pipelines.analysis.anomalies.rules.reason import Info, deprecate
from beam_pipelines.analysis.anomalies.rules.specification import corrected
from beam_pipelines.analysis.schema.infer import infer_features
from beam_pipelines.analysis.statistics.view import Statistics, custom_statistics_of, view_of
from beam_pipelines.core.layout.schema_features import Steps, domains_of, features_by_path, name_of
from beam_pipelines.core.layout.tensor_representations import add_representations


def update_schema(
    schema: schema_pb2.Schema,
    statistics: Sequence[Statistics],
    applies: Callable[[int, str], bool] = lambda _type, _feature: True,
) -> schema_pb2.Schema:
    """Returns a schema against which the statistics' features have no anomaly.

    A required feature becomes DEPRECATED if a dataset lacks it or has another type, a sparse or
    weighted feature if its columns do not fit each other. Environments,
    comparators and constraints of the whole dataset stay unchanged. A new column gets the feature
    of ``infer_schema``, with a shape if it fits; TFDV gives it no shape.

    Args:
      schema: schema to widen; it is not changed.
      statistics: statistics of splits or datasets; those without rows are ignored.
      applies: given a type (``AnomalyInfo.Type``) and a feature, whether to widen for such an
        anomaly; by default always.
    """
    updated = schema_pb2.Schema()
    updated.CopyFrom(schema)
    views = [view for view in map(view_of, statistics) if view.rows]
    domains = domains_of(updated)
    # Structs whose features stay as they are.
    closed: set[Steps] = set()
    for path, feature in features_by_path(updated).items():
        name = name_of(path)
        for view in views:
            if is_retired(feature) or path[:-1] in closed:
                closed.add(path)
                break
            column = view.paths.get(path)
            required = is_required(feature, updated, None)
            if column is None and required and applies(Info.SCHEMA_MISSING_COLUMN, name):
                deprecate(feature, domains)
                break
            if column is not None:
                checked, findings = corrected(feature, domains)
                if not is_retired(checked):
                    findings += feature_findings(checked, column, domains, required)
                for finding in findings:
                    if applies(finding.type, name):
                        finding.widen(feature, domains)
                if is_retired(feature):
                    closed.add(path)
    _deprecate_composites(updated, statistics, applies)
    known = {*features_by_path(updated), *((name,) for name in composites_of(updated))}
    new = dict.fromkeys(path for view in views for path in view.paths if path not in known)
    infer_features(
        [
            name_of(path)
            for path in new
            if not any(path[:end] in closed for end in range(1, len(path)))
            and applies(Info.SCHEMA_NEW_COLUMN, name_of(path))
        ],
        views,
        updated,
    )
    return add_representations(updated, schema)


def _deprecate_composites(
    schema: schema_pb2.Schema,
    statistics: Sequence[Statistics],
    applies: Callable[[int, str], bool],
) -> None:
    """Deprecates sparse and weighted features with an anomaly.

    With a collision of names, every feature of the name is deprecated, as in TFDV.
    """
    names = {
        name
        for name, composite in composites_of(schema).items()
        for current in statistics
        if (view := view_of(current)).rows
        and ((custom := custom_statistics_of(current, name)) or name in view.features)
        and any(
            applies(reason.type, name) for reason in composite_reasons(composite, schema, custom)
        )
    }
    for feature in (*schema.feature, *schema.sparse_feature, *schema.weighted_feature):
        if feature.name in names:
            feature.lifecycle_stage = schema_pb2.DEPRECATED
