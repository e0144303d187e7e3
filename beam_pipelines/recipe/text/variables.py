"""Variables of a recipe: ``vars:``, and ``${name}`` in its texts.

A value is that of ``--set vars.name=…``, else of the environment variable
``BEAM_PIPELINES_VAR_name``, else the default in ``vars``. A recipe cannot name other environment
variables, because recipes of strangers could read secrets then.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from beam_pipelines.core.errors import Problem, nearest
from beam_pipelines.recipe.settings import Setting
from beam_pipelines.recipe.text.lines import Path, show_path
from beam_pipelines.recipe.text.yaml import Scalar, Tree, plain_scalar

PREFIX = "BEAM_PIPELINES_VAR_"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHELL_DEFAULT = re.compile(rf"({_NAME.pattern}):?[-=](.+)")  # ${name:-default}
# $${name} stands for the text ${name}.
_USE = re.compile(r"(\$?)\$\{([^{}]*)\}")


class Uses(NamedTuple):
    """Texts of a recipe with variables.

    Attributes:
      unfilled: paths of those with a variable that has no value.
      origin_for_path: path of a text that is one variable -> where its value comes from, if it is
        not the default.
    """

    unfilled: set[Path]
    origin_for_path: dict[Path, str]


def fill_variables(
    tree: Tree,
    environment: Mapping[str, str],
    set_paths: set[Path],
    problems: list[Problem],
) -> tuple[Tree, Uses]:
    """Fills the variables of a recipe's tree.

    A text that is ``${name}`` alone has the value's type; within a longer text the value is text.
    Keys, and recipes without ``vars``, stay as they are.

    Args:
      tree: of the recipe.
      environment: of the process.
      set_paths: paths of settings, whose values the environment does not change.
      problems: gets unknown variables, and those without a value.

    Returns:
      The tree with values, and the texts that use them.
    """
    uses = Uses(set(), {})
    if not isinstance(tree, dict) or "vars" not in tree:
        return tree, uses
    declared = tree["vars"]
    rest = {key: value for key, value in tree.items() if key != "vars"}
    if not isinstance(declared, dict) or not declared:
        found = f"'{declared.text}'" if isinstance(declared, Scalar) else "no name"
        message = f"found {found}, expected the variables, one 'name: default' a line."
        problems.append(Problem(("vars",), message))
        return _filled(rest, (), {}, [], uses), uses
    values: dict[str, Scalar | None] = {}
    for name, default in declared.items():
        if not _NAME.fullmatch(name):
            message = f"found the name '{name}', expected letters, digits and '_'."
            problems.append(Problem(("vars", name), message))
            continue
        given = None if ("vars", name) in set_paths else environment.get(PREFIX + name)
        values[name] = _checked(name, plain_scalar(given) if given else default, problems)
    filled = _filled(rest, (), values, problems, uses)
    known = {name: value for name, value in values.items() if value is not None}
    # Without a known one, each is a problem already.
    for path, name in list(uses.origin_for_path.items()):
        if ("vars", name) in set_paths:
            uses.origin_for_path[path] = f"--set vars.{name}, {show_path(path)}"
        elif environment.get(PREFIX + name):
            uses.origin_for_path[path] = f"{PREFIX}{name}, {show_path(path)}"
        else:
            del uses.origin_for_path[path]
    return {**filled, **({"vars": known} if known else {})}, uses


def _checked(name: str, value: Tree, problems: list[Problem]) -> Scalar | None:
    """Returns the value of a variable, or notes why it has none."""
    message = ""
    if not isinstance(value, Scalar):
        message = "found keys or a list, expected a text, a number, true or false."
    elif value.text.strip() == "" or value.value is None:
        message = (
            f"found no value, expected one: --set vars.{name}=…, or the environment variable "
            f"{PREFIX}{name}."
        )
    elif _USE.search(value.text):
        message = f"found '{value.text}', expected a value without another variable."
    if message:
        problems.append(Problem(("vars", name), message))
        return None
    return value if isinstance(value, Scalar) else None


def _filled(
    tree: Any,
    path: Path,
    values: Mapping[str, Scalar | None],
    problems: list[Problem],
    uses: Uses,
) -> Any:
    if isinstance(tree, dict):
        return {
            key: _filled(value, (*path, key), values, problems, uses) for key, value in tree.items()
        }
    if isinstance(tree, list):
        return [
            _filled(item, (*path, index), values, problems, uses) for index, item in enumerate(tree)
        ]
    if "${" not in tree.text:
        return tree
    for _, name in (found for found in _USE.findall(tree.text) if not found[0]):
        if name not in values:
            problems.append(Problem(path, _unknown(name, values)))
        if values.get(name) is None:
            uses.unfilled.add(path)
    whole = _USE.fullmatch(tree.text)
    if whole and not whole[1]:
        uses.origin_for_path[path] = whole[2]
        # A variable without a value is a problem already; the text keeps its place.
        return values.get(whole[2]) or tree
    text = _USE.sub(lambda found: _text(found, values), tree.text)
    return Scalar(text, text)


def _unknown(name: str, names: Collection[str]) -> str:
    """Returns the message for a name that ``vars`` does not declare."""
    default = _SHELL_DEFAULT.fullmatch(name)
    if default:
        return (
            f"found ${{{name}}}, expected ${{{default[1]}}}, with its default in 'vars': "
            f"{{{default[1]}: {default[2]}}}."
        )
    known = nearest(name, names) or (f" Known are {', '.join(names)}." if names else "")
    return f"found ${{{name}}}, expected a variable that 'vars' declares.{known}"


def _text(found: re.Match[str], values: Mapping[str, Scalar | None]) -> str:
    value = values.get(found[2])
    return found[0][1:] if found[1] else found[0] if value is None else value.text


def check_set_variables(tree: Tree, settings: Sequence[Setting]) -> list[Problem]:
    """Returns the problems of settings of variables that ``vars`` does not declare."""
    declared = tree.get("vars") if isinstance(tree, dict) else None
    names = list(declared) if isinstance(declared, dict) else []
    return [
        Problem(
            setting.path,
            f"found a variable that the recipe's 'vars' does not declare.{hint}",
        )
        for setting in settings
        if setting.path[0] == "vars" and (len(setting.path) < 2 or setting.path[1] not in names)
        for hint in [nearest(str(setting.path[-1]), names) or f" Known: {', '.join(names) or '-'}."]
    ]
