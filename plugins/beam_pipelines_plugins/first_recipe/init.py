"""Writes a first recipe from data files.

It has joins, a label, a split and encodings, each with its reason, and open decisions.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence

from beam_pipelines.core.errors import PipelineError, RecipeError, RecipeProblems
from beam_pipelines.core.layout.dataset_layout import RECIPE_SCHEMA
from beam_pipelines.encodings import ENCODING_FOR_KIND
from beam_pipelines.files.beam import files
from beam_pipelines.pipeline.planning import plan_recipe, recipes
from beam_pipelines.pipeline.planning.private import values_hidden
from beam_pipelines.recipe import reader
from beam_pipelines.recipe.model import Recipe, Source
from beam_pipelines.recipe.places import place_in
from beam_pipelines.recipe.settings import Setting
from beam_pipelines.recipe.text.yaml import Scalar, Tree
from beam_pipelines.sources import FORMATS, SHARD_NUMBER, format_of_path
from beam_pipelines.sources.files.listing import has_table_log
from beam_pipelines.sources.files.split_names import splits_of
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.transforms.read import read_range
from beam_pipelines.transforms.row_positions import RowPositions
from beam_pipelines_plugins.first_recipe import draft_sources
from beam_pipelines_plugins.first_recipe.draft import joined_encodings, make_draft, with_base_first
from beam_pipelines_plugins.first_recipe.image_draft import draft_of_images, others_in
from beam_pipelines_plugins.first_recipe.recipe_text import recipe_text, with_encodings
from beam_pipelines_plugins.schemas.recipe_schema import MODELINE, schema_text

# The paths of a table; plans the table of one path.
Paths = tuple[str, ...]
PlanOne = Callable[[str], SourcePlan]
# The first type that the error of a row proposes.
# Whether a list of JSON is kept as a text is for the user to choose.
_TYPE = re.compile(r"'types: \{[^}]*: ([a-z0-9<>]+)\}'(?! to keep its JSON)")
_TABLES = ("csv", "tsv", "json_lines", "json", "parquet", "arrow", "avro", "orc")


def write_recipe(
    data: Sequence[str], output: str, overwrite: bool = False, settings: Sequence[Setting] = ()
) -> list[draft_sources.LeftOut]:
    """Writes a recipe with a source for each data file or pattern.

    The shards of one set are one source. The JSON Schema that editors check the recipe with is
    written next to it.

    The base is the source with the label and the most rows that others can be joined to.

    Args:
      data: files, patterns and folders; or one recipe, which gets encodings.
      output: the recipe to write.
      overwrite: whether to replace it.
      settings: of keys of sources, which the recipe has.

    Returns:
      The data files that cannot be read, which are no sources.

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
    folder = os.path.dirname(output)
    for setting in settings:
        if setting.path[0] != "sources" or len(setting.path) < 3 or recipes.is_recipe(data[0]):
            raise RecipeError(
                f"{setting.option}: found it with 'init', expected keys of sources of data, such "
                "as --set sources.orders.skip_lines=1. Write others into the recipe."
            )
    if len(data) == 1 and recipes.is_recipe(data[0]):
        text = _encoded(data[0], folder)
        with files.replace(output) as file:
            file.write(text.encode())
        return []
    questions: dict[str, list[str]] = {}
    known, reason = _image_recipe(data, settings)
    if known:
        plans = [_plan(source, questions) for source in known.sources.values()]
        unread = tuple(others_in(_folders(data)[0], plans))
        tables = draft_sources.FoundTables(tuple(plans), left_out=unread)
        draft = draft_of_images(known, plans)
    else:
        tables = _tables(data, questions, reason, settings)
        _check_names(tables, settings)
        draft = make_draft(tables)
    text = recipe_text(tables, draft, folder, questions)
    schema_path, schema = files.join(folder, RECIPE_SCHEMA), schema_text().encode()
    if files.exists(schema_path) and not overwrite and files.read_bytes(schema_path) != schema:
        raise RecipeError(
            f"{schema_path}: found another file, expected the JSON Schema of recipes of this "
            "version, which is written next to the recipe. Add --overwrite to replace it, or "
            "choose another folder."
        )
    with files.replace(schema_path) as file:
        file.write(schema)
    with files.replace(output) as file:
        file.write(f"{MODELINE}\n{text}".encode())
    return [one for one in tables.left_out if one.is_unreadable]


def _encoded(path: str, folder: str) -> str:
    """Returns the text of a recipe with encodings of its joined columns."""
    if os.path.normpath(os.path.dirname(path)) != os.path.normpath(folder):
        raise RecipeError(
            f"{path}: found the --output in another folder, expected it in the folder of the "
            "recipe, where its paths start."
        )
    plan = plan_recipe.plan(path)
    with values_hidden(plan.recipe):
        proposals = joined_encodings(plan)
    return with_encodings(files.read_document(path).decode("utf-8-sig"), path, proposals)


def _image_recipe(data: Sequence[str], settings: Sequence[Setting]) -> tuple[Recipe | None, str]:
    """Returns the recipe of a folder of images, perhaps with a table.

    It is ``None`` for other data, with the reason if there are images.
    """
    folders = _folders(data)
    tables = [path for path in data if format_of_path(path) in _TABLES and path not in folders]
    if len(folders) != 1 or len(tables) > 1 or len(folders + tables) < len(data):
        return None, ""
    try:
        found = recipes.of_images(folders[0], *tables)
    except PipelineError as error:
        if tables:
            raise
        return None, str(error)
    if found is None:
        return None, ""
    return reader.bare_recipe(folders[0], FORMATS, {}, settings, found), ""


def _folders(data: Sequence[str]) -> list[str]:
    return [path for path in data if files.is_local(path) and os.path.isdir(path)]


def _check_names(tables: draft_sources.FoundTables, settings: Sequence[Setting]) -> None:
    """Raises ``RecipeError`` for a setting of a source that is not there."""
    names = [plan.source.name for plan in tables.plans]
    for setting in settings:
        if setting.path[1] not in names:
            wrong = [one.reason for one in tables.left_out if one.reason.startswith("--set")]
            unknown = f"there is no source '{setting.path[1]}'. They are {', '.join(names)}."
            raise RecipeError(wrong[0] if wrong else f"{setting.option}: {unknown}")


def _tables(
    data: Sequence[str], questions: dict[str, list[str]], images: str, settings: Sequence[Setting]
) -> draft_sources.FoundTables:
    """Plans the tables of files and folders, the base first.

    Raises:
      PipelineError: there are none; it is the error of the first file.
    """

    def plan_one(path: str) -> SourcePlan:
        return _plan(name_sources([(path,)], settings)[0], {})

    folders = _folders(data)
    tables = _series([path for path in data if path not in folders], plan_one)
    left_out: list[draft_sources.LeftOut] = []
    for path in folders:
        try:
            own, others = _tables_in(path, plan_one)
        except PipelineError:
            if images:
                raise RecipeError(images) from None
            raise
        tables += own
        left_out += [
            one._replace(reason=images) if images and "an image;" in one.reason else one
            for one in others
        ]
    sources = name_sources(tables, settings)
    plans, unlike = draft_sources.united([_readable(_plan(one, questions)) for one in sources])
    found = with_base_first(plans)
    base = found.plans[0]
    if not base.source.planning.keeps_steps:
        again = _plan(base.source.with_planning(keeps_steps=True), {})
        again = dataclasses.replace(again, decisions=base.decisions)
        found = found._replace(plans=(again, *found.plans[1:]))
    return found._replace(left_out=(*found.left_out, *left_out, *unlike))


def _readable(plan: SourcePlan) -> SourcePlan:
    """Declares types that 1 % of rows need, as mixed JSON does."""
    notes: tuple[str, ...] = ()
    while True:
        states = RowPositions(plan).quote_states(plan.ranges[0])
        first = next(iter(read_range(plan, plan.ranges[0], states, reject=True)))
        rows = first.batch.num_rows + len(first.rejected)
        matches = [(row, _TYPE.search(row.reason)) for row in first.rejected]
        needed = [(row.column, match[1]) for row, match in matches if match]
        [((column, type_), number)] = Counter(needed).most_common(1) or [(("", ""), 0)]
        if 100 * number <= rows or column in plan.source.types:
            return plan
        reasons = (row.reason for row, match in matches if match and row.column == column)
        reason = next(reasons).partition(", expected")[0]
        notes += (f"{column} is declared {type_}, as {number:,} of {rows:,} rows need: {reason}",)
        source = plan.source
        tried = _plan(dataclasses.replace(source, types={**source.types, column: type_}), {})
        plan = dataclasses.replace(tried, decisions=(*tried.decisions, *notes))


def _series(paths: Sequence[str], plan: PlanOne) -> list[Paths]:
    """Returns the paths of tables.

    Those of a set, or of a series with equal columns, are together.
    """
    series: dict[tuple[bool, str], list[str]] = {}
    for number, path in enumerate(paths):
        is_shard = bool(SHARD_NUMBER.search(path))
        key = SHARD_NUMBER.sub(r"-of-\2", path) if is_shard else f"{number} {path}"
        if not is_shard and os.path.isfile(path):
            key = draft_sources.series_of(path)
        series.setdefault((is_shard, key), []).append(path)
    found: list[Paths] = []
    for (is_shard, _), alike in series.items():
        if len({*alike}) < 2 or not os.path.isfile(alike[0]):
            found += [tuple(alike)] if is_shard else [(path,) for path in alike]
            continue
        groups = (
            [alike] if is_shard else [own for own, _ in draft_sources.grouped(alike, "", plan)[0]]
        )
        around = [one.path for one in os.scandir(os.path.dirname(alike[0]) or ".")]
        around = [os.path.normpath(path) for path in around]
        found += [draft_sources.pattern_of(own, around) for own in groups]
        taken = {path for own in groups for path in own}
        found += [(path,) for path in alike if path not in taken]  # planning says what is wrong
    return found


def _tables_in(folder: str, plan: PlanOne) -> tuple[list[Paths], list[draft_sources.LeftOut]]:
    """Returns the paths of a folder's tables, and what is left out."""
    if has_table_log(folder):
        return [(folder,)], []
    paths, left_out = draft_sources.files_of(folder)
    groups, unread = draft_sources.grouped(paths, folder, plan)
    if not groups:
        plan(folder)  # its error says what is wrong
        return [(folder,)], []
    if len(groups) == 1 and len(groups[0][0]) == len(paths):
        own = groups[0][0]
        others = [one for one in left_out if format_of_path(one.path) or one.reason == "empty"]
        names = {*splits_of(own).values()}
        if not others and len(own) > 1 and (len(names) == 1 or "train" not in names):
            return [(folder,)], left_out
    shown = [one.path for one in (*left_out, *unread) if one.reason != "hidden"]
    tables = [_whole_folder(own, folder, [*paths, *shown]) for own, _ in groups]
    return tables, [*left_out, *unread]


def _whole_folder(own: Sequence[str], folder: str, paths: Sequence[str]) -> tuple[str, ...]:
    """Returns the folder of all files of a table, or a pattern."""
    below = os.path.dirname(own[0])
    inside = {path for path in paths if path.startswith(f"{below}/")}
    if len(own) > 1 and below != folder.rstrip("/") and inside == {*own}:
        return (below,)
    return draft_sources.pattern_of(own, paths)


def name_sources(tables: Sequence[Paths], settings: Sequence[Setting] = ()) -> list[Source]:
    """Returns a source for each table, named after its first file.

    Repeated names get a number.

    Args:
      tables: the paths of each.
      settings: of keys of the sources, by their names.
    """
    sources: dict[str, Source] = {}
    for paths in tables:
        plain = reader.bare_name(paths[0])
        numbered = (f"{plain}_{number}" for number in itertools.count(2))
        name = next(name for name in itertools.chain([plain], numbered) if name not in sources)
        places: list[Tree] = [Scalar(path, path) for path in paths]
        place = places if len(places) > 1 else places[0]
        found: Tree = {"name": Scalar(name, name), "sources": {name: place}}
        own = [setting for setting in settings if setting.path[1] == name]
        recipe = reader.bare_recipe(paths[0], FORMATS, ENCODING_FOR_KIND, own, found)
        # The rows of a single source become records, those of others are joined.
        sources[name] = recipe.sources[name].with_planning(keeps_steps=len(tables) == 1)
    return list(sources.values())


def _plan(source: Source, questions: dict[str, list[str]]) -> SourcePlan:
    """Plans a source; if there are questions, with ``infer: lenient``.

    It adds the questions.
    """
    with reader.bare_lines(source.name, place_in(source.options) or source.path[0]).explained():
        try:
            return plan_source(source, "")
        except RecipeProblems as error:
            if not all(problem.path[-1] in ("formats", "types") for problem in error.problems):
                raise
            questions[source.name] = [problem.message for problem in error.problems]
            return plan_source(dataclasses.replace(source, infer="lenient"), "")
