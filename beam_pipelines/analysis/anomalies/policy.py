"""The validation policy: baselines, and the anomalies that a run accepts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2

from beam_pipelines.core.errors import RecipeError, nearest
from beam_pipelines.core.layout.schema_features import features_by_path

TYPE_NAMES = tuple(anomalies_pb2.AnomalyInfo.Type.keys())


class Accepted(NamedTuple):
    """A type of anomaly, accepted in one feature or (``None``) all."""

    type: int
    feature: str | None


@dataclasses.dataclass(frozen=True)
class ValidationPolicy:
    """The anomalies that a run looks for, and those that it accepts.

    Attributes:
      environment: environment of the schema whose features are expected; ``None`` for all features.
      accepted: anomalies that are warnings and do not stop the run.
      baseline: folder of an earlier dataset, or ``""``: no drift is checked.
      compares: whether the data are compared with the baseline as 'compare' does, because the
        schema has no thresholds of drift.
    """

    environment: str | None = None
    accepted: tuple[Accepted, ...] = ()
    baseline: str = ""
    compares: bool = False

    def accepts(self, type_: int, feature: str) -> bool:
        """Whether the run accepts an anomaly."""
        return not {(type_, feature), (type_, None)}.isdisjoint(self.accepted)


DEFAULT_POLICY = ValidationPolicy()


def parse_allowed(
    names: Iterable[str], features: Sequence[str], where: str = "--allow_anomalies "
) -> tuple[Accepted, ...]:
    """Parses names of anomalies, ``TYPE`` or ``FEATURE:TYPE``.

    Args:
      names: of the anomalies.
      features: names of the known features.
      where: the option before a name, for messages.

    Raises:
      RecipeError: a type or a feature is unknown; the message has one line for each.
    """
    allowed, problems = [], []
    for name in filter(None, map(str.strip, names)):
        feature, colon, type_name = name.rpartition(":")
        if type_name.upper() not in TYPE_NAMES:
            hint = nearest(type_name.upper(), TYPE_NAMES)
            problems.append(
                f"{where}{name}: found no type of an anomaly, expected one, such as "
                f"SCHEMA_NEW_COLUMN, or FEATURE:TYPE.{hint}"
            )
        elif colon and feature not in features:
            hint = nearest(feature, features)
            problems.append(
                f"{where}{name}: found '{feature}', expected a feature of the schema or "
                f"a column.{hint}"
            )
        else:
            type_ = anomalies_pb2.AnomalyInfo.Type.Value(type_name.upper())
            allowed.append(Accepted(type_, feature if colon else None))
    if problems:
        raise RecipeError("\n".join(problems))
    return tuple(allowed)


def environments_of(schema: schema_pb2.Schema) -> list[str]:
    """Returns all environments that a schema names, in order."""
    features = (
        name
        for feature in features_by_path(schema).values()
        for name in (*feature.in_environment, *feature.not_in_environment)
    )
    return list(dict.fromkeys([*schema.default_environment, *features]))


def check_environment(environment: str, schema: schema_pb2.Schema, where: str) -> None:
    """Checks that a schema names an environment.

    An unknown environment would expect no feature at all.

    Raises:
      RecipeError: it does not name it.
    """
    known = environments_of(schema)
    if environment not in known:
        named = (
            f"one of {', '.join(known)}"
            if known
            else "none, because the schema names no environment"
        )
        raise RecipeError(
            f"--environment {environment}: found an environment that {where} does not name, "
            f"expected {named}.{nearest(environment, known)}"
        )
