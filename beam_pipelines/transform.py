"""Plans the conversion of new data by the encodings that a dataset was fitted with; nothing is fitted again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import pyarrow as pa

from beam_pipelines import files
from beam_pipelines.columns import type_name
from beam_pipelines.commit import RAW_SCHEMA
from beam_pipelines.errors import DataError, RecipeError, nearest
from beam_pipelines.manifest import FILE_NAME, Manifest, read_manifest
from beam_pipelines.planning import Plan, make_plan
from beam_pipelines.recipe import Recipe, Source, Split, from_normalised
from beam_pipelines.schema import read_schema
from beam_pipelines.sources import TEXT_FORMATS


def plan_transform(dataset: str, new_data: Sequence[str], sources: Mapping[str, str], split: str) -> Plan:
    """Plans to convert new data as a dataset was converted: same recipe, same types, same encodings.

    Args:
      dataset: folder of the dataset.
      new_data: paths or patterns of what takes the place of the recipe's ``from`` source.
      sources: other source -> path or pattern of new data; those not named are read from where the dataset's were.
      split: the one split that all rows go to.

    Raises:
      DataError: there is no dataset, or it encodes nothing.
      RecipeError, RecipeProblems: the new data do not fit its recipe.
    """
    manifest = read_manifest(dataset)
    recipe = _recipe(dataset, manifest)
    graph = files.join(dataset, "transform_graph")
    if not files.exists(graph):
        raise DataError(
            f"{dataset}: found a dataset without encodings, which there is nothing to apply of. Use convert."
        )
    for name in sources:
        if name not in recipe.sources or name == recipe.base:
            known = [other for other in recipe.sources if other != recipe.base]
            raise RecipeError(f"--source {name}: unknown source, expected one of {known}.{nearest(name, known)}")
    paths = {recipe.base: tuple(new_data), **{name: (path,) for name, path in sources.items()}}
    changed = {
        name: _changed(source, manifest["sources"].get(name), paths.get(name))
        for name, source in recipe.sources.items()
    }
    plan = make_plan(
        dataclasses.replace(
            recipe, sources=changed, split=Split(fractions={split: 1.0}), fit=type(recipe.fit)(), schema=None
        )
    )
    _check_columns(dataset, manifest["columns"], plan.encode.columns)
    contract = _contract(dataset, is_curated=recipe.schema is not None)
    return dataclasses.replace(plan, contract=contract, transform_graph=graph)


def _recipe(dataset: str, manifest: Manifest) -> Recipe:
    try:
        return from_normalised(manifest["recipe"], manifest["directory"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"{files.join(dataset, FILE_NAME)}: found no recipe that this version reads ({error!r}). Convert again with --overwrite."
        ) from error


def _changed(source: Source, entry: Manifest | None, path: tuple[str, ...] | None) -> Source:
    """Returns the source with its new path and, where types would be inferred, with those that they were inferred to be."""
    if path is not None:
        source = dataclasses.replace(source, path=tuple(files.absolute(item) for item in path))
    if entry is None or entry["format"] not in TEXT_FORMATS:
        return source
    return dataclasses.replace(source, types={**entry["columns"], **source.types}, infer="sample")


def _check_columns(dataset: str, before: Mapping[str, str], columns: pa.Schema) -> None:
    """Checks that the new data has the columns, after joins and selection, that the encodings were fitted on."""
    now = {field.name: type_name(field.type) for field in columns}
    wrong = [
        f"column '{name}': found {now.get(name, 'none')}, expected {before.get(name, 'none')} as in {dataset}"
        for name in {**before, **now}
        if before.get(name) != now.get(name)
    ]
    if wrong:
        raise RecipeError("\n".join(wrong))


def _contract(dataset: str, is_curated: bool) -> bytes:
    """Returns the dataset's schema as the new data's contract.

    A schema that somebody wrote holds as it is. In an inferred one, the values of a text column are those that happened to be
    there: encodings know what to do with others, so that they are no anomalies.
    """
    schema = read_schema(files.join(dataset, *RAW_SCHEMA.split("/")))
    if not is_curated:
        for feature in schema.feature:
            if feature.HasField("domain"):
                feature.ClearField("domain")
        del schema.string_domain[:]
    data: bytes = schema.SerializeToString()
    return data
