"""Plans the conversion of new data by a dataset's encodings."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
from collections.abc import Mapping, Sequence

import pyarrow as pa

from beam_pipelines.core import errors
from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.core.layout.dataset_layout import MANIFEST, RAW_SCHEMA_FOLDER, TRANSFORM_GRAPH
from beam_pipelines.core.layout.manifest import Manifest, ManifestSource
from beam_pipelines.core.process.plugins import KNOWN, PLANNERS
from beam_pipelines.dataset.manifest import check_files, read_manifest
from beam_pipelines.encodings import ENCODING_FOR_KIND
from beam_pipelines.files.beam import files, listing
from beam_pipelines.pipeline.planning import lacking as lacking_columns
from beam_pipelines.pipeline.planning.plan import Plan, RunPlan
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.recipe import path_dates
from beam_pipelines.recipe.keys import keys_of
from beam_pipelines.recipe.model import Recipe, Source
from beam_pipelines.recipe.normal_form import from_normalised
from beam_pipelines.recipe.places import place_in
from beam_pipelines.recipe.reader import bare_recipe
from beam_pipelines.recipe.settings import Setting
from beam_pipelines.recipe.splits import Split
from beam_pipelines.sources import FORMATS
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.transforms.select.rename import rename_schema

# Sections that say how rows are read and packed, and keys in them that features depend on.
# Keys of a source that say which table it is.
_SETTABLE = ("output", "on_error", "limits")
_OF_FEATURES = ("record", "floats")


def plan_transform(
    dataset: str,
    new_data: Sequence[str],
    sources: Mapping[str, str],
    split: str | None,
    date: datetime.date | None = None,
    input_roots: Sequence[str] = (),
    settings: Sequence[Setting] = (),
) -> Plan:
    """Plans to convert new data with a dataset's recipe, types and encodings.

    Args:
      dataset: folder of the dataset.
      new_data: paths or patterns that replace those of the recipe's ``from`` source. May be empty
        with a date: then the recipe's own are read.
      sources: other source -> path or pattern of new data. A source that is not named is read from
        the dataset's paths, or with a date from the recipe's paths of that date.
      split: the one split of all rows; ``None``: the dataset grows, by the splits and the sampling
        of its recipe, and the new data have all of its columns.
      date: replaces ``{date}`` in paths.
      input_roots: as in ``make_plan``.
      settings: values for keys of the recipe that leave its features as they are.

    Raises:
      DataError: there is no dataset, or it has no encodings.
      RecipeError, RecipeProblems: the new data do not match its recipe.
    """
    if not new_data and date is None:
        raise errors.RecipeError(
            "found no NEW_DATA, expected new files, or the --date of others in the recipe's paths."
        )
    manifest = read_manifest(dataset)
    check_files(dataset, manifest, RAW_SCHEMA_FOLDER, TRANSFORM_GRAPH)
    recipe = _with_settings(_recipe(dataset, manifest), settings)
    if recipe.preprocessing_fn is not None:
        raise errors.RecipeError(
            f"{dataset}: found the graph of a preprocessing_fn, which is code, expected encodings "
            "alone. If you trust who made it, your own program can run it: "
            f'tensorflow_transform.TFTransformOutput("{files.join(dataset, TRANSFORM_GRAPH)}")'
            ".transform_raw_features(…)."
        )
    graph = _graph_of(dataset, split is not None)
    _check_sources(dataset, recipe, sources)
    paths = {name: (path,) for name, path in sources.items()} | (
        {recipe.base: tuple(new_data)} if new_data else {}
    )
    if date is not None and not new_data:
        _check_has_date(recipe.sources[recipe.base])
    changed = {
        name: as_in_dataset(
            source,
            manifest.sources.get(name),
            paths.get(name),
            recipe.date if date is None else None,
        )
        for name, source in recipe.sources.items()
    }
    for source in changed.values():
        _check_is_whole(source, recipe.base)
    for name in paths:
        lists = manifest.sources[name].columns if name in manifest.sources else {}
        changed[name] = changed[name].with_planning(may_lack=lists)
    if split is not None:
        sample = recipe.sample and recipe.sample.without_sampling()
        recipe = dataclasses.replace(recipe, split=Split(fractions={split: 1.0}), sample=sample)
    changed_recipe = dataclasses.replace(
        recipe,
        sources=changed,
        fit=type(recipe.fit)(),
        schema=None,
        allow_anomalies=(),
        date=date,
    )
    planned: dict[str, SourcePlan] = {}
    plan = None
    with contextlib.suppress(errors.RecipeProblems):  # which come again, unless types are the cause
        plan = make_plan(changed_recipe, None, input_roots, planned)
    typed = {name: _typed(one, planned, manifest) for name, one in changed.items()}
    if plan is None or typed != changed:
        changed_recipe = dataclasses.replace(changed_recipe, sources=typed)
        plan = make_plan(changed_recipe, None, input_roots, planned)
    lacking = lacking_columns.find_lacking(plan)
    lacking_columns.check_features(plan, lacking, dataset)
    extra = [name for name in plan.encode.columns.names if name not in manifest.columns]
    if extra and not recipe.keep:
        drop = (*recipe.drop, *extra)
        changed_recipe = dataclasses.replace(changed_recipe, drop=drop)
        plan = make_plan(changed_recipe, None, input_roots, planned)
    check_columns(dataset, manifest.columns, plan.encode.columns)
    if split is not None:
        plan = _without(plan, changed_recipe, lacking, input_roots, planned)
    else:
        lacking_columns.check_all(dataset, lacking)
    absent = lacking.selected.union(filter(None, {recipe.label} - {plan.recipe.label}))
    contract = lacking_columns.contract_of(dataset, recipe.schema is not None, absent)
    validation = plan.validation._replace(contract=contract)
    return dataclasses.replace(plan, validation=validation, run=RunPlan(graph, of_dataset=True))


def _graph_of(dataset: str, is_needed: bool) -> str:
    """Returns the folder of a dataset's graph, or an empty text."""
    graph = files.join(dataset, TRANSFORM_GRAPH)
    if listing.files_below(graph):
        return graph
    if is_needed:
        raise errors.DataError(
            f"{dataset}: found a dataset without encodings, so there is nothing to apply. Use "
            "convert; or --grow for one more dataset that is read with it as one."
        )
    return ""


def _check_sources(dataset: str, recipe: Recipe, sources: Mapping[str, str]) -> None:
    """Checks that new data can take the place of the recipe's sources."""
    for name in sources:
        if name not in recipe.sources or name == recipe.base:
            known = [other for other in recipe.sources if other != recipe.base]
            raise errors.RecipeError(
                f"--source {name}: unknown source, expected one of {known}."
                f"{errors.nearest(name, known)}"
            )
    if recipe.sources[recipe.base].union is not None:
        raise errors.RecipeError(
            f"{dataset}: found a dataset of the union '{recipe.base}', whose new data would come "
            "from several sources, expected one source. Convert with the recipe."
        )


def _typed(source: Source, planned: dict[str, SourcePlan], manifest: Manifest) -> Source:
    """Returns a source with types that its files cannot know.

    These are columns without any value, and integers that are floats next to nulls.
    """
    plan = planned.get(source.name)
    if plan is None or source.name not in manifest.sources:
        return source
    known = manifest.sources[source.name].columns
    types = {
        field.name: known[field.name]
        for field in plan.read_schema
        if known.get(field.name, type_name(field.type)) != type_name(field.type)
        and field.name not in source.types
        and (
            field.name in plan.null_columns
            or (type_name(field.type), known[field.name]) == ("float64", "int64")
        )
    }
    if types:
        del planned[source.name]
    return dataclasses.replace(source, types={**source.types, **types})


def _without(
    plan: Plan,
    recipe: Recipe,
    lacking: lacking_columns.Lacking,
    input_roots: Sequence[str],
    planned: dict[str, SourcePlan],
) -> Plan:
    """Returns the plan without what new data cannot have."""
    label, why = recipe.label, "its columns are not in the new data"
    if label is not None and label not in lacking.features:
        empty = lacking_columns.find_lacking(plan, with_null_columns=True)
        if label in empty.features:
            lacking = lacking._replace(
                joined=empty.joined, features=lacking.features | {label}, selected=empty.selected
            )
            why = "the new data have no value of it in the sample"
    if not lacking.selected and not lacking.steps:
        return plan
    columns = rename_schema(plan.joins.schema, recipe.rename).names
    bare = lacking_columns.without_lacking(recipe, lacking, columns)
    base = planned[recipe.base]
    decisions = []
    if bare.label != label:
        decisions.append(f"label '{label}' is not written: {why}")
    if bare.filter != recipe.filter:
        decisions.append(
            f"the filter is {bare.filter or 'left out'}: the new data lack columns of the rest"
        )
    planned[recipe.base] = dataclasses.replace(base, decisions=(*base.decisions, *decisions))
    plan = make_plan(bare, None, input_roots, planned)
    written = tuple(name for name in plan.encode.written if bare.label == label or name != label)
    if not written:
        raise errors.RecipeError(
            f"sources.{recipe.base}: the new data lack '{label}', the only feature; expected "
            "columns of features. Keep one with 'encode', and convert again."
        )
    return dataclasses.replace(plan, encode=dataclasses.replace(plan.encode, written=written))


def _recipe(dataset: str, manifest: Manifest) -> Recipe:
    try:
        recipe = from_normalised(manifest.recipe, manifest.directory)
        date = manifest.date
        return dataclasses.replace(
            recipe, date=None if date is None else path_dates.parse_date(date)
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise errors.DataError(
            f"{files.join(dataset, MANIFEST)}: found no recipe that this version reads "
            f"({error!r}). Convert again with --overwrite."
        ) from error


def _with_settings(recipe: Recipe, settings: Sequence[Setting]) -> Recipe:
    """Returns the recipe of a dataset with other values for some keys.

    Raises:
      RecipeError: a key is not one of those, or has a wrong value.
    """
    for setting in settings:
        section, *key = setting.path[:2]
        if section not in _SETTABLE or not key or key[0] in _OF_FEATURES:
            raise errors.RecipeError(
                f"{setting.option}: found a key that the dataset's features follow from, expected "
                f"one in {', '.join(_SETTABLE)}, such as output.num_shards=4. To change the "
                "features, convert with another recipe."
            )
    # A bare recipe reads the values, and has the defaults of all other keys.
    bare = bare_recipe(recipe.base, FORMATS, ENCODING_FOR_KIND, settings)
    for setting in settings:
        section, name = (str(step) for step in setting.path[:2])
        read = getattr(bare, section)
        field = next(field for field, key in keys_of(type(read)).items() if key.name == name)
        value = {field: getattr(read, field)}
        changed = dataclasses.replace(getattr(recipe, section), **value)
        recipe = dataclasses.replace(recipe, **{section: changed})
    return recipe


def _check_has_date(base: Source) -> None:
    """Raises ``RecipeError`` if the recipe reads the same file on every date."""
    if not any(path_dates.has_date(path) for path in base.path):
        raise errors.RecipeError(
            f"found --date without NEW_DATA, and the recipe's path of '{base.name}', "
            f"{', '.join(base.path)}, has no {{date}}. Name the new files."
        )


def _check_is_whole(source: Source, base: str) -> None:
    """Raises ``RecipeError`` if secrets of a source's URL are lost."""
    texts = {"path": source.path, **source.options}
    for key, value in texts.items():
        several = value if isinstance(value, (list, tuple)) else [value]
        for text in several:
            if not (isinstance(text, str) and "://" in text and errors.HIDDEN in text):
                continue
            cure = f"Give it with --source {source.name}=URL."
            if key != "path":
                cure = "Convert the new data with the recipe."
            elif source.name == base:
                cure = "Name the new data."
            raise errors.RecipeError(
                f"'{key}' of source '{source.name}': found {text}, as a dataset keeps no secrets "
                f"of URLs, expected the whole URL. {cure}"
            )


def _with_place(source: Source, path: tuple[str, ...]) -> Source:
    """Returns the source with new data: files, or a table."""
    # Files have no keys of tables alone.
    names, tables = FORMATS.option_names, KNOWN[PLANNERS].keys()
    options = {
        key: value for key, value in source.options.items() if not {*names.get(key, ())} <= tables
    }
    if len(path) == 1:
        (new,) = bare_recipe(path[0], FORMATS).sources.values()
        path, options = new.path, {**options, **new.options}
    return dataclasses.replace(
        source,
        path=tuple(files.absolute(item) for item in path),
        format=None if FORMATS.is_planned(source.format) else source.format,
        options=options,
    )


def as_in_dataset(
    source: Source,
    entry: ManifestSource | None,
    path: tuple[str, ...] | None = None,
    date: datetime.date | None = None,
) -> Source:
    """Returns the source with the options, types and classes of the dataset.

    They replace those that would be found or inferred.

    Args:
      source: of the dataset's recipe.
      entry: the source's entry in the manifest.
      path: of the new data; ``None``: the recipe's.
      date: the dataset's date, to keep it, or ``None``.
    """
    if path is not None:
        source = _with_place(source, path)
    elif date is not None:
        source = dataclasses.replace(
            source, path=tuple(path_dates.fill_date(item, date) for item in source.path)
        )
    is_table = place_in(source.options) is not None or (
        path is None and entry is not None and FORMATS.is_planned(entry.format)
    )
    if entry is not None and entry.snapshot and not is_table:
        # Files in place of a table, whose types they have not.
        return dataclasses.replace(source, types={**entry.columns, **source.types})
    # Planning reports a format that is not known.
    if entry is None or entry.format not in FORMATS:
        return source
    found = {**(entry.found or {})}
    columns = found.pop("columns", ())
    types = {name: entry.columns[name] for name in entry.partitions}
    options = {**found, **source.options}
    types = {**types, **source.types}
    columns = source.columns or tuple(columns)
    source = dataclasses.replace(source, columns=columns, types=types, options=options)
    return FORMATS[entry.format].pin(source, entry.columns, entry.labels)


def check_columns(dataset: str, before: Mapping[str, str], columns: pa.Schema) -> None:
    """Checks that new data have the columns of the encodings.

    Args:
      dataset: its folder, for the message.
      before: column -> type after joins and selection, in the dataset.
      columns: of the new data.

    Raises:
      RecipeError: names all columns that differ.
    """
    now = {field.name: type_name(field.type) for field in columns}
    wrong = [
        f"column '{name}': found {now.get(name, 'none')}, expected {before.get(name, 'none')} as "
        f"in {dataset}"
        for name in {**before, **now}
        if before.get(name) != now.get(name)
    ]
    if wrong:
        raise errors.RecipeError("\n".join(wrong))
