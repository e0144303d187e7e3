"""Writes a first recipe from data files.

It has joins, a label, a split and encodings, each with its reason, and open decisions.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

from beam_pipelines.cli.recipe_schema import MODELINE, SCHEMA_FILE, schema_text
from beam_pipelines.cli.recipe_text import recipe_text
from beam_pipelines.core.errors import PipelineError, RecipeError, RecipeProblems
from beam_pipelines.encodings import ENCODING_FOR_KIND
from beam_pipelines.pipeline import recipes
from beam_pipelines.pipeline.draft import make_draft, with_base_first
from beam_pipelines.pipeline.image_draft import draft_of_images
from beam_pipelines.recipe import reader
from beam_pipelines.recipe.model import Recipe, Source
from beam_pipelines.sources import FORMATS, SHARD_NUMBER, format_of_path
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.storage import files, input_files
from beam_pipelines.storage.spool import STDIN

# Formats of tables whose columns are compared, in folders of at most so many files.
_TABLES = ("csv", "tsv", "json_lines", "json", "parquet", "arrow", "avro", "orc")
_MOST_FILES = 50


def write_recipe(data: Sequence[str], output: str, overwrite: bool = False) -> None:
    """Writes a recipe with a source for each data file or pattern.

    The shards of one set are one source. The JSON Schema that editors check the recipe with is
    written next to it.

    The first source is the base.

    Raises:
      RecipeError: the output, or another file in place of the JSON Schema, exists; or a file of
        data does not exist or has an unknown format.
      DataError: a file cannot be read.
    """
    if files.exists(output) and not overwrite:
        raise RecipeError(
            f"{output}: is there already. Add --overwrite to replace it, or choose another "
            "--output."
        )
    if STDIN in data:
        raise RecipeError("-: a recipe needs the path of a file, which it reads again. Name one.")
    known, folder, note = _image_recipe(data), os.path.dirname(output), ""
    questions: dict[str, list[str]] = {}
    try:
        sources = known.sources.values() if known else name_sources(data)
        plans = [_plan(source, questions) for source in sources]
    except PipelineError:
        tables = _tables_in(data)
        if not tables:
            raise
        plans = with_base_first([_plan(source, questions) for source in tables])
        note = f", as the most tables in {data[0]} can be joined to them"
    draft = draft_of_images(known, plans, _folders(data)[0]) if known else make_draft(plans)
    text = recipe_text(plans, draft, folder, note, questions)
    schema_path, schema = files.join(folder, SCHEMA_FILE), schema_text().encode()
    if not files.exists(schema_path) or files.read_bytes(schema_path) != schema:
        if files.exists(schema_path) and not overwrite:
            raise RecipeError(
                f"{schema_path}: found another file, expected the JSON Schema of recipes of this "
                "version, which is written next to the recipe. Add --overwrite to replace it, or "
                "choose another folder."
            )
        with files.replace(schema_path) as file:
            file.write(schema)
    with files.replace(output) as file:
        file.write(f"{MODELINE}\n{text}".encode())


def _image_recipe(data: Sequence[str]) -> Recipe | None:
    """Returns the recipe of a folder of images, perhaps with a table.

    It is ``None`` for other data.
    """
    folders = _folders(data)
    tables = [path for path in data if format_of_path(path) in _TABLES and path not in folders]
    if len(folders) != 1 or len(tables) > 1 or len(folders + tables) < len(data):
        return None
    found = recipes.of_images(folders[0], *tables)
    if found is None:
        return None
    recipe, _ = reader.set_bare_recipe(folders[0], (), FORMATS, ENCODING_FOR_KIND, found)
    return recipe


def _folders(data: Sequence[str]) -> list[str]:
    return [path for path in data if os.path.isdir(path)]


def _tables_in(data: Sequence[str]) -> list[Source]:
    """Returns a source for each table in a folder, the largest first.

    Files of equal columns are one table. There are none if the folder is one table.
    """
    if len(data) != 1 or not files.is_local(data[0]) or not os.path.isdir(data[0]):
        return []
    listed = input_files.list_files(files.join(data[0], "*"))
    paths = [file.path for file in listed if format_of_path(file.path) in _TABLES]
    if not 1 < len(paths) <= _MOST_FILES:
        return []
    tables: dict[tuple[str, ...], list[str]] = {}
    for path in paths:
        columns = tuple(_plan(name_sources([path])[0], {}).schema.names)
        tables.setdefault(columns, []).append(path)
    if len(tables) == 1:
        return []
    size = {file.path: file.size_bytes for file in listed}
    groups = sorted(tables.values(), key=lambda group: -sum(size[path] for path in group))
    named = name_sources([group[0] for group in groups])
    return [
        dataclasses.replace(
            source, path=source.path if len(group) == 1 else tuple(group), keeps_steps=False
        )
        for source, group in zip(named, groups, strict=True)
    ]


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
        (source,) = reader.bare_recipe(paths[0]).sources.values()
        taken = {other.name for other in sources}
        numbered = (source.name, *(f"{source.name}_{number}" for number in range(2, len(data) + 2)))
        name = next(name for name in numbered if name not in taken)
        own = (_pattern_of_set(paths[0]),) if _is_whole(paths) else tuple(paths)
        if source.url is not None or source.path != (paths[0],):  # a table, or part of a file
            sources.append(dataclasses.replace(source, name=name, keeps_steps=not sources))
            continue
        # The rows of the first source become records, those of others are joined.
        sources.append(Source(name, own, keeps_steps=not sources))
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


def _plan(source: Source, questions: dict[str, list[str]]) -> SourcePlan:
    """Plans a source; if there are questions, with ``infer: lenient``.

    It adds the questions.
    """
    with reader.bare_lines(source.name, source.url or source.path[0]).explained():
        try:
            return plan_source(source, "")
        except RecipeProblems as error:
            if not all(problem.path[-1] in ("formats", "types") for problem in error.problems):
                raise
            questions[source.name] = [problem.message for problem in error.problems]
            return plan_source(dataclasses.replace(source, infer="lenient"), "")
