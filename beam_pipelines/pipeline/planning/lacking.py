"""Finds columns that new data lack, and leaves out what needs them.

A column that new data lack is null. Features must not be made from it, but for the label, which is
then not written. Conditions that need it are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from beam_pipelines.analysis.schema import read_schema
from beam_pipelines.core.errors import RecipeError
from beam_pipelines.core.layout.dataset_layout import RAW_SCHEMA
from beam_pipelines.core.layout.schema_features import features_of
from beam_pipelines.files.beam import files
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.wrapping.partitions import WithNulls
from beam_pipelines.sql.conjuncts import conjuncts_of
from beam_pipelines.sql.expressions import parse_expression

_Column = tuple[str, str]  # of a source


class Lacking(NamedTuple):
    """Names that new data have no values for.

    Attributes:
      joined: columns after the joins and ``rename``, which the filter sees.
      selected: columns before encoding.
      features: features made from them.
      steps: numbers of the joins without a key.
      causes: name -> the columns of sources that it lacks.
    """

    joined: frozenset[str]
    selected: frozenset[str]
    features: frozenset[str]
    steps: frozenset[int] = frozenset()
    causes: Mapping[str, Collection[_Column]] = MappingProxyType({})


def find_lacking(plan: Plan, with_null_columns: bool = False) -> Lacking:
    """Returns what a plan's columns that files lack make.

    Args:
      plan: of new data.
      with_null_columns: counts columns that are null in the sample, and what is made of such
        columns alone, too.
    """
    combine = all if with_null_columns else any

    def of(source: SourcePlan) -> dict[str, set[_Column]]:
        absent = set(source.reader.names) if isinstance(source.reader, WithNulls) else set()
        absent |= {*source.null_columns} if with_null_columns else set()
        found = {name: {(source.source.name, name)} for name in absent}
        for expression in source.derive:
            _add(found, expression.name, expression.columns, combine)
        return found

    names, steps = of(plan.base), set()
    for number, step in enumerate(plan.joins.steps):
        own = of(step.source_plan)
        if keys := names.keys() & set(step.join.left_keys):
            steps.add(number)
            own = {name: set().union(*(names[key] for key in keys)) for name, _ in step.made}
        names |= {result: own[name] for name, result in step.made if name in own}
    names = {plan.recipe.rename.get(name, name): causes for name, causes in names.items()}
    joined = frozenset(names)
    for expression in plan.select.derive:
        _add(names, expression.name, expression.columns, combine)
    selected = frozenset(names)
    for chain in plan.encode.chains:
        _add(names, chain.name, chain.inputs, combine)
    features = frozenset(names.keys() & set(plan.encode.written))
    return Lacking(joined, selected, features, frozenset(steps), names)


def _add(
    names: dict[str, set[_Column]], made: str, of: Collection[str], combine: Callable[..., bool]
) -> None:
    lacks = combine(name in names for name in of) if of else False
    causes: set[_Column] = set().union(*(names.get(name, ()) for name in of))
    names.pop(made, None)
    if lacks:
        names[made] = causes


def check_features(plan: Plan, lacking: Lacking, dataset: str) -> None:
    """Raises ``RecipeError`` if a feature needs a column that files lack.

    It names those columns, and no others.
    """
    wrong = sorted(lacking.features - {plan.recipe.label})
    if not wrong:
        return
    lines = []
    needed = {column for name in wrong for column in lacking.causes[name]}
    for name, source in plan.sources.items():
        if not isinstance(source.reader, WithNulls):
            continue
        if absent := ", ".join(f"'{one}'" for one in source.reader.names if (name, one) in needed):
            read = source.as_read.schema.names
            there = ", ".join(f"'{c}'" for c in read if c not in source.reader.names)
            lines.append(f"source '{name}': found no column {absent}. It has {there}.")
    made = ", ".join(f"'{name}'" for name in wrong)
    lines.append(f"Expected the columns that the features {made} of {dataset} are made from.")
    raise RecipeError("\n".join(lines))


def without_lacking(recipe: Recipe, lacking: Lacking, columns: Iterable[str]) -> Recipe:
    """Returns the recipe without what cannot be had.

    Args:
      recipe: of the dataset.
      lacking: what the new data lack.
      columns: the columns that the filter sees.
    """
    known = list(columns)
    condition = recipe.filter
    if condition is not None:
        parts = [
            part
            for part in conjuncts_of(condition)
            if not lacking.joined.intersection(parse_expression("filter", part, known).columns)
        ]
        condition = " AND ".join(parts) or None
    weight = recipe.statistics.weight
    return dataclasses.replace(
        recipe,
        label=None if recipe.label in lacking.features else recipe.label,
        filter=condition,
        join=tuple(
            dataclasses.replace(join, how="left", require_match=None)
            if number in lacking.steps
            else join
            for number, join in enumerate(recipe.join)
            if join.adds_columns or number not in lacking.steps
        ),
        statistics=dataclasses.replace(recipe.statistics, weight=None)
        if weight in lacking.selected
        else recipe.statistics,
    )


def check_all(dataset: str, lacking: Lacking) -> None:
    """Checks that new data have all columns of a dataset."""
    if lacking.selected or lacking.steps:
        names = ", ".join(sorted(lacking.selected)) or "those of the filter"
        raise RecipeError(
            f"found new data without columns that {dataset} was made from ({names}), expected all, "
            "as the two are read as one. Leave --grow out to convert without them."
        )


def contract_of(dataset: str, is_curated: bool, lacking: Collection[str]) -> bytes:
    """Returns the dataset's schema as the new data's contract.

    A curated schema holds as it is. An inferred string domain has only the strings of the training
    data, and encodings handle others; so it is left out. Columns that the
    new data lack may be null.
    """
    schema = read_schema(files.within(dataset, RAW_SCHEMA))
    for feature in features_of(schema):
        if feature.name in lacking:
            feature.ClearField("presence")
            feature.ClearField("shape")
            feature.ClearField("value_count")
    if not is_curated:
        for feature in features_of(schema):
            if feature.HasField("domain"):
                feature.ClearField("domain")
        del schema.string_domain[:]
    data: bytes = schema.SerializeToString()
    return data
