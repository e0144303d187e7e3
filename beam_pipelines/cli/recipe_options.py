"""The options that change a recipe's keys: ``--set``, ``--label``, ``--split``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from beam_pipelines.pipeline.planning.plan import Plan
    from beam_pipelines.recipe.settings import Setting

Command = TypeVar("Command", bound=Any)
_CHOSEN = f"{__name__}.settings"


def set_option(command: Command) -> Command:
    """Adds ``--set`` to a command; ``chosen_settings`` reads it."""
    text = "Value of a key of the recipe, such as output.num_shards=4; may be given several times."
    return click.option(
        "--set",
        metavar="KEY=VALUE",
        multiple=True,
        expose_value=False,
        callback=_remember,
        help=text,
    )(command)


def recipe_options(command: Command) -> Command:
    """Adds the options to a command; ``chosen_settings`` reads them."""
    for option in (
        click.option(
            "--split",
            metavar="NAME=SHARE,…",
            expose_value=False,
            callback=_remember,
            help="Splits in place of the recipe's, such as train=0.8,eval=0.2.",
        ),
        click.option(
            "--label",
            metavar="COLUMN",
            expose_value=False,
            callback=_remember,
            help="Label in place of the recipe's.",
        ),
        set_option,
    ):
        command = option(command)
    return command


def encode_option(command: Command) -> Command:
    """Adds the flag ``--encode``, the argument ``encode``."""
    text = "Encode the columns of a data file without a recipe, as init would propose it."
    return click.option("--encode", is_flag=True, help=text)(command)


def take_options(command: Command) -> Command:
    """Adds ``--limit`` and ``--sample``; ``taken`` applies them to a plan."""
    for option in (
        click.option(
            "--sample",
            metavar="SHARE",
            expose_value=False,
            callback=_remember_share,
            help="Take a share of the base source's rows, such as 1% or 0.01.",
        ),
        click.option(
            "--limit",
            metavar="N",
            type=click.IntRange(1),
            expose_value=False,
            callback=_remember,
            help="Take the first N rows of the base source only.",
        ),
    ):
        command = option(command)
    return command


def _remember_share(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    from beam_pipelines.core.errors import Problem
    from beam_pipelines.recipe.text.yaml import Scalar
    from beam_pipelines.recipe.values import Value, read_share

    problems: list[Problem] = []
    read = read_share("a share above 0 and below 1, as 1% or 0.01", lambda share: 0 < share < 1)
    share = None if value is None else read(Value(Scalar(value, value), (), problems))
    if problems:
        raise click.BadParameter(problems[0].message, context, parameter)
    _remember(context, parameter, share)


def has_chosen(context: click.Context) -> bool:
    """Whether any option of this module was given."""
    return any(value for name, value in context.meta.items() if name.startswith(_CHOSEN))


def taken(context: click.Context, plan: Plan) -> Plan:
    """Returns a plan with the limits of a command with ``take_options``.

    Raises:
      RecipeError, DataError: as ``plan_take``.
    """
    from beam_pipelines.pipeline.planning.take import plan_take

    return plan_take(plan, *(context.meta[f"{_CHOSEN}.{name}"] for name in ("limit", "sample")))


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    context.meta[f"{_CHOSEN}.{parameter.name}"] = value


def chosen_settings(context: click.Context) -> list[Setting]:
    """Returns the settings of a command with ``recipe_options``.

    Raises:
      RecipeError: one is malformed.
    """
    from beam_pipelines.recipe.settings import label_setting, read_setting, split_setting

    chosen = {name: context.meta.get(f"{_CHOSEN}.{name}") for name in ("set", "label", "split")}
    settings = [read_setting(text) for text in chosen["set"] or ()]
    if chosen["label"] is not None:
        settings.append(label_setting(chosen["label"]))
    if chosen["split"] is not None:
        settings.append(split_setting(chosen["split"]))
    return settings
