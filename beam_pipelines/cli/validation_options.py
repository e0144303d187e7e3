"""The options of a validation policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from beam_pipelines.pipeline.planning.policy import PolicyOptions

Command = TypeVar("Command", bound=Any)


def policy_options(command: Command) -> Command:
    """Adds the options to a command; ``chosen_policy`` reads them."""
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
            "--previous_version",
            metavar="DATASET",
            expose_value=False,
            callback=_remember,
            help="Earlier version of the same data (or its statistics), with whose number of rows "
            "the schema's num_examples_version_comparator compares.",
        ),
        click.option(
            "--environment",
            metavar="NAME",
            expose_value=False,
            callback=_remember,
            help="Environment of the schema whose features are expected; default: all features.",
        ),
        click.option(
            "--validation_config",
            metavar="FILE",
            expose_value=False,
            callback=_remember,
            help="TFDV's ValidationConfig and CustomValidationConfig as text: severities of "
            "anomalies, and conditions in SQL.",
        ),
    ):
        command = option(command)
    return command


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    context.meta[f"{__name__}.{parameter.name}"] = value


def chosen_policy(context: click.Context) -> PolicyOptions:
    """Returns the values of the options of a command with ``policy_options``."""
    from beam_pipelines.pipeline.planning.policy import PolicyOptions

    names = (
        "environment",
        "baseline",
        "allow_anomalies",
        "previous_version",
        "validation_config",
    )
    return PolicyOptions(*(context.meta[f"{__name__}.{name}"] for name in names))
