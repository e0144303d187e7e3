"""Results of rules: reasons, with the schema changes that remove them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2

from beam_pipelines.core.layout.schema_features import Domains

Info = anomalies_pb2.AnomalyInfo
# Changes a feature, given with the string domains of its schema.
Widen: TypeAlias = Callable[[schema_pb2.Feature, Domains], None]


def clear(*path: str) -> Widen:
    """Returns the change that clears a field."""
    return functools.partial(_clear, path)


def assign(value: Any, *path: str) -> Widen:
    """Returns the change that sets a field."""
    return functools.partial(_assign, value, path)


def _clear(path: tuple[str, ...], feature: schema_pb2.Feature, _: Domains) -> None:
    functools.reduce(getattr, path[:-1], feature).ClearField(path[-1])


def _assign(value: Any, path: tuple[str, ...], feature: schema_pb2.Feature, _: Domains) -> None:
    setattr(functools.reduce(getattr, path[:-1], feature), path[-1], value)


def _keep(feature: schema_pb2.Feature, domains: Domains) -> None:
    """Changes nothing."""


# Excludes a feature from validation, as TFDV does if widening cannot help.
deprecate = assign(schema_pb2.DEPRECATED, "lifecycle_stage")


class Reason(NamedTuple):
    """A reason for an anomaly of a feature or a split.

    Attributes:
      type: ``AnomalyInfo.Type``.
      short: TFDV's short description.
      description: a sentence.
      expected, found: texts for a table.
      widen: the change that TFDV's ``update_schema`` makes so that the reason no longer applies.
      is_accepted: whether the run accepts it: a WARNING then, else an ERROR, as in TFDV.
    """

    type: int
    short: str
    description: str
    expected: str
    found: str
    widen: Widen = _keep
    is_accepted: bool = False


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
