"""Plans a conversion, part after part.

If a part has a problem, those that need it are left out. All others are planned, so that one pass
finds the problems of independent parts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn, ParamSpec, TypeVar

import pyarrow as pa

from beam_pipelines.analysis.statistics import plan_statistics
from beam_pipelines.core.errors import Problem, RecipeProblems
from beam_pipelines.core.process.full_package import tensorflow_lacks
from beam_pipelines.encodings.plan import EncodePlan
from beam_pipelines.encodings.planner import plan_encode
from beam_pipelines.files.beam.input_roots import only_below
from beam_pipelines.pipeline.planning import feature_lists
from beam_pipelines.pipeline.planning.plan import Plan, Validation, source_labels
from beam_pipelines.pipeline.planning.policy import read_contract, read_policy
from beam_pipelines.pipeline.planning.private import private_problems, values_hidden
from beam_pipelines.pipeline.planning.sources import check_date, plan_sources
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.splits import Split
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources import format_of
from beam_pipelines.sources.exact_cast import rounded_columns
from beam_pipelines.sources.files.split_names import split_patterns
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.transforms import group
from beam_pipelines.transforms.join.plan import JoinPlan, plan_join
from beam_pipelines.transforms.preprocessing.function import plan_preprocessing
from beam_pipelines.transforms.select.protect import with_fingerprints
from beam_pipelines.transforms.select.rename import rename_schema
from beam_pipelines.transforms.select.select import divide_filter, plan_select
from beam_pipelines.transforms.shards import shard_name
from beam_pipelines.transforms.split.key import key_columns
from beam_pipelines.transforms.split.split import SplitPlan, by_file, check_files, plan_split

P = ParamSpec("P")
T = TypeVar("T")


def make_plan(
    recipe: Recipe,
    contract: bytes | None = None,
    input_roots: Sequence[str] = (),
    planned: dict[str, SourcePlan] | None = None,
) -> Plan:
    """Plans a conversion: lists files, samples them, checks the recipe's columns.

    Args:
      recipe: the recipe.
      contract: serialized ``schema_pb2.Schema``; overrides the recipe's.
      input_roots: folders and URLs; all inputs have to be below one of them. Empty: anywhere.
      planned: plans of sources by name, which are not made again; gets those that are made.

    Raises:
      RecipeProblems: every problem that can be found before the data are read.
      DataError: a file cannot be read.
    """
    with only_below(input_roots), values_hidden(recipe):
        plan = _plan(recipe, contract, {} if planned is None else planned)
        problems = [problem for check in CHECKS for problem in check(plan)]
        if problems:
            raise RecipeProblems(problems)
        return _filtered(plan)


class _Problems:
    """The problems of parts that do not need each other."""

    def __init__(self) -> None:
        self._found: list[Problem] = []

    def of(self, plan: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T | None:
        """Returns a part; notes its problems, and returns ``None``."""
        try:
            return plan(*arguments, **options)
        except RecipeProblems as error:
            self._found += error.problems
            return None

    def stop(self) -> NoReturn:
        """Raises ``RecipeProblems`` where no more can be planned."""
        raise RecipeProblems(self._found)

    def __bool__(self) -> bool:
        return bool(self._found)


def _plan(recipe: Recipe, contract: bytes | None, planned: dict[str, SourcePlan]) -> Plan:
    """Plans part after part.

    Raises:
      RecipeProblems: of all parts whose own needs could be planned.
    """
    problems = _Problems()
    protect = problems.of(with_fingerprints, recipe.protect, recipe.directory)
    recipe = dataclasses.replace(recipe, protect=recipe.protect if protect is None else protect)
    contract = contract or problems.of(read_contract, recipe.schema, recipe.directory)
    problems.of(check_date, recipe)
    problems.of(shard_name, recipe.output.shard_name or recipe.name, recipe.date)
    sources = problems.of(plan_sources, recipe, contract, planned)
    joins = sources and problems.of(plan_join, recipe.join, sources[recipe.base], sources)
    joined = joins and problems.of(rename_schema, joins.schema, recipe.rename)
    if not sources or not joins or joined is None:
        problems.stop()
    base = sources[recipe.base]
    key = _split_key(recipe, base, joins, joined)
    select = problems.of(plan_select, recipe, joined, key, contract)
    if select is None:
        problems.stop()
    grouped = problems.of(_grouped, recipe, base, select.schema)
    if grouped is None:
        problems.stop()
    groups, columns = grouped
    split = problems.of(plan_split, recipe, columns)
    columns = split.schema if split else columns
    found = problems.of(_encode, recipe, base, joins, columns)
    encoded = found and problems.of(_with_lists, recipe, base, groups, found)
    lists = None
    if encoded:
        recipe, encode = encoded
        lists = feature_lists.list_columns(groups, encode)
        problems.of(feature_lists.check_contract, contract, columns, lists)
    if split:
        sources = {**sources, recipe.base: problems.of(_divided, recipe, split, base) or base}
    # After a problem with the encodings, each column may be a feature list.
    lists = tuple(columns.names) if lists is None else lists
    statistics = problems.of(
        plan_statistics, recipe.statistics, columns, contract, lists, recipe.hidden
    )
    policy = problems.of(read_policy, recipe.allow_anomalies, contract, columns.names)
    function = encoded and problems.of(plan_preprocessing, recipe, encoded[1], contract)
    if problems or not split or not encoded or statistics is None or policy is None:
        problems.stop()
    validation = Validation(contract, policy)
    return Plan(
        *(recipe, sources, joins, select, split, encoded[1], statistics, validation, groups),
        function or None,
    )


def _split_key(
    recipe: Recipe, base: SourcePlan, joins: JoinPlan, columns: pa.Schema
) -> tuple[str, ...]:
    """Returns the columns that decide the splits of rows; or none."""
    # The columns that sources derive, of renamed rows.
    derived = {expression.name for expression in base.derive}
    for step in joins.steps:
        own = {expression.name for expression in step.source_plan.derive}
        derived |= {result for name, result in step.added if name in own}
    return key_columns(
        recipe.split,
        columns,
        is_grouped=recipe.sequence is not None and bool(recipe.sequence.group_by),
        changes=bool(recipe.derive or recipe.drop or recipe.keep),
        derived={recipe.rename.get(name, name) for name in derived},
    )


def _grouped(
    recipe: Recipe, base: SourcePlan, columns: pa.Schema
) -> tuple[group.GroupPlan | None, pa.Schema]:
    """Returns the plan of groups, and the columns of their rows."""
    groups = group.plan_groups(recipe, base, columns)
    return groups, columns if groups is None else groups.schema


def _encode(recipe: Recipe, base: SourcePlan, joins: JoinPlan, columns: pa.Schema) -> EncodePlan:
    labels = source_labels(base, joins, recipe.rename)
    return plan_encode(recipe, columns, {name: len(names) for name, names in labels.items()})


def _with_lists(
    recipe: Recipe, base: SourcePlan, groups: group.GroupPlan | None, encode: EncodePlan
) -> tuple[Recipe, EncodePlan]:
    recipe = feature_lists.with_feature_lists(recipe, base, encode)
    return recipe, feature_lists.plan_feature_lists(recipe, groups, encode)


def _divided(recipe: Recipe, split: SplitPlan, base: SourcePlan) -> SourcePlan:
    """Returns the base source, with files that splits are named after."""
    paths = [file.path for file in base.files]
    check_files(split, paths)
    base = by_file(split, base)
    if recipe.split == Split() and (patterns := split_patterns(paths)):
        parts = ", ".join(f"{name}: {{files: {yaml_text(one)}}}" for name, one in patterns)
        words = f"{len(paths)} files are named after splits; split: {{{parts}}} divides them"
        note = f"split: {{train: 1}}  # {words}"
        base = dataclasses.replace(base, decisions=(*base.decisions, note))
    return base


def _sparse_names(plan: Plan) -> Iterator[Problem]:
    """Yields sparse features whose names are taken."""
    taken = {*plan.encode.columns.names, *plan.encode.written}
    for sparse in plan.sparse:
        if sparse.name in taken:
            message = (
                f"found the sparse feature '{sparse.name}', but a column or feature has this "
                "name, expected another one. Set 'libsvm: {name: …}' of its source, or a 'prefix' "
                "of the join."
            )
            yield Problem(("sources",), message)
        taken.add(sparse.name)


def _characters(plan: Plan) -> Iterator[Problem]:
    """Yields names that have a NUL.

    Arrow's C interface ends a name at a NUL, and so do tfx-bsl and TFDV.
    """
    sparse = (sparse.name for sparse in plan.sparse)
    for name in dict.fromkeys([*plan.encode.columns.names, *plan.encode.written, *sparse]):
        if "\0" in name:
            message = (
                f"found the column or feature {name!r}, whose name has a NUL, expected none: "
                "readers of tf.Examples would cut it off there. Rename it in the data, or leave it "
                "out with 'drop'."
            )
            yield Problem(("sources",), message)


def _exact_floats(plan: Plan) -> Iterator[Problem]:
    """Yields columns that ``floats: exact`` would read rounded."""
    if plan.recipe.output.floats != "exact":
        return
    read = [(plan.base, [(name, name) for name in plan.base.read_schema.names])]
    read += [(step.source_plan, list(step.added)) for step in plan.joins.steps]
    selected = set(plan.encode.columns.names)
    for source, added in read:
        rounded = rounded_columns(source, format_of(source).rounds_sparse)
        for name in [name for name, result in added if name in rounded and result in selected]:
            key, is_decimal = yaml_text(name), rounded[name] == "float64"
            what, nearest = (
                ("decimals", "float64") if is_decimal else ("digits of a text", "float32")
            )
            keep = f"Keep their digits with 'types: {{{key}: text}}'. " if is_decimal else ""
            message = (
                f"found column '{name}' of source '{source.source.name}', {what} that are read "
                f"as the nearest {nearest}, with 'exact'. {keep}"
                f"Take the nearest with 'types: {{{key}: {rounded[name]}}}', or drop it."
            )
            yield Problem(("output", "floats"), message)


def _tensorflow(plan: Plan) -> Iterator[Problem]:
    """Yields keys whose work a slim installation cannot do."""
    if lacks := tensorflow_lacks():
        if plan.recipe.output.serving:
            yield Problem(("output", "serving"), lacks)
        if plan.recipe.preprocessing_fn is not None:
            yield Problem(("preprocessing_fn",), lacks)


CHECKS = (_sparse_names, _characters, _exact_floats, _tensorflow, private_problems)


def _filtered(plan: Plan) -> Plan:
    """Returns the plan that filters its base source before the joins."""
    if not plan.recipe.join:
        return plan
    joined = rename_schema(plan.joins.schema, plan.recipe.rename)
    first, select = divide_filter(plan.select, plan.base.schema, joined)
    return dataclasses.replace(plan, select=select, base_filter=first)
