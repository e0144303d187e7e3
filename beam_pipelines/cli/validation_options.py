"""The options of every command that looks at data for anomalies: ``--environment``, ``--baseline``,
``--allow_anomalies``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from beam_pipelines.core.errors import RecipeError

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2

    from beam_pipelines.analysis.anomalies.policy import ValidationPolicy
    from beam_pipelines.pipeline.plan import Plan

Command = TypeVar("Command", bound=Any)


def policy_options(command: Command) -> Command:
    """Adds the options to a command; ``gated`` and ``make_policy`` find them in the context."""
    for option in (
        click.option(
            "--allow_anomalies",
            metavar="NAMES",
            multiple=True,
            expose_value=False,
            callback=_remember,
            help="Accept anomalies: TYPE or FEATURE:TYPE, separated by commas. They are recorded "
            "as warnings.",
        ),
        click.option(
            "--baseline",
            metavar="DATASET",
            expose_value=False,
            callback=_remember,
            help="Earlier dataset (or its statistics), from which the data may drift as far as the "
            "schema allows.",
        ),
        click.option(
            "--environment",
            metavar="NAME",
            expose_value=False,
            callback=_remember,
            help="Environment of the schema whose features are expected; default: all features.",
        ),
    ):
        command = option(command)
    return command


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    context.meta[f"{__name__}.{parameter.name}"] = value


def with_policy(plan: Plan, context: click.Context) -> Plan:
    """Returns a plan with what the command line says about its gate; a baseline that the plan has
    gives way to another.

    Raises:
      RecipeError: a name that there is not, or a comparison that the schema says nothing about.
    """
    from tensorflow_metadata.proto.v0 import schema_pb2

    contract = None if plan.contract is None else schema_pb2.Schema.FromString(plan.contract)
    where = plan.contract_path or "the recipe's 'schema'"
    policy = make_policy(context, contract, where, plan.split.schema.names)
    if policy.baseline is None:
        policy = dataclasses.replace(
            policy, baseline=plan.policy.baseline, baseline_path=plan.policy.baseline_path
        )
    return dataclasses.replace(
        plan, policy=dataclasses.replace(policy, allowed=(*plan.policy.allowed, *policy.allowed))
    )


def make_policy(
    context: click.Context, schema: schema_pb2.Schema | None, where: str, columns: Iterable[str]
) -> ValidationPolicy:
    """Returns what the command line says, checked against a schema.

    Args:
      context: of a command with ``policy_options``.
      schema: what is expected; ``None`` if it will be inferred, which leaves nothing to compare
        with.
      where: name of the schema, for messages.
      columns: of the data.

    Raises:
      RecipeError: as ``gated``.
    """
    from beam_pipelines.analysis.anomalies.policy import (
        ValidationPolicy,
        check_environment,
        parse_allowed,
    )
    from beam_pipelines.analysis.statistics.stored import read_statistics
    from beam_pipelines.analysis.statistics.view import proto_of
    from beam_pipelines.core.schema_features import features_of

    allow, baseline, environment = (
        context.meta[f"{__name__}.{name}"]
        for name in ("allow_anomalies", "baseline", "environment")
    )
    features = [] if schema is None else [feature.name for feature in features_of(schema)]
    for option, value in (("--environment", environment), ("--baseline", baseline)):
        if value is not None and schema is None:
            raise RecipeError(
                f"{option} {value}: found no schema to go by, expected 'schema' in the recipe. "
                "Name one."
            )
    if environment is not None:
        check_environment(environment, schema, where)
    if baseline is not None and not _compares(schema):
        raise RecipeError(
            f"--baseline {baseline}: found no threshold in {where}, expected a drift_comparator in "
            "a feature, or "
            "num_examples_drift_comparator in dataset_constraints. Without one nothing is compared."
        )
    return ValidationPolicy(
        environment,
        None
        if baseline is None
        else {name: proto_of(split) for name, split in read_statistics(baseline).items()},
        parse_allowed(",".join(allow), [*features, *columns]),
        baseline or "",
    )


def _compares(schema: Any) -> bool:
    from beam_pipelines.core.schema_features import features_of

    constraints = schema.dataset_constraints
    return constraints.HasField("num_examples_drift_comparator") or any(
        feature.HasField("drift_comparator") for feature in features_of(schema)
    )
