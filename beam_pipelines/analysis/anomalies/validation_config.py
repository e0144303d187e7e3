"""Reads TFDV's ``ValidationConfig`` from text: severities of anomalies.

The messages are TFDV's (tensorflow_data_validation/anomalies/proto), declared here because TFDV is
not a dependency. ``feature_path`` of a ``SeverityOverride`` is an addition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from tensorflow_metadata.proto.v0 import anomalies_pb2, path_pb2

from beam_pipelines.analysis.anomalies.policy import Override
from beam_pipelines.core import files
from beam_pipelines.core.errors import RecipeError, nearest
from beam_pipelines.core.schema_features import SEQUENCE

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
    },
}
_ENUMS = (f"{_METADATA}.AnomalyInfo.Type", _SEVERITY)

Info = anomalies_pb2.AnomalyInfo


def read_validation_config(path: str, known: Sequence[str]) -> tuple[Override, ...]:
    """Returns the severities of a file.

    Args:
      path: of a ``ValidationConfig`` as text.
      known: names of the known features.

    Raises:
      RecipeError: the file is missing or is something else, or names an unknown feature; the
        message has one line for each problem.
    """
    config = _read(path)
    overrides, problems = [], []
    if config.new_features_are_warnings:
        overrides.append(Override(Info.SCHEMA_NEW_COLUMN, None))
    for index, override in enumerate(config.severity_overrides):
        where = f"--validation_config {path}, severity_overrides[{index}]"
        name = feature_of(override.feature_path) if override.HasField("feature_path") else None
        problems += [
            f"{where}: found no '{field}', expected one, for example '{field}: {example}'."
            for field, example in (("type", "SCHEMA_NEW_COLUMN"), ("severity", "WARNING"))
            if not getattr(override, field)
        ]
        if name is not None and name not in known:
            problems.append(
                f"{where}: found feature '{name}', expected a feature of the schema or a column."
                f"{nearest(name, known)}"
            )
        overrides.append(Override(override.type, name, override.severity))
    if problems:
        raise RecipeError("\n".join(problems))
    return tuple(overrides)


def feature_of(path: path_pb2.Path) -> str:
    """Returns the name of a path's feature; the name of a feature list is its own."""
    steps = list(path.step)
    return ".".join(steps[1:] if len(steps) == 2 and steps[0] == SEQUENCE else steps)


def _read(path: str) -> Any:
    if not files.exists(path):
        raise RecipeError(
            f"--validation_config {path}: there is no such file, expected a ValidationConfig as "
            "text."
        )
    config = _message_class("ValidationConfig")()
    try:
        text_format.Parse(files.read_bytes(path).decode(), config)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise RecipeError(
            f"--validation_config {path}: {error} Expected a ValidationConfig as text, for example "
            "'severity_overrides { type: SCHEMA_NEW_COLUMN severity: WARNING }'."
        ) from error
    return config


def _message_class(name: str) -> Any:
    """Returns the class of a message; the messages are declared on the first call."""
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
