"""The validation policy: environment, earlier datasets and severities of anomalies."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2, statistics_pb2

from beam_pipelines.analysis.anomalies.rules.custom import CustomValidation
from beam_pipelines.core.errors import RecipeError, nearest
from beam_pipelines.core.layout.schema_features import features_by_path

_ERROR: int = anomalies_pb2.AnomalyInfo.ERROR
TYPE_NAMES = tuple(anomalies_pb2.AnomalyInfo.Type.keys())


class Override(NamedTuple):
    """Severity of a type of anomaly in one feature, or (``None``) all.

    ``is_accepted`` tells anomalies that a run accepts from those that a file calls warnings.
    """

    type: int
    feature: str | None
    severity: int = anomalies_pb2.AnomalyInfo.WARNING
    is_accepted: bool = False


@dataclasses.dataclass(frozen=True)
class ValidationPolicy:
    """The anomalies that a run looks for, and those that it accepts.

    Attributes:
      environment: environment of the schema whose features are expected; ``None`` for all features.
      baseline: split name -> statistics of an earlier dataset; ``None`` checks no drift.
      overrides: severities other than the default. One for a feature goes before one for all
        features; among equals the last one counts. A WARNING does not stop the run.
      baseline_path: path of the baseline, or ``""``.
      previous_version: split name -> number of rows of an earlier version of the same data;
        ``None`` compares with none.
      previous_version_path: path of the previous version, or ``""``.
      validations: conditions on the statistics of features.
      compares: whether the data are compared with the baseline as 'compare' does, because the
        schema has no thresholds of drift.
    """

    environment: str | None = None
    baseline: Mapping[str, statistics_pb2.DatasetFeatureStatistics] | None = None
    overrides: tuple[Override, ...] = ()
    baseline_path: str = ""
    previous_version: Mapping[str, int] | None = None
    previous_version_path: str = ""
    validations: tuple[CustomValidation, ...] = ()
    compares: bool = False

    def severity(self, type_: int, feature: str, default: int = _ERROR) -> int:
        """Returns the ``AnomalyInfo.Severity`` of an anomaly."""
        override = self._override(type_, feature)
        return default if override is None else override.severity

    def allows(self, type_: int, feature: str) -> bool:
        """Whether an anomaly does not stop the run."""
        return bool(self.severity(type_, feature) != _ERROR)

    def accepts(self, type_: int, feature: str) -> bool:
        """Whether the run itself accepts an anomaly."""
        override = self._override(type_, feature)
        return override is not None and override.is_accepted

    def _override(self, type_: int, feature: str) -> Override | None:
        for wanted in (feature, None):
            for override in reversed(self.overrides):
                if (override.type, override.feature) == (type_, wanted):
                    return override
        return None


DEFAULT_POLICY = ValidationPolicy()


def parse_allowed(names: str, features: Iterable[str] | None) -> tuple[Override, ...]:
    """Parses ``TYPE,FEATURE:TYPE,…``.

    Args:
      names: value of ``--allow_anomalies``. A feature's name may contain colons but no comma.
      features: names of the known features; ``None`` if any feature may be named.

    Raises:
      RecipeError: a type or a feature is unknown; the message has one line for each.
    """
    known = None if features is None else list(features)
    allowed, problems = [], []
    for name in filter(None, (part.strip() for part in names.split(","))):
        feature, colon, type_name = name.rpartition(":")
        if type_name.upper() not in TYPE_NAMES:
            hint = nearest(type_name.upper(), TYPE_NAMES)
            problems.append(
                f"--allow_anomalies {name}: found '{type_name}', expected the type of an anomaly, "
                "such as "
                f"SCHEMA_NEW_COLUMN, or FEATURE:TYPE.{hint}"
            )
        elif colon and known is not None and feature not in known:
            hint = nearest(feature, known)
            problems.append(
                f"--allow_anomalies {name}: found '{feature}', expected a feature of the schema or "
                f"a column.{hint}"
            )
        else:
            allowed.append(
                Override(
                    anomalies_pb2.AnomalyInfo.Type.Value(type_name.upper()),
                    feature if colon else None,
                    is_accepted=True,
                )
            )
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
            f"expected {named}."
            f"{nearest(environment, known)}"
        )
