"""Reads the recipe's files that say what its data must be."""

from __future__ import annotations

from collections.abc import Collection

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.anomalies.policy import DEFAULT_POLICY, ValidationPolicy
from beam_pipelines.analysis.anomalies.validation_config import read_validation_config
from beam_pipelines.analysis.schema import read_schema
from beam_pipelines.core.errors import DataError, Problem, RecipeError, RecipeProblems
from beam_pipelines.core.schema_features import features_by_path, name_of
from beam_pipelines.storage import files


def read_contract(schema: str | None, directory: str) -> bytes | None:
    """Returns the recipe's schema, serialized; ``None`` if it has none.

    Args:
      schema: its path, or ``None``.
      directory: where relative paths start.

    Raises:
      RecipeProblems: it cannot be read.
    """
    if schema is None:
        return None
    try:
        return bytes(read_schema(files.resolve(schema, directory)).SerializeToString())
    except DataError as error:
        raise RecipeProblems([Problem(("schema",), str(error))]) from error


def read_policy(
    config: str | None, directory: str, contract: bytes | None, columns: Collection[str]
) -> ValidationPolicy:
    """Returns the recipe's severities of anomalies and conditions in SQL.

    Args:
      config: path of the recipe's file, or ``None``.
      directory: where relative paths start.
      contract: the recipe's schema, serialized, or ``None``.
      columns: names of the columns.

    Raises:
      RecipeProblems: the file cannot be read, or names something unknown.
    """
    if config is None:
        return DEFAULT_POLICY
    schema = schema_pb2.Schema.FromString(contract or b"")
    known = [*map(name_of, features_by_path(schema)), *columns]
    path = files.resolve(config, directory)
    try:
        read = read_validation_config(path, known, where="")
    except (DataError, RecipeError) as error:
        lines = str(error).split("\n")
        raise RecipeProblems([Problem(("validation_config",), line) for line in lines]) from error
    return ValidationPolicy(overrides=read.overrides, validations=read.validations)
