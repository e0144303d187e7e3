"""Finds the rows that cause an anomaly, by the same rules."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.anomalies.rules import texts
from beam_pipelines.analysis.anomalies.rules.domains import domain_values, in_domain, truth_values
from beam_pipelines.analysis.anomalies.rules.reason import Info
from beam_pipelines.analysis.statistics.column import as_numbers, is_text
from beam_pipelines.core.arrow.columns import has_lists_as_steps
from beam_pipelines.core.layout.schema_features import Domains

_MISSING = (Info.FEATURE_TYPE_LOW_FRACTION_PRESENT, Info.FEATURE_TYPE_LOW_NUMBER_PRESENT)


def can_blame_rows(type_: int) -> bool:
    """Whether single rows, rather than the whole data, cause an anomaly."""
    return type_ in _MISSING or type_ in _BAD_LENGTHS or type_ in _BAD_VALUES


def offending_rows(
    array: pa.Array, type_: int, feature: schema_pb2.Feature, domains: Domains
) -> texts.Mask:
    """Returns bool[n]: whether each row of a column causes an anomaly.

    Args:
      array: the column, of a column type.
      type_: ``AnomalyInfo.Type`` for which ``can_blame_rows`` is true.
      feature: feature of the schema.
      domains: string domains of the schema.
    """
    missing: texts.Mask = array.is_null().to_numpy(zero_copy_only=False)
    if type_ in _MISSING:
        return missing
    if type_ in _BAD_LENGTHS:
        if feature.value_counts.value_count or has_lists_as_steps(array.type):
            return np.zeros(len(array), bool)  # those of steps are not looked for
        lengths = np.ones(len(array), np.int64)
        if pa.types.is_list(array.type):
            lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
        is_shape = type_ == Info.INVALID_FEATURE_SHAPE
        bad_lengths: texts.Mask = np.where(
            missing, is_shape, _BAD_LENGTHS[type_](lengths, feature)
        ).astype(bool)
        return bad_lengths
    bad = np.zeros(len(array), bool)
    rows = np.flatnonzero(~missing)
    items = array.drop_null()
    while pa.types.is_list(items.type):
        items, rows = items.drop_null(), rows[items.is_valid().to_numpy(zero_copy_only=False)]
        rows = np.repeat(rows, pc.list_value_length(items).to_numpy(zero_copy_only=False))
        items = items.flatten()
    if items.null_count:  # missing steps of a sequence
        rows, items = rows[items.is_valid().to_numpy(zero_copy_only=False)], items.drop_null()
    bad[rows[_bad_values(items, type_, feature, domains)]] = True
    return bad


def _bad_values(
    items: pa.Array, type_: int, feature: schema_pb2.Feature, domains: Domains
) -> texts.Mask:
    """Returns bool[n] for values without nulls, checking each distinct value once."""
    if not len(items):
        return np.zeros(0, bool)
    encoded = (items if is_text(items.type) else as_numbers(items)).dictionary_encode()
    distinct = encoded.dictionary
    values: Any = distinct if is_text(distinct.type) else distinct.to_numpy(zero_copy_only=False)
    bad: texts.Mask = np.asarray(_BAD_VALUES[type_](values, feature, domains), bool)
    of_items: texts.Mask = bad[encoded.indices.to_numpy()]
    return of_items


def _outside(bound: str, is_beyond: Callable[[Any, Any], Any], domain: str) -> Callable[..., Any]:
    def find(values: Any, feature: schema_pb2.Feature, _: Domains) -> Any:
        limit = getattr(getattr(feature, domain), bound)
        if domain == "float_domain":
            return is_beyond(_as_float32(values), np.float32(limit))
        if isinstance(values, pa.Array):
            values = texts.integers(values).fill_null(limit).to_numpy()
        return is_beyond(values, limit)

    return find


def _as_float32(values: Any) -> Any:
    """Returns float32[n]; NaN for a text that is no number."""
    if not isinstance(values, pa.Array):
        with np.errstate(over="ignore"):
            return values.astype(np.float32)
    good = texts.are_floats(values)
    numbers = np.full(len(values), np.nan, np.float32)
    numbers[good] = texts.floats(values.filter(pa.array(good)))
    return numbers


def _is_nan(values: Any, _: schema_pb2.Feature, __: Domains) -> Any:
    if isinstance(values, pa.Array):
        return texts.are_floats(values) & np.isnan(_as_float32(values))
    return np.isnan(values)


def _not_in(allowed: Callable[[schema_pb2.Feature, Domains], list[str]]) -> Callable[..., Any]:
    return lambda values, feature, domains: ~in_domain(values, allowed(feature, domains))


def _size(feature: schema_pb2.Feature) -> int:
    return math.prod(dimension.size for dimension in feature.shape.dim)


_BAD_LENGTHS: dict[int, Callable[[Any, schema_pb2.Feature], Any]] = {
    Info.FEATURE_TYPE_LOW_NUMBER_VALUES: lambda lengths, feature: lengths < feature.value_count.min,
    Info.FEATURE_TYPE_HIGH_NUMBER_VALUES: lambda lengths, feature: (
        lengths > feature.value_count.max
    ),
    Info.INVALID_FEATURE_SHAPE: lambda lengths, feature: lengths != _size(feature),
}
_BAD_VALUES: dict[int, Callable[..., Any]] = {
    Info.INT_TYPE_SMALL_INT: _outside("min", np.less, "int_domain"),
    Info.INT_TYPE_BIG_INT: _outside("max", np.greater, "int_domain"),
    Info.INT_TYPE_NOT_INT_STRING: lambda values, _, __: ~texts.are_integers(values),
    Info.FLOAT_TYPE_SMALL_FLOAT: _outside("min", np.less, "float_domain"),
    Info.FLOAT_TYPE_BIG_FLOAT: _outside("max", np.greater, "float_domain"),
    Info.FLOAT_TYPE_STRING_NOT_FLOAT: lambda values, _, __: ~texts.are_floats(values),
    Info.FLOAT_TYPE_HAS_NAN: _is_nan,
    Info.FLOAT_TYPE_HAS_INF: lambda values, _, __: np.isinf(_as_float32(values)),
    Info.BOOL_TYPE_SMALL_INT: lambda values, _, __: (values != 0) & (values != 1),
    Info.BOOL_TYPE_BIG_INT: lambda values, _, __: (values != 0) & (values != 1),
    Info.BOOL_TYPE_UNEXPECTED_FLOAT: lambda values, _, __: (values != 0) & (values != 1),
    Info.BOOL_TYPE_UNEXPECTED_STRING: _not_in(lambda feature, _: truth_values(feature.bool_domain)),
    Info.ENUM_TYPE_UNEXPECTED_STRING_VALUES: _not_in(domain_values),
}
