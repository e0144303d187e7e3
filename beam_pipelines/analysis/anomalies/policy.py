"""The validation policy, and the file that has severities and conditions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from tensorflow_metadata.proto.v0 import anomalies_pb2, path_pb2, schema_pb2, statistics_pb2

from beam_pipelines.analysis.anomalies.rules.custom import (
    CustomValidation,
    FeaturePlace,
    parse_validation,
)
from beam_pipelines.core.errors import RecipeError, nearest
from beam_pipelines.core.layout.schema_features import features_by_path, name_of
from beam_pipelines.sql.database import ExpressionError
from beam_pipelines.storage import files

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


_PACKAGE = "beam_pipelines.validation"
_METADATA = ".tensorflow.metadata.v0"
_PATH, _SEVERITY = f"{_METADATA}.Path", f"{_METADATA}.AnomalyInfo.Severity"
# Message -> field -> (number, type, whether it is repeated). A type with a dot is a message's or
# an enum's full name.
_MESSAGES: dict[str, dict[str, tuple[int, str, bool]]] = {
    "SeverityOverride": {
        "type": (1, f"{_METADATA}.AnomalyInfo.Type", False),
        "severity": (2, _SEVERITY, False),
        "feature_path": (3, _PATH, False),
    },
    "ValidationConfig": {
        "new_features_are_warnings": (1, "bool", False),
        "severity_overrides": (2, f".{_PACKAGE}.SeverityOverride", True),
        "feature_validations": (3, f".{_PACKAGE}.FeatureValidation", True),
        "feature_pair_validations": (4, f".{_PACKAGE}.FeaturePairValidation", True),
    },
    "FeatureValidation": {
        "dataset_name": (1, "string", False),
        "feature_path": (2, _PATH, False),
        "validations": (3, f".{_PACKAGE}.Validation", True),
    },
    "FeaturePairValidation": {
        "dataset_name": (1, "string", False),
        "base_dataset_name": (2, "string", False),
        "feature_test_path": (3, _PATH, False),
        "feature_base_path": (4, _PATH, False),
        "validations": (5, f".{_PACKAGE}.Validation", True),
    },
    "Validation": {
        "sql_expression": (1, "string", False),
        "severity": (2, _SEVERITY, False),
        "description": (3, "string", False),
        "in_environment": (4, "string", True),
    },
}
# Fields that a Validation must have, with examples.
_OF_VALIDATION = {
    "sql_expression": "'feature.num_stats.num_zeros < 3'",
    "severity": "ERROR",
    "description": "'Too many zeros.'",
}
_ENUMS = (f"{_METADATA}.AnomalyInfo.Type", _SEVERITY)

Info = anomalies_pb2.AnomalyInfo


class ValidationConfig(NamedTuple):
    """The content of a file.

    Attributes:
      overrides: severities of anomalies.
      validations: conditions on the statistics of features.
    """

    overrides: tuple[Override, ...] = ()
    validations: tuple[CustomValidation, ...] = ()


def read_validation_config(
    path: str, known: Sequence[str], where: str = "--validation_config "
) -> ValidationConfig:
    """Reads and checks a file.

    Args:
      path: of a validation config as text.
      known: names of the known features.
      where: the option before the path, for messages.

    Raises:
      RecipeError: the file is missing or is something else, or names an unknown feature, or a
        condition is not allowed; the message has one line for each problem.
    """
    config = _read(path, where)
    problems: list[str] = []
    read = ValidationConfig(
        tuple(_overrides(config, known, problems)), tuple(_validations(config, known, problems))
    )
    if problems:
        raise RecipeError("\n".join(f"{where}{path}, {line}" for line in problems))
    return read


def _overrides(config: Any, known: Sequence[str], problems: list[str]) -> Iterator[Override]:
    if config.new_features_are_warnings:
        yield Override(Info.SCHEMA_NEW_COLUMN, None)
    for index, override in enumerate(config.severity_overrides):
        where = f"severity_overrides[{index}]"
        _check_fields(
            override, {"type": "SCHEMA_NEW_COLUMN", "severity": "WARNING"}, where, problems
        )
        name = None
        if override.HasField("feature_path"):
            name = _known_feature(override.feature_path, known, where, problems)
        yield Override(override.type, name, override.severity)


def _validations(
    config: Any, known: Sequence[str], problems: list[str]
) -> Iterator[CustomValidation]:
    single, pair = config.feature_validations, config.feature_pair_validations
    for places, field, path in (
        (single, "feature_validations", "feature_path"),
        (pair, "feature_pair_validations", "feature_test_path"),
    ):
        for index, place in enumerate(places):
            where, base = f"{field}[{index}]", None
            needed = dict.fromkeys([path], '{ step: "x" }')
            if path == "feature_test_path":
                needed["feature_base_path"] = '{ step: "x" }'
                base = FeaturePlace(place.base_dataset_name, tuple(place.feature_base_path.step))
            _check_fields(place, needed, where, problems)
            steps = getattr(place, path)
            if place.HasField(path):
                _known_feature(steps, known, where, problems)
            test = FeaturePlace(place.dataset_name, tuple(steps.step))
            for number, validation in enumerate(place.validations):
                here = f"{where}.validations[{number}]"
                _check_fields(validation, _OF_VALIDATION, here, problems)
                try:
                    expression = parse_validation(validation.sql_expression, base is not None)
                except ExpressionError as error:
                    if validation.sql_expression:
                        problems.append(f"{here}: '{validation.sql_expression}': {error}.")
                    continue
                yield CustomValidation(
                    test,
                    base,
                    expression,
                    validation.severity,
                    validation.description,
                    tuple(validation.in_environment),
                )


def _check_fields(
    message: Any, examples: Mapping[str, str], where: str, problems: list[str]
) -> None:
    """Notes the fields that are missing or empty."""
    problems += [
        f"{where}: found no '{field}', expected one, for example '{field}: {example}'."
        for field, example in examples.items()
        if not message.HasField(field) or not getattr(message, field)
    ]


def _known_feature(
    path: path_pb2.Path, known: Sequence[str], where: str, problems: list[str]
) -> str:
    """Returns the name of a path's feature; notes an unknown one."""
    name = name_of(tuple(path.step))
    if name not in known:
        problems.append(
            f"{where}: found feature '{name}', expected a feature of the schema or a column."
            f"{nearest(name, known)}"
        )
    return name


def _read(path: str, where: str) -> Any:
    if not files.exists(path):
        raise RecipeError(
            f"{where}{path}: there is no such file, expected a validation config as text."
        )
    config = _message_class("ValidationConfig")()
    try:
        text_format.Parse(files.read_bytes(path).decode(), config)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise RecipeError(
            f"{where}{path}: {error} Expected a validation config as text, for "
            "example 'severity_overrides { type: SCHEMA_NEW_COLUMN severity: WARNING }'."
        ) from error
    return config


def _message_class(name: str) -> Any:
    """Returns the class of a message.

    The messages are declared on the first call.
    """
    pool = descriptor_pool.Default()
    file = f"{_PACKAGE.replace('.', '/')}.proto"
    try:
        pool.FindFileByName(file)
    except KeyError:
        pool.Add(_file(file))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


def _file(name: str) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name=name, package=_PACKAGE, syntax="proto2")
    file.dependency.extend([anomalies_pb2.DESCRIPTOR.name, path_pb2.DESCRIPTOR.name])
    kind = descriptor_pb2.FieldDescriptorProto
    for message, fields in _MESSAGES.items():
        declared = file.message_type.add(name=message)
        for field, (number, type_, is_repeated) in fields.items():
            added = declared.field.add(name=field, number=number)
            added.label = kind.LABEL_REPEATED if is_repeated else kind.LABEL_OPTIONAL
            if "." in type_:
                added.type = kind.TYPE_ENUM if type_ in _ENUMS else kind.TYPE_MESSAGE
                added.type_name = type_
            else:
                added.type = kind.Type.Value(f"TYPE_{type_.upper()}")
    return file
