"""Reads a recipe from YAML and reports every problem of it at once, each with its line.

``docs/recipe.md`` describes the keys. What only the data can tell (whether a column exists, whether types agree) is found
later, in planning, and comes back as ``Problem``s that ``explain`` gives their lines.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Mapping
from typing import Any, get_args

from beam_pipelines.errors import DataError, RecipeError
from beam_pipelines.recipe import (
    Compression,
    Fit,
    Join,
    JoinHow,
    JoinStrategy,
    OnError,
    Output,
    Recipe,
    Source,
    Split,
    Statistics,
    TimeSplit,
)
from beam_pipelines.recipe_values import (
    NAME,
    Keys,
    Value,
    parse_moment,
    read_bound,
    read_bytes,
    read_character,
    read_choice,
    read_flag,
    read_integer,
    read_mapping,
    read_name,
    read_quote,
    read_share,
    read_text,
    read_texts,
)
from beam_pipelines.recipe_yaml import Lines, Scalar, explain, parse_yaml, plain

__all__ = ["Lines", "bare_recipe", "explain", "load", "load_recipe", "parse_recipe"]

# What TFX takes as the name of a split.
SPLIT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
RECIPE_SUFFIXES = (".yaml", ".yml")
LEVELS_FOR_COMPRESSION = {"gzip": (0, 9), "zlib": (1, 9)}


def load(path: str) -> tuple[Recipe, Lines]:
    """Returns the recipe of a ``.yaml`` or ``.yml`` file; of any other path, the recipe that just converts that file."""
    return load_recipe(path) if path.lower().endswith(RECIPE_SUFFIXES) else (bare_recipe(path), Lines(path))


def load_recipe(path: str) -> tuple[Recipe, Lines]:
    """Reads a recipe file; its folder is where the recipe's relative paths start.

    Raises:
      RecipeError: the file is not there or not a recipe; lists every problem.
    """
    from beam_pipelines import files  # imports Beam, which reading a recipe from text does not need

    try:
        text = files.read_bytes(path).decode("utf-8-sig")
    except DataError as error:
        raise RecipeError(f"{path}: the recipe cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: found bytes that are not UTF-8 at {error.start}, expected a YAML file.") from error
    return parse_recipe(text, path, os.path.dirname(path))


def parse_recipe(
    text: str, origin: str, directory: str = "", encodings: Mapping[str, Any] | None = None
) -> tuple[Recipe, Lines]:
    """Reads a recipe from YAML text.

    Args:
      text: the YAML.
      origin: path that errors name.
      directory: where the recipe's relative paths start.
      encodings: the known encodings by kind; by default ``encodings.ENCODING_FOR_KIND``.

    Raises:
      RecipeError: lists every problem, one a line.
    """
    tree, lines, problems = parse_yaml(text, origin)
    recipe = _recipe(Value(tree, (), problems), directory, encodings)
    if problems:
        raise explain(problems, lines)
    return recipe, lines


def bare_recipe(path: str) -> Recipe:
    """Returns the recipe that converts one file or pattern as it is: all columns, one split ``train``, default output.

    The dataset and its source are named after the file, of ``data/*.csv`` after the folder.
    """
    folder, file = os.path.split(path)
    words = (
        re.sub(r"[^A-Za-z0-9_-]+", "_", word).strip("_-") for word in (file.split(".")[0], os.path.basename(folder))
    )
    name = next((word for word in words if NAME.fullmatch(word)), "dataset")
    return Recipe(name=name, sources={name: Source(name, (path,))}, base=name)


def _recipe(value: Value, directory: str, encodings: Mapping[str, Any] | None) -> Recipe:
    keys = Keys(value, "a mapping with 'name', 'sources' and 'output'")
    name = keys.need("name", read_name, "flights")
    sources = keys.need("sources", _sources, "{flights: data/flights.csv}") or {}
    base = keys.read("from", read_choice(sources) if sources else read_text, None)
    if sources and keys.get("from") is None:
        base = next(iter(sources))
        if len(sources) > 1:
            value.wrong(f"found no 'from', expected the source whose rows become examples: {', '.join(sources)}.")
    recipe = Recipe(
        name=name or "",
        sources=sources,
        base=base or "",
        join=keys.read("join", lambda item: _joins(item, sources), ()),
        filter=keys.read("filter", read_text, None),
        derive=keys.read("derive", read_mapping, {}),
        drop=keys.read("drop", read_texts, ()),
        keep=keys.read("keep", read_texts, ()),
        encode=keys.read("encode", lambda item: _encode(item, encodings), {}),
        fit=keys.read("fit", _fit, Fit()),
        preprocessing_fn=keys.read("preprocessing_fn", read_text, None),
        label=keys.read("label", read_text, None),
        split=keys.read("split", _split, Split()),
        schema=keys.read("schema", read_text, None),
        statistics=keys.read("statistics", _statistics, Statistics()),
        on_error=keys.read("on_error", _on_error, OnError()),
        output=keys.read("output", _output, Output()),
        directory=directory,
    )
    keys.finish()
    if recipe.drop and recipe.keep:
        value.wrong("found both 'drop' and 'keep', expected one of them: 'keep' leaves out all others.", "keep")
    return recipe


def _sources(value: Value) -> dict[str, Source] | None:
    if not isinstance(value.tree, dict) or not value.tree:
        value.expected("a mapping, one 'name: path' a line")
        return None
    for name, item in value.items():
        if not NAME.fullmatch(name):
            item.wrong(
                f"found the name '{name}', expected letters, digits, '_', '.' and '-', beginning with a letter or a digit."
            )
    return {name: _source(name, item) for name, item in value.items()}


def _source(name: str, value: Value) -> Source:
    if not isinstance(value.tree, dict):
        return Source(name, read_texts(value) or ())
    from beam_pipelines.sources import FORMATS

    keys = Keys(value, "a path or a mapping")
    source = Source(
        name=name,
        path=keys.need("path", read_texts, f"data/{name}.csv") or (),
        format=keys.read("format", read_choice(FORMATS), None),
        compression=keys.read("compression", read_choice(("gzip", "bzip2", "zstd", "zlib", "none")), None),
        key=keys.read("key", read_texts, ()),
        delimiter=keys.read("delimiter", read_character, None),
        quote=keys.read("quote", read_quote, None),
        header=keys.read("header", read_flag, True),
        columns=keys.read("columns", read_texts, ()),
        nulls=keys.read("nulls", lambda item: read_texts(item, allow_empty=True), Source.nulls),
        types=keys.read("types", _types, {}),
        infer=keys.read("infer", read_choice(("sample", "full")), "sample"),
        schema=keys.read("schema", read_text, None),
    )
    keys.finish()
    if not source.header and not source.columns:
        value.wrong("found 'header: false' without 'columns', expected the columns' names, in file order.")
    return source


def _types(value: Value) -> dict[str, str] | None:
    from beam_pipelines.columns import parse_type

    types = read_mapping(value)
    for column, name in (types or {}).items():
        try:
            parse_type(name)
        except ValueError as error:
            value.wrong(f"found {error}", column)
    return types


def _joins(value: Value, sources: Mapping[str, Source]) -> tuple[Join, ...] | None:
    if not isinstance(value.tree, list):
        value.expected("a list, one '- {source: …, on: …}' a line")
        return None
    joins = [_join(value.at(index, tree), sources) for index, tree in enumerate(value.tree)]
    seen: dict[tuple[str, str], int] = {}
    for index, join in enumerate(joins):
        first = seen.setdefault((join.source, join.prefix), index)
        if join.source and first != index:
            value.wrong(
                f"found source '{join.source}' joined again with the same prefix '{join.prefix}' as in join[{first}], "
                "expected another 'prefix' for each time.",
                index,
            )
    return tuple(joins)


def _join(value: Value, sources: Mapping[str, Source]) -> Join:
    keys = Keys(value, "a mapping such as {source: planes, on: tailnum}")
    join = Join(
        source=keys.need("source", read_choice(sources) if sources else read_text, "planes") or "",
        on=keys.need("on", _on, "tailnum") or (),
        how=keys.read("how", read_choice(get_args(JoinHow)), "left"),
        prefix=keys.read("prefix", lambda item: (read_texts(item, allow_empty=True) or ("",))[0], ""),
        strategy=keys.read("strategy", read_choice(get_args(JoinStrategy)), "auto"),
    )
    keys.finish()
    return join


def _on(value: Value) -> tuple[tuple[str, str], ...] | None:
    if isinstance(value.tree, dict):
        return tuple((read_mapping(value) or {}).items())
    columns = read_texts(value)
    return None if columns is None else tuple((column, column) for column in columns)


def _encode(
    value: Value, encodings: Mapping[str, Any] | None
) -> dict[str, tuple[tuple[str, Mapping[str, Any]], ...]] | None:
    if encodings is None:
        from beam_pipelines.encodings import ENCODING_FOR_KIND

        encodings = ENCODING_FOR_KIND
    if not isinstance(value.tree, dict) or not value.tree:
        value.expected("a mapping, one 'column: encoding' a line")
        return None
    return {column: _chain(item, encodings) for column, item in value.items()}


def _chain(value: Value, encodings: Mapping[str, Any]) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """``kind``, ``{kind: parameters}`` or a list of those; a parameter that is no mapping is called ``value``."""
    if isinstance(value.tree, list):
        if not value.tree:
            value.expected("at least one encoding")
        steps = [value.at(index, tree) for index, tree in enumerate(value.tree)]
        return tuple(step for item in steps if (step := _step(item, encodings)) is not None)
    step = _step(value, encodings)
    return () if step is None else (step,)


def _step(value: Value, encodings: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]] | None:
    parameters: Any = None
    if isinstance(value.tree, dict):
        if len(value.tree) != 1:
            value.wrong("found several kinds in one mapping, expected one, or a list of steps: [{fill: 0}, z_score].")
            return None
        kind, tree = next(iter(value.tree.items()))
        parameters = plain(tree)
        value = value.at(kind, Scalar(kind, kind))
    kind = read_choice(encodings)(value)
    if kind is None:
        return None
    if not isinstance(parameters, dict):
        parameters = {} if parameters is None else {"value": parameters}
    try:
        encodings[kind].of(parameters)
    except ValueError as error:
        value.wrong(str(error))
    return kind, parameters


def _fit(value: Value) -> Fit:
    keys = Keys(value, "a mapping such as {splits: [train], weight: importance}")
    fit = Fit(splits=keys.read("splits", read_texts, ()), weight=keys.read("weight", read_text, None))
    keys.finish()
    return fit


def _split(value: Value) -> Split | None:
    """One of three kinds, told apart by what the splits' names have as values."""
    keys = Keys(value, "a mapping such as {train: 0.8, eval: 0.2}")
    by: tuple[str, ...] = keys.read("by", read_texts, ())
    column = keys.read("column", read_text, None)
    parts = [(name, item) for name, item in value.items() if name not in keys.asked]
    if not isinstance(value.tree, dict):
        return None
    if not parts:
        value.wrong("found no splits, expected at least one, as {train: 0.8, eval: 0.2}.")
        return None
    for name, item in parts:
        if not SPLIT_NAME.fullmatch(name):
            item.wrong(f"found the split name '{name}', expected letters, digits, '_' and '-' (TFX's rule).")
    kinds = {_split_kind(item) for _, item in parts}
    if len(kinds) > 1:
        value.wrong("found several kinds of split, expected all by share, all by time or all by files.")
        return None
    kind = kinds.pop()
    _check_split_keys(value, kind)
    if kind == "time":
        return Split(fractions={}, time_column=column, times=_times(value, parts))
    if kind == "files":
        return Split(fractions={}, files={name: pattern for name, item in parts if (pattern := _pattern(item))})
    return Split(fractions=_fractions(value, parts), by=by)


def _check_split_keys(value: Value, kind: str) -> None:
    """Notes keys that do not belong to the kind of split, or are missing."""
    given = set(value.tree) if isinstance(value.tree, dict) else set()
    if "by" in given and kind != "share":
        value.wrong("found 'by' with a split that is not by shares, expected it with shares only.", "by")
    if "column" in given and kind != "time":
        value.wrong("found 'column' without times, expected {column: date, train: {before: 2013-11-01}, …}.", "column")
    if "column" not in given and kind == "time":
        value.wrong("found 'before' and 'after' without 'column', expected the column that is compared.")


def _split_kind(value: Value) -> str:
    if not isinstance(value.tree, dict):
        return "share"
    return "files" if "files" in value.tree else "time"


def _fractions(value: Value, parts: list[tuple[str, Value]]) -> dict[str, float]:
    read = read_share("a share above 0 and at most 1, as 0.8 or 80%", lambda share: 0 < share <= 1)
    fractions = {name: share for name, item in parts if (share := read(item)) is not None}
    total = math.fsum(fractions.values())
    if len(fractions) == len(parts) and abs(total - 1) > 1e-9:
        value.wrong(f"found shares that add up to {total:.10g}, expected 1.")
    return fractions


def _pattern(value: Value) -> str | None:
    keys = Keys(value, "a mapping such as {files: '*2012*'}")
    pattern = keys.need("files", read_text, "'*2012*'")
    keys.finish()
    return pattern


def _times(value: Value, parts: list[tuple[str, Value]]) -> tuple[TimeSplit, ...]:
    times = []
    for name, item in parts:
        keys = Keys(item, "a mapping such as {before: 2013-11-01}")
        times.append(
            TimeSplit(name, after=keys.read("after", read_bound, None), before=keys.read("before", read_bound, None))
        )
        keys.finish()
        if not {"after", "before"} & set(item.tree):
            item.wrong("found neither 'before' nor 'after', expected at least one.")
    _check_bounds(value, times)
    return tuple(times)


def _check_bounds(value: Value, times: list[TimeSplit]) -> None:
    """Notes bounds of different kinds, splits that hold nothing and splits that overlap."""
    bounds: dict[str, Any] = {
        text: parse_moment(text) for time in times for text in (time.after, time.before) if text is not None
    }
    if len({type(moment) for moment in bounds.values()}) > 1:
        value.wrong("found dates and numbers as bounds, expected all of one kind.")
        return
    ranges = []
    for time in times:
        after = None if time.after is None else bounds[time.after]
        before = None if time.before is None else bounds[time.before]
        if after is not None and before is not None and after >= before:
            value.wrong(
                f"found after {time.after} and before {time.before}, which holds nothing: 'after' is the earlier one.",
                time.name,
            )
            continue
        ranges.append((time.name, after, before))
    for (left, left_after, left_before), (right, right_after, right_before) in itertools.combinations(ranges, 2):
        left_ends = left_before is not None and right_after is not None and left_before <= right_after
        right_ends = right_before is not None and left_after is not None and right_before <= left_after
        if not left_ends and not right_ends:
            value.wrong(f"found splits '{left}' and '{right}' that overlap, expected every moment in one split only.")


def _statistics(value: Value) -> Statistics:
    keys = Keys(value, "a mapping such as {weight: importance, slice_by: [country]}")
    statistics = Statistics(weight=keys.read("weight", read_text, None), slice_by=keys.read("slice_by", read_texts, ()))
    keys.finish()
    return statistics


def _on_error(value: Value) -> OnError:
    keys = Keys(value, "a mapping such as {reject: 0.1%}")
    read = read_share("a share of at least 0 and below 1, as 0.001 or 0.1%", lambda share: 0 <= share < 1)
    reject = keys.read("reject", read, 0.0)
    keys.finish()
    return OnError(reject)


def _output(value: Value) -> Output:
    keys = Keys(value, "a mapping such as {shard_size: 128 MiB}")
    compression: Compression = keys.read("compression", read_choice(get_args(Compression)), "gzip")
    levels = LEVELS_FOR_COMPRESSION.get(compression, (0, 9))
    output = Output(
        shard_size=keys.read("shard_size", read_bytes, Output.shard_size),
        num_shards=keys.read("num_shards", read_integer(1), None),
        shards_multiple_of=keys.read("shards_multiple_of", read_integer(1), 1),
        compression=compression,
        level=keys.read("level", read_integer(*levels), 1),
        shuffle=keys.read("shuffle", read_flag, True),
        shuffle_seed=keys.read("shuffle_seed", read_integer(0, (1 << 63) - 1), 0),
    )
    keys.finish()
    _check_output(value, output)
    return output


def _check_output(value: Value, output: Output) -> None:
    """Notes keys that contradict each other."""
    given = set(value.tree) if isinstance(value.tree, dict) else set()
    if {"num_shards", "shard_size"} <= given:
        value.wrong("found both 'num_shards' and 'shard_size', expected one of them.")
    if output.num_shards is not None and output.num_shards % output.shards_multiple_of:
        value.wrong(
            f"found 'num_shards: {output.num_shards}' and 'shards_multiple_of: {output.shards_multiple_of}', "
            "expected a multiple of it."
        )
    if output.compression == "none" and "level" in given:
        value.wrong("found a level with 'compression: none', expected gzip or zlib with it.", "level")
