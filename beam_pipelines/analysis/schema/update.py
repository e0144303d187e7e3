"""Widens schemas."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.anomalies.rules.feature import (
    feature_findings,
    is_required,
    is_retired,
)
from beam_pipelines.analysis.anomalies.rules.reason import Info, deprecate
from beam_pipelines.analysis.anomalies.rules.specification import corrected
from beam_pipelines.analysis.schema.infer import infer_features
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.analysis.statistics.view import views_of
from beam_pipelines.core.layout.schema_features import domains_of, features_by_path, name_of
from beam_pipelines.core.layout.tensor_representations import add_representations


def update_schema(
    schema: schema_pb2.Schema,
    statistics: Sequence[TableStatistics],
    applies: Callable[[int, str], bool] = lambda _type, _feature: True,
) -> schema_pb2.Schema:
    """Returns a schema against which the statistics' features have no anomaly.

    A required feature becomes DEPRECATED if a dataset lacks it or has another type. Environments,
    comparators, sparse features and constraints of the whole dataset stay unchanged. A new column
    gets the feature of ``infer_schema``, with a shape if it fits; TFDV gives it no shape.

    Args:
      schema: schema to widen; it is not changed.
      statistics: statistics of splits or datasets; those without rows are ignored.
      applies: given a type (``AnomalyInfo.Type``) and a feature, whether to widen for such an
        anomaly; by default always.
    """
    updated = schema_pb2.Schema()
    updated.CopyFrom(schema)
    tables = [table for table in statistics if table.rows]
    views = [*map(views_of, tables)]
    domains = domains_of(updated)
    for path, feature in features_by_path(updated).items():
        name = name_of(path)
        for view in views:
            if is_retired(feature):
                break
            column = view.get(path)
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
    known = features_by_path(updated)
    new = dict.fromkeys(path for view in views for path in view if path not in known)
    infer_features(
        [name_of(path) for path in new if applies(Info.SCHEMA_NEW_COLUMN, name_of(path))],
        tables,
        updated,
    )
    return add_representations(updated, schema)
