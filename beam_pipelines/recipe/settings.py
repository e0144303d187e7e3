"""Values of the command line for a recipe's keys: ``--set output.num_shards=4``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from beam_pipelines.core.errors import Problem, RecipeError
from beam_pipelines.recipe.places import tree_of_path
from beam_pipelines.recipe.text.lines import Path, show_path
from beam_pipelines.recipe.text.yaml import Scalar, Tree, parse_value

# A name, a name in double quotes, or an index.
_STEP = re.compile(r'(?:^|\.)(?:"((?:[^"\\]|\\.)+)"|([^.\[\]"=]+))|\[(\d+)\]')


class Setting(NamedTuple):
    """A value that takes the place of a recipe's.

    Attributes:
      path: its keys and indexes.
      tree: the value, as the recipe's parser reads it.
      option: as errors name it: ``--set output.num_shards``.
      problems: of the value, such as tags.
      keeps: keys of the recipe's mapping there that stay.
    """

    path: Path
    tree: Tree
    option: str
    problems: tuple[Problem, ...] = ()
    keeps: tuple[str, ...] = ()


def read_setting(text: str) -> Setting:
    """Returns the setting of a text such as ``join[0].how=left``.

    The value is YAML, by the parser of recipes.

    Raises:
      RecipeError: there is no ``=``, the path is not one, or the value is not YAML.
    """
    path: list[str | int] = []
    position = 0
    while found := _STEP.match(text, position):
        quoted, name, index = found.groups()
        path.append(re.sub(r"\\(.)", r"\1", quoted) if quoted else name or int(index))
        position = found.end()
    if not path or isinstance(path[0], int) or text[position : position + 1] != "=":
        raise RecipeError(
            f"--set {text}: expected KEY=VALUE, for example output.num_shards=4, join[0].how=left "
            'or encode."a.b"=drop.'
        )
    option = f"--set {text[:position]}"
    tree, problems = parse_value(text[position + 1 :], option)
    problems = [Problem((*path, *problem.path), problem.message) for problem in problems]
    return Setting(tuple(path), tree, option, tuple(problems))


def label_setting(name: str) -> Setting:
    """Returns the setting of ``--label NAME``."""
    return Setting(("label",), Scalar(name, name), "--label")


def split_setting(text: str) -> Setting:
    """Returns the setting of ``--split train=0.8,eval=0.2``.

    The recipe's ``by`` stays: rows that belong together do not part.

    Raises:
      RecipeError: a part has no ``=``, or a name occurs twice.
    """
    shares: dict[str, Tree] = {}
    for part in text.split(","):
        name, equals, share = part.strip().partition("=")
        if not equals or name in shares:
            raise RecipeError(
                f"--split {text}: found '{part}', expected NAME=SHARE, each name once, for "
                "example train=0.8,eval=0.2."
            )
        shares[name] = Scalar(share, share)
    return Setting(("split",), shares, "--split", keeps=("by",))


def apply_settings(tree: Tree, settings: Iterable[Setting], problems: list[Problem]) -> Tree:
    """Returns a recipe's tree with settings in place of its values.

    Mappings that are not there are made. An index is that of an item, or the next one. The value of
    a key inside of a source that is a path makes it a mapping with this ``path``.

    Args:
      tree: of the recipe; it stays as it is.
      settings: in order; a later one sees the values of those before it.
      problems: gets those of settings that have no place.
    """
    for setting in settings:
        problems += setting.problems
        tree = _with_value(tree, setting, 0, problems)
    return tree


def _with_value(tree: Tree | None, setting: Setting, depth: int, problems: list[Problem]) -> Tree:
    path = setting.path
    if depth == len(path):
        kept = tree if isinstance(tree, dict) else {}
        if isinstance(setting.tree, dict):
            return {**{key: kept[key] for key in setting.keeps if key in kept}, **setting.tree}
        return setting.tree
    step = path[depth]
    if depth == 2 and path[0] == "sources" and isinstance(tree, Scalar | list):
        tree = {"path": tree} if isinstance(tree, list) else tree_of_path(tree.text)
    if isinstance(step, int):
        items = list(tree) if isinstance(tree, list) else []
        if step > len(items) or not isinstance(tree, list | None):
            have = f"{len(items)} items" if isinstance(tree, list) else "no list"
            _complain(setting, depth, f"found {have}, expected index {step} of a list", problems)
            return Scalar(None, "") if tree is None else tree
        inner = items[step] if step < len(items) else None
        return [*items[:step], _with_value(inner, setting, depth + 1, problems), *items[step + 1 :]]
    if not isinstance(tree, dict | None):
        what = "a list" if isinstance(tree, list) else f"'{tree.text}'"
        _complain(setting, depth, f"found {what}, expected a mapping with '{step}'", problems)
        return tree
    mapping = {} if tree is None else tree
    inner = _with_value(mapping.get(step), setting, depth + 1, problems)
    return {**mapping, step: inner}


def _complain(setting: Setting, depth: int, message: str, problems: list[Problem]) -> None:
    place = show_path(setting.path[:depth])
    problems.append(Problem(setting.path, f"{message} in {place}."))
