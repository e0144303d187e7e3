"""Writes a first recipe from data files.

The recipe has columns, possible joins and open decisions.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Sequence

import pyarrow as pa

from beam_pipelines.cli.recipe_schema import MODELINE, SCHEMA_FILE, schema_text
from beam_pipelines.core.columns import type_name
from beam_pipelines.core.errors import RecipeError, RecipeProblems
from beam_pipelines.recipe.lines import Lines
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.reader import bare_recipe
from beam_pipelines.sources import SHARD_NUMBER
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.storage import files

# Needs no quotes anywhere in YAML.
_PLAIN = re.compile(r"[A-Za-z_./][A-Za-z0-9_./-]*")
_SQL_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_NOT_PLAIN = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")


def write_recipe(data: Sequence[str], output: str, overwrite: bool = False) -> None:
    """Writes a recipe with a source for each data file or pattern.

    The shards of one set are one source. The JSON Schema that editors check the recipe with is
    written next to it.

    The first source is the base.

    Raises:
      RecipeError: the output exists, or a file does not exist or has an unknown format.
      DataError: a file cannot be read.
    """
    if files.exists(output) and not overwrite:
        raise RecipeError(
            f"{output}: is there already. Add --overwrite to replace it, or choose another "
            "--output."
        )
    plans = [_plan(source) for source in name_sources(data)]
    folder = os.path.dirname(output)
    with files.replace(files.join(folder, SCHEMA_FILE)) as file:
        file.write(schema_text().encode())
    with files.replace(output) as file:
        file.write(f"{MODELINE}\n{recipe_text(plans, folder)}".encode())


def name_sources(data: Sequence[str]) -> list[Source]:
    """Returns a source for each path or set of shards.

    It is named after the file. A set is ``x-00000-of-00002.csv`` and ``x-00001-of-00002.csv``.
    Repeated names get a number.
    """
    sets: dict[str, list[str]] = {}
    for number, path in enumerate(data):
        pattern = _pattern_of_set(path)
        sets.setdefault(f"{number} {path}" if pattern == path else pattern, []).append(path)
    sources: list[Source] = []
    for paths in sets.values():
        (source,) = bare_recipe(paths[0]).sources.values()
        taken = {other.name for other in sources}
        numbered = (source.name, *(f"{source.name}_{number}" for number in range(2, len(data) + 2)))
        name = next(name for name in numbered if name not in taken)
        sources.append(
            Source(name, (_pattern_of_set(paths[0]),) if _is_whole(paths) else tuple(paths))
        )
    return sources


def _pattern_of_set(path: str) -> str:
    """Returns the pattern of a shard's whole set; other paths stay."""
    return SHARD_NUMBER.sub(lambda found: f"-{'?' * len(found[1])}-of-{found[2]}", path)


def _is_whole(paths: Sequence[str]) -> bool:
    """Whether paths of one set are all of it."""
    numbers = [SHARD_NUMBER.findall(path) for path in paths]
    if len(paths) == 1 or len(numbers[0]) != 1 or files.has_wildcard(paths[0]):
        return False
    is_count = len(paths) == int(numbers[0][0][1])
    return is_count and {int(found[0][0]) for found in numbers} == set(range(len(paths)))


def _plan(source: Source) -> SourcePlan:
    """Plans a source; with ``infer: lenient`` if there are questions."""
    with Lines(source.path[0]).explained():
        try:
            return plan_source(source, "")
        except RecipeProblems as error:
            if not all(problem.path[-1] in ("formats", "types") for problem in error.problems):
                raise
            return plan_source(dataclasses.replace(source, infer="lenient"), "")


def recipe_text(plans: Sequence[SourcePlan], folder: str) -> str:
    """Returns the recipe as YAML with comments.

    Args:
      plans: of the sources; the first one is the base.
      folder: of the recipe; paths are written relative to it.
    """
    base = plans[0]
    lines = [
        "# What every key means: docs/recipe.md. Lines that begin with # are suggestions.",
        f"name: {quoted(base.source.name)}",
        "",
        "sources:",
    ]
    for plan in plans:
        lines += _source_lines(plan, folder)
    lines += [f"from: {quoted(base.source.name)}  # its rows become examples", ""]
    lines += _join_lines(plans)
    first, last = base.schema.names[0], base.schema.names[-1]
    lines += [
        "# SQL by DuckDB, row by row. The columns are those of the joined rows.",
        f"# filter: {_is_not_null(first)}",
        "# derive:",
        f"#   has_value: {_is_not_null(last)}",
        f"# drop: [{quoted(first)}]",
        f"# label: {quoted(last)}",
        "",
    ]
    lines += _split_lines(base.schema)
    lines += [
        "# A row that cannot be read stops the run. To allow some, which go to rejected/:",
        "# on_error: {reject: 0.1%}",
        "",
        "output:",
        "  shard_size: 128 MiB  # of a shard file, compressed; or num_shards",
        "  compression: gzip    # or zlib, none",
        "  shuffle: true        # false keeps the order of the source",
        "  shuffle_seed: 0",
    ]
    return "\n".join(lines) + "\n"


def _source_lines(plan: SourcePlan, folder: str) -> Iterator[str]:
    source = plan.source
    yield f"  {quoted(source.name)}:"
    paths = [quoted(_relative(path, folder)) for path in source.path]
    if len(paths) == 1:
        yield f"    path: {paths[0]}"
    else:
        yield "    path:"
        yield from (f"      - {path}" for path in paths)
    number = len(plan.files)
    found = f"{plan.format}, {number} file{'' if number == 1 else 's'}, {plan.size_bytes:,} bytes"
    yield f"    # {found}. To change a type: 'types: {{column: text}}'."
    if source.infer == "lenient":
        yield "    infer: lenient  # some columns need a decision and are texts until then:"
    for decision in plan.decisions:
        yield f"    # Found: {decision}"
    width = max(len(quoted(name)) for name in plan.schema.names)
    for field in plan.schema:
        nothing = "  (nothing but nulls in the sample)" if field.name in plan.null_columns else ""
        yield f"    #   {quoted(field.name):<{width}}  {type_name(field.type)}{nothing}"
    yield (
        "    # key: [column]  # columns that are unique together: checked when the source is joined"
    )


def _join_lines(plans: Sequence[SourcePlan]) -> Iterator[str]:
    """Yields possible joins, commented out: by columns of equal name and type."""
    base = plans[0]
    joins = []
    for plan in plans[1:]:
        shared = [field.name for field in plan.schema if can_join(field, base.schema)]
        if shared:
            on = ", ".join(quoted(name) for name in shared)
            prefix = quoted(f"{plan.source.name}_")
            joins.append(
                f"#   - {{source: {quoted(plan.source.name)}, on: [{on}], how: left, prefix: "
                f"{prefix}}}"
            )
        else:
            joins.append(
                f"#   - {{source: {quoted(plan.source.name)}, on: {{left_column: right_column}}, "
                f"how: left}}"
            )
    if joins:
        yield (
            "# Columns of the same name and type are proposed as keys: keep those that belong "
            "together."
        )
        yield "# join:"
        yield from joins
        yield ""


def can_join(field: pa.Field, left: pa.Schema) -> bool:
    """Whether a right column could be a join key.

    A left column must have the same name and type. Floats and lists are no keys.
    """
    is_key = not pa.types.is_floating(field.type) and not pa.types.is_nested(field.type)
    return is_key and field.name in left.names and bool(left.field(field.name).type == field.type)


def _split_lines(schema: pa.Schema) -> Iterator[str]:
    moments = [
        field.name
        for field in schema
        if pa.types.is_date(field.type) or pa.types.is_timestamp(field.type)
    ]
    yield (
        "# Which rows go where follows from a hash of the row as read; with 'by: [columns]' rows "
        "that agree there stay together."
    )
    yield "split: {train: 0.8, eval: 0.2}"
    if moments:
        column = quoted(moments[0])
        yield (
            f"# split: {{column: {column}, train: {{before: 2024-01-01}}, eval: {{after: "
            f"2024-01-01}}}}"
        )
    yield ""


def _relative(path: str, folder: str) -> str:
    if files.is_absolute(path):
        return path
    return os.path.relpath(path, folder or ".")


def quoted(text: str) -> str:
    """Returns a text as a YAML scalar, in quotes if needed.

    Quotes are double, with escapes.
    """
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_PLAIN:
        return text
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if character.isprintable() else f"\\U{ord(character):08x}"


def _is_not_null(column: str) -> str:
    """Returns ``column IS NOT NULL`` as SQL within YAML."""
    if _SQL_NAME.fullmatch(column):
        return f"{column} IS NOT NULL"
    name = column.replace('"', '""')
    return quoted(f'"{name}" IS NOT NULL')
