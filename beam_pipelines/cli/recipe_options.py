"""Options that several commands share, of recipes, their data, and runs.

Their values are no arguments of the commands: ``chosen`` and ``planning`` read them.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from beam_pipelines.cli.options import BEAM_OPTIONS
from beam_pipelines.cli.output import is_quiet
from beam_pipelines.files.beam.input_roots import check_root
from beam_pipelines.recipe import path_dates

if TYPE_CHECKING:
    from beam_pipelines.pipeline.planning.plan import Plan
    from beam_pipelines.recipe.settings import Setting

Command = TypeVar("Command", bound=Any)
_POLICY = ("environment", "baseline", "allow_anomalies")


def _option(
    name: str, text: str, read: Callable[[Any], Any] = lambda value: value, **kind: Any
) -> Callable[[Command], Command]:
    """Returns what adds an option to a command; ``read`` may raise ``ValueError``."""

    def remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        try:
            found = value if value is None else read(value)
        except ValueError as error:
            raise click.BadParameter(str(error), context, parameter) from error
        context.meta[f"{__name__}.{parameter.name}"] = found

    return click.option(name, help=text, expose_value=False, callback=remember, **kind)


def _all(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Returns what adds several options to a command, the last one first."""

    def add(command: Command) -> Command:
        for option in options:
            command = option(command)
        return command

    return add


def _read_share(text: str) -> float | None:
    from beam_pipelines.core.errors import Problem
    from beam_pipelines.recipe.text.yaml import Scalar
    from beam_pipelines.recipe.values import Value, read_share

    problems: list[Problem] = []
    read = read_share("a share above 0 and below 1, as 1% or 0.01", lambda share: 0 < share < 1)
    share = read(Value(Scalar(text, text), (), problems))
    if problems:
        raise ValueError(problems[0].message)
    return share


def _check_roots(roots: tuple[str, ...]) -> tuple[str, ...]:
    for root in roots:
        check_root(root)
    return roots


set_option = _option(
    "--set",
    "Value of a key of the recipe, such as output.num_shards=4; may be given several times.",
    metavar="KEY=VALUE",
    multiple=True,
)
encode_option = _option(
    "--encode",
    "Encode the columns of a data file without a recipe, as init would propose it.",
    is_flag=True,
)
# A day, and where inputs may be.
input_options = _all(
    _option(
        "--input_root",
        "Folder or URL that contains all files that the recipe reads; may be given several times.",
        _check_roots,
        metavar="DIR",
        multiple=True,
    ),
    _option(
        "--date",
        "The day that {date} in the sources' paths and in --output stands for, as 2026-11-21.",
        path_dates.parse_date,
        metavar="DAY",
    ),
)
recipe_options = _all(
    _option(
        "--split",
        "Splits in place of the recipe's, such as train=0.8,eval=0.2.",
        metavar="NAME=SHARE,…",
    ),
    _option("--label", "Label in place of the recipe's.", metavar="COLUMN"),
    set_option,
)
take_options = _all(
    _option(
        "--sample",
        "Take a share of the base source's rows, such as 1% or 0.01.",
        _read_share,
        metavar="SHARE",
    ),
    _option(
        "--limit",
        "Take the first N rows of the base source only.",
        metavar="N",
        type=click.IntRange(1),
    ),
)
run_options = _all(
    _option(
        "--lineage",
        "Send OpenLineage events of the run to a URL, or append them to a file.",
        metavar="FILE|URL",
    ),
    _option(
        "--metrics",
        "Send what was counted to a URL as OTLP, or write it to a file for Prometheus.",
        metavar="FILE|URL",
    ),
    _option(
        "--resume",
        "Keep the shards that a run which broke off has finished, if they fit.",
        is_flag=True,
    ),
    _option("--overwrite", "Replace the dataset that is there.", is_flag=True),
)
policy_options = _all(
    _option(
        "--allow_anomalies",
        "Accept anomalies: TYPE or FEATURE:TYPE, separated by commas. They are recorded as "
        "warnings.",
        metavar="NAMES",
        multiple=True,
    ),
    _option(
        "--baseline",
        "Earlier dataset (or its statistics), from which the data may drift as far as the schema "
        "allows.",
        metavar="DATASET",
    ),
    _option(
        "--environment",
        "Environment of the schema whose features are expected; default: all features.",
        metavar="NAME",
    ),
)


def chosen(context: click.Context, name: str) -> Any:
    """Returns the value of an option of this module, or ``None``."""
    return context.meta.get(f"{__name__}.{name}")


def has_chosen(context: click.Context) -> bool:
    """Whether any option of this module was given."""
    return any(value for name, value in context.meta.items() if name.startswith(__name__))


def chosen_settings(context: click.Context) -> list[Setting]:
    """Returns the settings of a recipe's keys.

    Raises:
      RecipeError: one is malformed.
    """
    from beam_pipelines.recipe.settings import label_setting, read_setting, split_setting

    settings = [read_setting(text) for text in chosen(context, "set") or ()]
    if (label := chosen(context, "label")) is not None:
        settings.append(label_setting(label))
    if (split := chosen(context, "split")) is not None:
        settings.append(split_setting(split))
    return settings


def planning(context: click.Context) -> dict[str, Any]:
    """Returns the arguments of ``bp.plan`` after its first.

    Raises:
      RecipeError: a setting is malformed.
    """
    from beam_pipelines.pipeline.planning.policy import PolicyOptions

    return {
        "settings": chosen_settings(context),
        "date": chosen(context, "date"),
        "input_roots": chosen(context, "input_root") or (),
        "policy": PolicyOptions(
            **{name: one for name in _POLICY if (one := chosen(context, name))}
        ),
    }


def chosen_plan(context: click.Context, recipe_or_data: str) -> Plan:
    """Plans a recipe or data.

    Raises:
      RecipeError, DataError: as ``bp.plan``.
    """
    from beam_pipelines.pipeline.planning.plan_recipe import plan
    from beam_pipelines.pipeline.planning.take import plan_take

    encode = bool(chosen(context, "encode"))
    made = plan(recipe_or_data, **planning(context), encode=encode)
    return plan_take(made, chosen(context, "limit"), chosen(context, "sample"))


def running(context: click.Context) -> dict[str, Any]:
    """Returns how a run writes, as ``bp.convert`` takes it."""
    reports = [f"--{name}={to}" for name in ("metrics", "lineage") if (to := chosen(context, name))]
    return {
        "overwrite": chosen(context, "overwrite"),
        "resume": chosen(context, "resume"),
        "beam_options": [*context.meta[BEAM_OPTIONS], *reports],
        "quiet": is_quiet(),
    }


def output_of_day(context: click.Context, output: str | None) -> str | None:
    """Returns ``--output`` with the date in its places.

    Raises:
      RecipeError: as ``path_dates.output_of_day``.
    """
    date: datetime.date | None = chosen(context, "date")
    return output and path_dates.output_of_day(output, date)
