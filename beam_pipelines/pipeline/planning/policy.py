"""Makes validation policies from the choices of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.anomalies.policy import (
    DEFAULT_POLICY,
    ValidationPolicy,
    check_environment,
    parse_allowed,
)
from beam_pipelines.analysis.schema import read_schema
from beam_pipelines.analysis.statistics.datasets import read_statistics
from beam_pipelines.core.errors import DataError, Problem, RecipeError, RecipeProblems
from beam_pipelines.core.layout.schema_features import features_by_path, name_of
from beam_pipelines.files.beam import files
from beam_pipelines.pipeline.planning.plan import Plan


@dataclasses.dataclass(frozen=True)
class PolicyOptions:
    """The choices of a validation policy for one run.

    Attributes:
      environment: the schema's environment whose features are expected; ``None`` expects all.
      baseline: folder of an earlier dataset, or of its statistics; ``None`` compares with none.
      allow_anomalies: accepted anomalies, each ``TYPE`` or ``FEATURE:TYPE``.
    """

    environment: str | None = None
    baseline: str | None = None
    allow_anomalies: Sequence[str] = ()


def with_policy(plan: Plan, options: PolicyOptions) -> Plan:
    """Returns a plan with the chosen policy.

    Raises:
      RecipeError: an unknown name, or a comparison without a threshold in the schema.
    """
    schema = None if plan.contract is None else schema_pb2.Schema.FromString(plan.contract)
    where = plan.contract_path or "the recipe's 'schema'"
    policy = make_policy(options, schema, where, plan.split.schema.names, plan.policy)
    return dataclasses.replace(plan, validation=plan.validation._replace(policy=policy))


def make_policy(
    options: PolicyOptions,
    schema: schema_pb2.Schema | None,
    where: str,
    columns: Iterable[str],
    before: ValidationPolicy = DEFAULT_POLICY,
) -> ValidationPolicy:
    """Returns the chosen policy, checked against a schema.

    Args:
      options: the user's choice.
      schema: the expected schema; ``None`` if it will be inferred, so that nothing is compared.
      where: name of the schema, for messages.
      columns: of the data.
      before: the policy without the options: what the recipe accepts.

    Raises:
      RecipeError: as ``with_policy``.
    """
    environment, baseline = options.environment, options.baseline
    features = [] if schema is None else [*map(name_of, features_by_path(schema))]
    if environment is not None:
        if schema is None:
            raise RecipeError(
                f"--environment {environment}: found no schema to go by, expected 'schema' in the "
                "recipe. Name one."
            )
        check_environment(environment, schema, where)
    if baseline is not None:
        read_statistics(baseline)  # now, so that a wrong path is no error of the run's end
    allowed = parse_allowed(
        [name for names in options.allow_anomalies for name in names.split(",")],
        [*features, *columns],
    )
    return ValidationPolicy(
        environment,
        (*before.accepted, *allowed),
        baseline or "",
        baseline is not None and not (schema is not None and _has_drift_threshold(schema)),
    )


def _has_drift_threshold(schema: schema_pb2.Schema) -> bool:
    constraints = schema.dataset_constraints
    return constraints.HasField("num_examples_drift_comparator") or any(
        feature.HasField("drift_comparator") for feature in features_by_path(schema).values()
    )


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
    allowed: Sequence[str], contract: bytes | None, columns: Collection[str]
) -> ValidationPolicy:
    """Returns the policy of what the recipe accepts.

    Args:
      allowed: ``allow_anomalies`` of the recipe.
      contract: the recipe's schema, serialized, or ``None``.
      columns: names of the columns.

    Raises:
      RecipeProblems: it names something unknown.
    """
    schema = schema_pb2.Schema.FromString(contract or b"")
    known = [*map(name_of, features_by_path(schema)), *columns]
    try:
        return ValidationPolicy(accepted=parse_allowed(allowed, known, where=""))
    except RecipeError as error:
        lines = str(error).split("\n")
        raise RecipeProblems([Problem(("allow_anomalies",), line) for line in lines]) from error
