"""Reads a recipe from YAML and reports every problem of it at once, each with its line.

``docs/recipe.md`` describes the keys. What only the data can tell (whether a column exists, whether
types agree) is found later, in planning, and comes back as ``Problem``s that ``explain`` gives
their lines.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.core.limits import MOST_NESTING_DEPTH, Limits
from beam_pipelines.recipe.dates import without_date
from beam_pipelines.recipe.lines import Lines, explain
from beam_pipelines.recipe.model import (
    MOST_SHARDS,
    Compression,
    Fit,
    Floats,
    Join,
    JoinHow,
    JoinStrategy,
    OnError,
    Output,
    Recipe,
    Sequences,
    Source,
    Split,
    Statistics,
)
from beam_pipelines.recipe.read_sources import read_sources
from beam_pipelines.recipe.read_split import read_split
from beam_pipelines.recipe.values import (
    NAME,
    Keys,
    Value,
    read_budget,
    read_bytes,
    read_choice,
    read_flag,
    read_integer,
    read_mapping,
    read_name,
    read_text,
    read_texts,
)
from beam_pipelines.recipe.yaml import Scalar, parse_yaml, plain

RECIPE_SUFFIXES = (".yaml", ".yml")


def load(path: str, formats: Iterable[str], encodings: Mapping[str, Any]) -> Recipe:
    """Returns the recipe of a ``.yaml`` or ``.yml`` file; of any other path, the recipe that just
    converts that file.
    """
    return (
        load_recipe(path, formats, encodings)
        if path.lower().endswith(RECIPE_SUFFIXES)
        else bare_recipe(path)
    )


def load_recipe(path: str, formats: Iterable[str], encodings: Mapping[str, Any]) -> Recipe:
    """Reads a recipe file; its folder is where the recipe's relative paths start.

    Raises:
      RecipeError: the file is not there or not a recipe; lists every problem.
    """
    from beam_pipelines.core import (
        files,
    )  # imports Beam, which reading a recipe from text does not need

    try:
        text = files.read_bytes(path).decode("utf-8-sig")
    except DataError as error:
        raise RecipeError(f"{path}: the recipe cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise RecipeError(
            f"{path}: found bytes that are not UTF-8 at {error.start}, expected a YAML file."
        ) from error
    return parse_recipe(text, path, formats, encodings, os.path.dirname(path))


def parse_recipe(
    text: str,
    origin: str,
    formats: Iterable[str],
    encodings: Mapping[str, Any],
    directory: str = "",
) -> Recipe:
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
    recipe = _recipe(Value(tree, (), problems), directory, formats, encodings)
    if problems:
        raise explain(problems, lines)
    return dataclasses.replace(recipe, lines=lines)


def bare_recipe(path: str) -> Recipe:
    """Returns the recipe that converts one file or pattern as it is: all columns, one split
    ``train``, default output.

    The dataset and its source are named after the file, of ``data/*.csv`` and ``data/{date}.csv``
    after the folder.
    """
    folder, file = os.path.split(path)
    words = (
        re.sub(r"[^A-Za-z0-9_-]+", "_", without_date(word)).strip("_-")
        for word in (file.split(".")[0], os.path.basename(folder))
    )
    name = next((word for word in words if NAME.fullmatch(word)), "dataset")
    return Recipe(name=name, sources={name: Source(name, (path,))}, base=name, lines=Lines(path))


def _recipe(
    value: Value, directory: str, formats: Iterable[str], encodings: Mapping[str, Any]
) -> Recipe:
    keys = Keys(value, "a mapping with 'name', 'sources' and 'output'")
    name = keys.need("name", read_name, "flights")
    sources = (
        keys.need(
            "sources", lambda item: read_sources(item, formats), "{flights: data/flights.csv}"
        )
        or {}
    )
    base = keys.read("from", read_choice(sources) if sources else read_text, None)
    if sources and keys.get("from") is None:
        base = next(iter(sources))
        if len(sources) > 1:
            value.wrong(
                "found no 'from', expected the source whose rows become examples: "
                f"{', '.join(sources)}."
            )
    recipe = Recipe(
        name=name or "",
        sources=sources,
        base=base or "",
        join=keys.read("join", lambda item: _joins(item, sources), ()),
        filter=keys.read("filter", read_text, None),
        derive=keys.read("derive", read_mapping, {}),
        drop=keys.read("drop", read_texts, ()),
        keep=keys.read("keep", read_texts, ()),
        sequence=keys.read("sequence", _sequence, None),
        encode=keys.read("encode", lambda item: _encode(item, encodings), {}),
        fit=keys.read("fit", _fit, Fit()),
        preprocessing_fn=keys.read("preprocessing_fn", read_text, None),
        label=keys.read("label", read_text, None),
        split=keys.read("split", read_split, Split()),
        schema=keys.read("schema", read_text, None),
        statistics=keys.read("statistics", _statistics, Statistics()),
        on_error=keys.read("on_error", _on_error, OnError()),
        limits=keys.read("limits", _limits, Limits()),
        output=keys.read("output", _output, Output()),
        append=keys.read("append", read_flag, False),
        directory=directory,
    )
    keys.finish()
    if recipe.append:
        _check_append(value, recipe)
    if recipe.drop and recipe.keep:
        value.wrong(
            "found both 'drop' and 'keep', expected one of them: 'keep' leaves out all others.",
            "keep",
        )
    return recipe


def _check_append(value: Value, recipe: Recipe) -> None:
    """Notes what cannot be true of rows that are read one generation at a time."""
    base = recipe.sources.get(recipe.base)
    if recipe.sequence is not None and recipe.sequence.group_by:
        value.wrong(
            "found it with 'group_by': rows of a key that come with new files would not join its "
            "sequence. Leave one of them out.",
            "append",
        )
    if base is not None and base.key:
        value.wrong(
            f"found it with 'key' of the source '{base.name}': that a key is unique is not known "
            "of files that are not read again. Leave "
            "one of them out.",
            "append",
        )
    if any(
        without_date(path) != path for source in recipe.sources.values() for path in source.path
    ):
        value.wrong(
            "found it with a date in a source's 'path', which names the files of one day. Write a "
            "pattern that matches those of all "
            "days, such as clicks/*.jsonl.",
            "append",
        )


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
                f"found source '{join.source}' joined again with the same prefix '{join.prefix}' "
                f"as in join[{first}], "
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
        prefix=keys.read(
            "prefix", lambda item: (read_texts(item, allow_empty=True) or ("",))[0], ""
        ),
        strategy=keys.read("strategy", read_choice(get_args(JoinStrategy)), "auto"),
    )
    keys.finish()
    return join


def _on(value: Value) -> tuple[tuple[str, str], ...] | None:
    if isinstance(value.tree, dict):
        return tuple((read_mapping(value) or {}).items())
    columns = read_texts(value)
    return None if columns is None else tuple((column, column) for column in columns)


def _sequence(value: Value) -> Sequences:
    keys = Keys(value, "a mapping such as {group_by: user, order_by: time} or {features: [tokens]}")
    sequence = Sequences(
        features=keys.read("features", read_texts, ()),
        group_by=keys.read("group_by", read_texts, ()),
        order_by=keys.read("order_by", read_texts, ()),
        context=keys.read("context", read_texts, ()),
        max_length=keys.read("max_length", read_integer(1), None),
    )
    keys.finish()
    given = set(value.tree) if isinstance(value.tree, dict) else {"features"}
    if not given & {"features", "group_by"}:
        value.wrong("found neither 'features' nor 'group_by', expected at least one of them.")
    for key in ("order_by", "context", "max_length"):
        if key in given and "group_by" not in given:
            value.wrong(
                f"found '{key}' without 'group_by', expected the key columns whose rows make a "
                "sequence.",
                key,
            )
    return sequence


def _encode(
    value: Value, encodings: Mapping[str, Any]
) -> dict[str, tuple[tuple[str, Mapping[str, Any]], ...]] | None:
    if not isinstance(value.tree, dict) or not value.tree:
        value.expected("a mapping, one 'column: encoding' a line")
        return None
    return {column: _chain(item, encodings) for column, item in value.items()}


def _chain(value: Value, encodings: Mapping[str, Any]) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """``kind``, ``{kind: parameters}`` or a list of those; a parameter that is no mapping is called
    ``value``.
    """
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
            value.wrong(
                "found several kinds in one mapping, expected one, or a list of steps: [{fill: 0}, "
                "z_score]."
            )
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
    fit = Fit(
        splits=keys.read("splits", read_texts, ()), weight=keys.read("weight", read_text, None)
    )
    keys.finish()
    return fit


def _statistics(value: Value) -> Statistics:
    keys = Keys(value, "a mapping such as {weight: importance, slice_by: [country]}")
    statistics = Statistics(
        weight=keys.read("weight", read_text, None), slice_by=keys.read("slice_by", read_texts, ())
    )
    keys.finish()
    return statistics


def _on_error(value: Value) -> OnError:
    keys = Keys(value, "a mapping such as {reject: 0.1%}")
    none: float = 0
    reject = keys.read("reject", read_budget, none)
    keys.finish()
    return OnError(reject)


def _limits(value: Value) -> Limits:
    keys = Keys(value, "a mapping such as {line_bytes: 256 MiB}")
    limits = Limits(
        line_bytes=keys.read("line_bytes", read_bytes, Limits.line_bytes),
        cell_bytes=keys.read("cell_bytes", read_bytes, Limits.cell_bytes),
        nesting_depth=keys.read(
            "nesting_depth", read_integer(1, MOST_NESTING_DEPTH), Limits.nesting_depth
        ),
        image_pixels=keys.read("image_pixels", read_integer(1), Limits.image_pixels),
        decompression_ratio=keys.read(
            "decompression_ratio", read_integer(1), Limits.decompression_ratio
        ),
        columns=keys.read("columns", read_integer(1), Limits.columns),
        archive_files=keys.read("archive_files", read_integer(1), Limits.archive_files),
    )
    keys.finish()
    return limits


def _output(value: Value) -> Output:
    keys = Keys(value, "a mapping such as {shard_size: 128 MiB}")
    compression: Compression = keys.read("compression", read_choice(get_args(Compression)), "gzip")
    output = Output(
        shard_size=keys.read("shard_size", read_bytes, Output.shard_size),
        num_shards=keys.read("num_shards", read_integer(1, MOST_SHARDS), None),
        shards_multiple_of=keys.read("shards_multiple_of", read_integer(1, MOST_SHARDS), 1),
        compression=compression,
        level=keys.read("level", read_integer(0, 9), 1),
        shuffle=keys.read("shuffle", read_flag, True),
        shuffle_seed=keys.read("shuffle_seed", read_integer(0, (1 << 63) - 1), 0),
        floats=keys.read("floats", read_choice(get_args(Floats)), "round"),
        record=keys.read("record", read_text, None),
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
            f"found 'num_shards: {output.num_shards}' and 'shards_multiple_of: "
            f"{output.shards_multiple_of}', "
            "expected a multiple of it."
        )
    if output.compression == "none" and "level" in given:
        value.wrong(
            "found a level with 'compression: none', expected gzip or zlib with it.", "level"
        )
