"""Reads a recipe from YAML, and reports all its problems.

``docs/recipe.md`` describes the keys. Problems that only the data can show (a column does not
exist, types do not agree) are found later, in planning, as ``RecipeProblems``.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from beam_pipelines.core.errors import DataError, Problem
from beam_pipelines.core.process import plugins
from beam_pipelines.recipe import places, values
from beam_pipelines.recipe.joins import Join, check_join
from beam_pipelines.recipe.keys import Formats, keys_of, read_keys
from beam_pipelines.recipe.model import Recipe, Source
from beam_pipelines.recipe.path_dates import without_date
from beam_pipelines.recipe.settings import Setting, apply_settings
from beam_pipelines.recipe.splits import read_split
from beam_pipelines.recipe.text.lines import Lines, Path, explain
from beam_pipelines.recipe.text.yaml import Scalar, Tree, parse_yaml, plain
from beam_pipelines.recipe.unions import Union

# The number of a shard and that of all shards, or wildcards in their places.
_SHARD_NUMBER = re.compile(r"-([0-9?*]{5,}|\*)-of-([0-9?*]{5,}|\*)(?=\.|\Z)")


def parse_recipe(
    text: str,
    origin: str,
    formats: Formats,
    encodings: Mapping[str, Any],
    directory: str = "",
    settings: Sequence[Setting] = (),
) -> Recipe:
    """Reads a recipe from YAML text.

    Args:
      text: the YAML.
      origin: path that errors name.
      formats: the known formats of sources.
      encodings: the known encodings by kind.
      directory: where the recipe's relative paths start.
      settings: values in place of the text's.

    Raises:
      RecipeError: lists every problem, one a line.
    """
    tree, lines, problems = parse_yaml(text, origin)
    tree = apply_settings(tree, settings, problems)
    recipe = _recipe(values.Value(tree, (), problems), directory, formats, encodings)
    options = {setting.path: setting.option for setting in settings}
    lines = dataclasses.replace(lines, option_for_path=options)
    if problems:
        raise explain(problems, lines)
    return dataclasses.replace(recipe, lines=lines)


def bare_lines(name: str, path: str, options: Mapping[Path, str] | None = None) -> Lines:
    """Returns the lines of a bare recipe; errors name the path alone.

    Args:
      name: of the source.
      path: of the data, as the user gave it.
      options: path -> the option that set the value there.
    """
    return Lines(path, option_for_path={("sources", name, "path"): path, **(options or {})})


def bare_name(path: str) -> str:
    """Returns the name of the dataset of one file or pattern."""
    if places.planner_of(path) is not None:
        path = places.split_part(path)[1] or places.split_part(path)[0]
    folder, file = os.path.split(path)
    file = _SHARD_NUMBER.sub("", file)
    words = (
        re.sub(r"[^A-Za-z0-9_-]+", "_", without_date(word)).strip("_-")
        for word in (file.split(".")[0], os.path.basename(folder))
    )
    return next((word for word in words if values.NAME.fullmatch(word)), "dataset")


def bare_recipe(
    path: str,
    formats: Formats,
    encodings: Mapping[str, Any] = MappingProxyType({}),
    settings: Sequence[Setting] = (),
    found: Tree | None = None,
) -> Recipe:
    """Returns the recipe that converts one file or pattern as it is.

    It has all columns, one split ``train`` and the default output; feature lists of its records
    stay feature lists. The dataset and its source are named after the file, without the number of a
    shard; of ``data/*.csv`` and ``data/{date}.csv`` after the folder; of
    ``postgresql://host/shop#users`` after the table.

    Args:
      path: of the data.
      formats, encodings: as in ``parse_recipe``; encodings only for settings of them.
      settings: values for the recipe's keys.
      found: the recipe that the data show; ``None``: that of one file.

    Raises:
      RecipeError: lists every problem.
    """
    name, text = bare_name(path), Scalar(path, path)
    tree: Tree = found or {"name": Scalar(name, name), "sources": {name: text}}
    problems: list[Problem] = []
    tree = apply_settings(tree, settings, problems)
    recipe = _recipe(values.Value(tree, (), problems), "", formats, encodings)
    lines = bare_lines(name, path, {setting.path: setting.option for setting in settings})
    if problems:
        raise explain(problems, lines)
    sources = {
        name: source.with_planning(keeps_steps=True) for name, source in recipe.sources.items()
    }
    return dataclasses.replace(recipe, sources=sources, lines=lines)


def _recipe(
    value: values.Value, directory: str, formats: Formats, encodings: Mapping[str, Any]
) -> Recipe:
    sources: dict[str, Source] = {}

    def read_all_sources(item: values.Value) -> dict[str, Source]:
        sources.update(_sources(item, formats) or {})
        return sources

    def read_source_name(item: values.Value) -> str | None:
        return (values.read_choice(sources) if sources else values.read_text)(item)

    own = {declared.name for declared in keys_of(Recipe).values()}
    checks = plugins.known(plugins.CHECKS)
    if not own.union(checks) >= value.keys:
        # Other distributions are asked for keys that no table has.
        checks = (*checks, *plugins.others(plugins.CHECKS))
    found = read_keys(
        Recipe,
        value,
        "a mapping with 'name', 'sources' and 'output'",
        {
            "sources": read_all_sources,
            "base": read_source_name,
            "join": lambda item: _joins(item, read_source_name),
            "encode": lambda item: _encode(item, encodings),
            "split": read_split,
        },
        checks,
    )
    found |= _checks({name: item for name, item in value.items() if name in checks})
    if sources and "from" not in value.keys:
        found["base"] = next(iter(sources))
        if len(sources) > 1:
            value.wrong(
                "found no 'from', expected the source whose rows become examples: "
                f"{', '.join(sources)}."
            )
    recipe = Recipe(**{"name": "", "sources": {}, **found}, directory=directory)
    _check_unions(value, recipe)
    if recipe.drop and recipe.keep:
        value.wrong(
            "found both 'drop' and 'keep', expected one of them: 'keep' leaves out all others.",
            "keep",
        )
    return recipe


def _check_unions(value: values.Value, recipe: Recipe) -> None:
    plain = [name for name, source in recipe.sources.items() if source.union is None]
    for name, source in recipe.sources.items():
        if source.union is None:
            continue
        for member in source.union.union:
            if member not in plain:
                value.wrong(
                    f"found '{member}', expected sources with a path: {', '.join(plain)}.",
                    "sources",
                    name,
                    "union",
                )
        if len(source.union.union) == 1:
            value.wrong("found one source, expected several.", "sources", name, "union")


def _checks(given: Mapping[str, values.Value]) -> dict[str, Any]:
    """Returns the fields of the recipe's checks."""
    checks, hidden = {}, list[str]()
    for name, item in given.items():
        try:
            kind = plugins.load(plugins.CHECKS, name)
        except DataError as error:
            item.wrong_key(f"{error}.")
            continue
        options = kind.reader(item)
        if options is not None:
            checks[name] = options
            hidden += kind.hides(options)
    return {"checks": checks, "hidden": tuple(hidden)}


def _sources(value: values.Value, formats: Formats) -> dict[str, Source] | None:
    if not isinstance(value.tree, dict) or not value.tree:
        value.expected("a mapping, one 'name: path' a line")
        return None
    for name, item in value.items():
        if not values.NAME.fullmatch(name):
            item.wrong_key(
                f"found the name '{name}', expected letters, digits, '_', '.' and '-', beginning "
                "with a letter or a digit."
            )
    return {name: _source(name, item, formats) for name, item in value.items()}


def _source(name: str, value: values.Value, formats: Formats) -> Source:
    if not isinstance(value.tree, dict):
        paths = values.read_texts(value) or ()
        keys = places.tree_of_path(paths[0]) if len(paths) == 1 else {}
        if keys.keys() <= {"path"}:
            return Source(name, paths)
        # Its keys have no places of their own.
        problems: list[Problem] = []
        source = _source(name, values.Value(keys, value.path, problems), formats)
        for problem in problems:
            value.wrong(problem.message)
        return source
    if "union" in value.keys:
        union = Union(**{"union": (), **read_keys(Union, value, "a mapping")})
        return Source(name, key=union.key, derive=union.derive, options={"union": union})
    value = value._replace(tree=places.with_parts(value.tree))
    if not value.keys & {"path", *places.PLACES}:
        shown = value.path[-1] if value.path else "data"
        value.wrong(f"found no 'path', expected one, for example 'path: data/{shown}.csv'.")
    own = {declared.name for declared in keys_of(Source).values()}
    kinds: dict[str, Any] = dict.fromkeys(sorted(value.keys - own))
    for key in kinds:
        try:
            kinds[key] = formats.declaring(key)
        except DataError as error:
            value.wrong(f"{error}.", key)
    known = kinds if all(kinds.values()) else formats.option_names
    readers = {"format": lambda item: _known(item, formats)}
    found = read_keys(Source, value, "a path or a mapping", readers, known)
    options = {
        key: read
        for key, item in value.items()
        if kinds.get(key) and (read := keys_of(kinds[key])[key].read(item)) is not None
    }
    source = Source(name, **found, options=options)
    for path in filter(places.scheme_of, source.path):
        place = places.keys_of_path(path)
        value.wrong(
            f"found a URL of {places.scheme_of(path)} in 'path', expected it in "
            f"'{next(iter(place))}'.",
            "path",
        )
    return source


def _known(value: values.Value, names: Collection[str]) -> str | None:
    """Reads a name; an error alone asks other packages for theirs."""
    text = value.tree.text if isinstance(value.tree, Scalar) else ""
    return text if text in names else values.read_choice(names)(value)


def _joins(
    value: values.Value, read_source_name: Callable[[values.Value], str | None]
) -> tuple[Join, ...] | None:
    if not isinstance(value.tree, list):
        value.expected("a list, one '- {source: …, on: …}' a line")
        return None
    expected = "a mapping such as {source: planes, on: tailnum}"
    joins: list[Join] = []
    for index, tree in enumerate(value.tree):
        item = value.at(index, tree)
        found = read_keys(Join, item, expected, {"source": read_source_name})
        joins.append(Join(**{"source": "", "on": (), **found}))
        check_join(item, joins[-1])
    seen: dict[tuple[str, str], int] = {}
    for index, join in enumerate(joins):
        # Features of windows have names of their own.
        if not join.source or join.window or not join.adds_columns:
            continue
        first = seen.setdefault((join.source, join.prefix), index)
        if first != index:
            value.wrong(
                f"found source '{join.source}' joined again with the same prefix '{join.prefix}' "
                f"as in join[{first}], expected another 'prefix' for each time.",
                index,
            )
    return tuple(joins)


def _encode(
    value: values.Value, encodings: Mapping[str, Any]
) -> dict[str, tuple[tuple[str, Mapping[str, Any]], ...]] | None:
    return values.read_entries(
        value, lambda item: _chain(item, encodings), "'column: encoding' a line"
    )


def _chain(
    value: values.Value, encodings: Mapping[str, Any]
) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """Reads ``kind``, ``{kind: parameters}`` or a list of those.

    A parameter that is not a mapping is called ``value``.
    """
    if isinstance(value.tree, list):
        if not value.tree:
            value.expected("at least one encoding")
        steps = [value.at(index, tree) for index, tree in enumerate(value.tree)]
        return tuple(step for item in steps if (step := _step(item, encodings)) is not None)
    step = _step(value, encodings)
    return () if step is None else (step,)


def _step(
    value: values.Value, encodings: Mapping[str, Any]
) -> tuple[str, Mapping[str, Any]] | None:
    parameters: Any = None
    if isinstance(value.tree, dict):
        if len(value.tree) != 1:
            value.wrong(
                f"found {len(value.tree)} kinds in one mapping, expected one, or a list of steps: "
                "[{fill: 0}, z_score]."
            )
            return None
        kind, tree = next(iter(value.tree.items()))
        parameters = plain(tree)
        value = value.at(kind, Scalar(kind, kind))
    known = _known(value, encodings)
    if known is None:
        return None
    if not isinstance(parameters, dict):
        parameters = {} if parameters is None else {"value": parameters}
    try:
        encodings[known].of(parameters)
    except ValueError as error:
        value.wrong(str(error))
    return known, parameters
