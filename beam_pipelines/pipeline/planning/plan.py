"""The plan of a conversion: every decision before a row is read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from beam_pipelines.analysis.anomalies.policy import DEFAULT_POLICY, ValidationPolicy
from beam_pipelines.analysis.statistics import StatisticsPlan, plan_statistics
from beam_pipelines.core.errors import Problem, RecipeProblems, mask, masked_repr
from beam_pipelines.core.pickling import PickledOnce
from beam_pipelines.core.sparse_columns import SparseColumns
from beam_pipelines.encodings.labels import labels_of_features
from beam_pipelines.encodings.plan import EncodePlan, plan_encode
from beam_pipelines.pipeline.planning.contract import read_contract, read_policy
from beam_pipelines.pipeline.planning.description import describe_plan
from beam_pipelines.pipeline.planning.private import check_private, values_hidden
from beam_pipelines.pipeline.planning.sources import check_date, plan_source_of
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.yaml_text import yaml_text
from beam_pipelines.sources import format_of
from beam_pipelines.sources.exact_cast import rounded_columns
from beam_pipelines.sources.file_list import store_files
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.planner import with_images
from beam_pipelines.storage import files
from beam_pipelines.storage.input_roots import only_below
from beam_pipelines.transforms.base_filter import divide_filter
from beam_pipelines.transforms.group_plan import (
    GroupPlan,
    check_contract,
    list_columns,
    plan_feature_lists,
    plan_groups,
    with_feature_lists,
)
from beam_pipelines.transforms.join.plan import JoinPlan, plan_join
from beam_pipelines.transforms.preprocessing_fn import Preprocessing, plan_preprocessing
from beam_pipelines.transforms.protect import with_fingerprints
from beam_pipelines.transforms.reject import Checks
from beam_pipelines.transforms.rename import Names, rename_schema, rename_sparse
from beam_pipelines.transforms.select import SelectPlan, plan_select
from beam_pipelines.transforms.shards import shard_name
from beam_pipelines.transforms.split import SplitPlan, by_file, check_files, plan_split
from beam_pipelines.transforms.split_key import plan_split_key, with_record_keys
from beam_pipelines.transforms.take import Take

T = TypeVar("T")


class Append(NamedTuple):
    """An append to a dataset.

    Attributes:
      generation: number of the new generation, from 2.
      recipe: as it was written; the plan's own has the dataset's types and schema.
    """

    generation: int
    recipe: Recipe


@masked_repr
@dataclasses.dataclass(frozen=True)
class Plan(PickledOnce):
    """A conversion that is ready to run.

    Attributes:
      recipe: the recipe.
      sources: name -> plan, of the base source and of the joined ones.
      joins, select, split, encode: plans of the stages.
      base_filter: the parts of the filter that are applied before the joins, or ``None``.
      statistics: plan of the statistics: weight and slices.
      contract: the recipe's schema as serialized ``schema_pb2.Schema``; ``None``: inferred.
      groups: plan of the grouping; ``None``: rows are not grouped.
      policy: validation policy.
      preprocessing: the recipe's ``preprocessing_fn``, which runs after the encodings, or ``None``.
      transform_graph: folder with fitted encodings of a dataset; empty: the run fits them.
      append: the run appends to a dataset; the base source has the new files only, maybe none.
        ``None``: the run makes a dataset.
      take: the run takes a part of the base source's rows (``planning/take.py``); ``None``: all.
    """

    recipe: Recipe
    sources: Mapping[str, SourcePlan]
    joins: JoinPlan
    select: SelectPlan
    split: SplitPlan
    encode: EncodePlan
    statistics: StatisticsPlan
    contract: bytes | None
    preprocessing: Preprocessing | None = None
    transform_graph: str = ""
    policy: ValidationPolicy = DEFAULT_POLICY
    groups: GroupPlan | None = None
    append: Append | None = None
    take: Take | None = None
    base_filter: SelectPlan | None = None

    @property
    def generation(self) -> int:
        """Number of the run's generation, from 1."""
        return 1 if self.append is None else self.append.generation

    @property
    def shard_name(self) -> str:
        """First part of the shards' names; it differs between generations."""
        return shard_name(self.recipe, self.generation)

    @property
    def checks(self) -> Checks:
        """The checks of rows that may be rejected."""
        return Checks(self.select, self.encode if self.groups is None else None)

    @property
    def partitions(self) -> int:
        """Partitions of the grouping; 0: rows are not grouped."""
        return 0 if self.groups is None else self.groups.partitions

    @property
    def num_ranges(self) -> int:
        """Ranges of chunks after grouping: byte ranges, and one for each partition."""
        return len(self.base.ranges) + self.partitions

    @property
    def base(self) -> SourcePlan:
        """The source whose rows become examples."""
        return self.sources[self.recipe.base]

    @property
    def labels(self) -> dict[str, tuple[str, ...]]:
        """Feature -> labels by id, if a source has names for ids.

        The feature holds the ids as integers or one-hot.
        """
        return (
            {}
            if self.preprocessing
            else labels_of_features(
                self.encode, _source_labels(self.base, self.joins, self.recipe.rename)
            )
        )

    @property
    def sparse(self) -> tuple[SparseColumns, ...]:
        """Sparse tensors whose columns are all selected, before encoding."""
        found = list(self.base.sparse)
        for step in self.joins.steps:
            added = dict(step.added)
            found += [
                SparseColumns(
                    step.join.prefix + sparse.name,
                    tuple(added.get(name, "") for name in sparse.indices),
                    added.get(sparse.value, ""),
                    sparse.sizes,
                    added.get(sparse.size, ""),
                )
                for sparse in step.source_plan.sparse
            ]
        # A feature list holds steps, not the values of a sparse tensor.
        names = set(self.encode.columns.names) - set(self.statistics.lists)
        found = [rename_sparse(sparse, self.recipe.rename) for sparse in found]
        return tuple(sparse for sparse in found if set(sparse.columns) <= names)

    @property
    def size_bytes(self) -> int:
        """Bytes of all sources on disk."""
        return sum(source.size_bytes for source in self.sources.values())

    @property
    def contract_path(self) -> str | None:
        """Path of the contract, or ``None``."""
        return self.recipe.schema and files.resolve(self.recipe.schema, self.recipe.directory)

    def describe(self) -> str:
        """Returns the plan as text for the user."""
        return mask("\n".join(describe_plan(self)))


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
        protect = with_fingerprints(recipe.protect, recipe.directory)
        recipe = dataclasses.replace(recipe, protect=protect)
        plan = _filtered(_make_plan(recipe, contract, {} if planned is None else planned))
        check_private(recipe, plan.select, plan.encode)
        return plan


def _make_plan(recipe: Recipe, contract: bytes | None, known: dict[str, SourcePlan]) -> Plan:
    problems: list[Problem] = []

    def attempt(step: Callable[[], T]) -> T | None:
        try:
            return step()
        except RecipeProblems as error:
            problems.extend(error.problems)
            return None

    contract = contract or attempt(lambda: read_contract(recipe))
    used = {recipe.base, *(join.source for join in recipe.join)}
    sources: dict[str, SourcePlan] = {}
    attempt(partial(check_date, recipe, used))
    attempt(partial(shard_name, recipe, 1))
    for name in (name for name in recipe.sources if name in used):
        planned = known.get(name) or attempt(partial(plan_source_of, recipe.sources[name], recipe))
        if planned is not None:
            known[name] = planned
            sources[name] = with_images(planned, contract, recipe)
    if len(sources) < len(used):
        raise RecipeProblems(problems)
    sources[recipe.base] = with_record_keys(recipe, sources[recipe.base])
    joins = attempt(lambda: plan_join(recipe.join, sources[recipe.base], sources))
    base = sources[recipe.base]
    before = len(problems)
    joined = attempt(lambda: rename_schema(joins.schema, recipe.rename)) if joins else None
    key = attempt(lambda: plan_split_key(recipe, base, joined)) if joined else None
    has_key = len(problems) == before
    select = attempt(lambda: plan_select(recipe, joined, key, contract)) if joined else None
    groups = (
        attempt(lambda: plan_groups(recipe, sources[recipe.base], select.schema))
        if select
        else None
    )
    if select is None or (
        groups is None and recipe.sequence is not None and recipe.sequence.group_by
    ):
        raise RecipeProblems(problems)
    rows = select.schema if groups is None else groups.schema
    is_csv = base.format in ("csv", "tsv")
    split = attempt(lambda: plan_split(recipe, rows, is_csv)) if has_key else None
    # After a problem with the split, the encodings are checked all the same.
    columns = rows if split is None else split.schema
    sizes = (
        {name: len(names) for name, names in _source_labels(base, joins, recipe.rename).items()}
        if joins
        else {}
    )
    encode = attempt(lambda: plan_encode(recipe, columns, sizes))
    recipe = with_feature_lists(recipe, base, encode) if encode else recipe
    encode = attempt(partial(plan_feature_lists, recipe, groups, encode)) if encode else None
    lists = list_columns(groups, encode) if encode else tuple(columns.names)
    if encode:
        attempt(lambda: check_contract(contract, columns, lists))
    if split:
        attempt(partial(check_files, split, [file.path for file in sources[recipe.base].files]))
    statistics = attempt(lambda: plan_statistics(recipe, columns, contract, lists))
    policy = attempt(partial(read_policy, recipe, contract, columns.names))
    preprocessing = (
        attempt(lambda: plan_preprocessing(recipe, encode, contract)) if encode else None
    )
    if problems or not joins or not split or not encode or not statistics or not policy:
        raise RecipeProblems(problems)
    sources[recipe.base] = by_file(split, sources[recipe.base])
    plan = Plan(
        recipe,
        sources,
        joins,
        select,
        split,
        encode,
        statistics,
        contract,
        preprocessing,
        policy=policy,
        groups=groups,
    )
    _check_sparse_names(plan)
    _check_characters(plan)
    _check_exact_floats(plan)
    return plan


def _filtered(plan: Plan) -> Plan:
    """Returns the plan that filters its base source before the joins.

    A database does it, as far as it can. A source that is joined to itself has to have all rows.
    """
    recipe, condition = plan.recipe, plan.select.filter
    if recipe.join:
        joined = rename_schema(plan.joins.schema, recipe.rename)
        first, select = divide_filter(plan.select, plan.base.schema, joined)
        sources = plan.joins.with_near_misses(plan.sources)
        plan = dataclasses.replace(plan, sources=sources, select=select, base_filter=first)
        condition = None if first is None else first.filter
    is_joined = recipe.base in {join.source for join in recipe.join}
    if condition is None or is_joined:
        return plan
    base = format_of(plan.base).push_down(plan.base, condition, recipe.rename)
    return dataclasses.replace(plan, sources={**plan.sources, recipe.base: base})


def store_lists(plan: Plan, folder: str) -> Plan:
    """Returns the plan with long file lists stored in a folder.

    Workers read the lists of small files from there.
    """
    sources = {
        name: format_of(source).store(store_files(source, folder), folder)
        for name, source in plan.sources.items()
    }
    steps = tuple(
        dataclasses.replace(step, source_plan=sources[step.join.source])
        for step in plan.joins.steps
    )
    return dataclasses.replace(
        plan, sources=sources, joins=dataclasses.replace(plan.joins, steps=steps)
    )


def without_encodings(plan: Plan) -> Plan:
    """Returns the plan of the same conversion without encodings."""
    columns = plan.encode.columns
    encode = EncodePlan(columns, (), tuple(columns.names), lists=plan.statistics.lists)
    return dataclasses.replace(plan, encode=encode, preprocessing=None)


def _source_labels(base: SourcePlan, joins: JoinPlan, rename: Names) -> dict[str, tuple[str, ...]]:
    """Returns column of ids -> labels by id, of renamed rows."""
    named = dict(base.labels)
    for step in joins.steps:
        known = step.source_plan.labels
        named.update((result, known[name]) for name, result in step.added if name in known)
    return {rename.get(name, name): labels for name, labels in named.items()}


def _check_sparse_names(plan: Plan) -> None:
    """Raises ``RecipeProblems`` if a sparse feature's name is taken."""
    taken = {*plan.encode.columns.names, *plan.encode.written}
    for sparse in plan.sparse:
        if sparse.name in taken:
            message = (
                f"found the sparse feature '{sparse.name}', but a column or feature has this "
                "name, expected"
            )
            cure = "another one. Set 'libsvm: {name: …}' of its source, or a 'prefix' of the join."
            raise RecipeProblems([Problem(("sources",), f"{message} {cure}")])
        taken.add(sparse.name)


def _check_characters(plan: Plan) -> None:
    """Raises ``RecipeProblems`` if a name has a NUL.

    Arrow's C interface ends a name at a NUL, and so do tfx-bsl and TFDV.
    """
    names = [
        *plan.encode.columns.names,
        *plan.encode.written,
        *(sparse.name for sparse in plan.sparse),
    ]
    problems = []
    for name in dict.fromkeys(names):
        if "\0" in name:
            message = (
                f"found the column or feature {name!r}, whose name has a NUL, expected "
                "none: readers of tf.Examples would cut it off there."
            )
            problems.append(
                Problem(
                    ("sources",), f"{message} Rename it in the data, or leave it out with 'drop'."
                )
            )
    if problems:
        raise RecipeProblems(problems)


def _check_exact_floats(plan: Plan) -> None:
    """Raises ``RecipeProblems`` if ``floats: exact`` reads rounded numbers."""
    if plan.recipe.output.floats != "exact":
        return
    read = [(plan.base, [(name, name) for name in plan.base.read_schema.names])]
    read += [(step.source_plan, list(step.added)) for step in plan.joins.steps]
    selected = set(plan.encode.columns.names)
    problems = []
    for source, added in read:
        rounded = rounded_columns(source, "libsvm" in format_of(source).options)
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
            problems.append(Problem(("output", "floats"), message))
    if problems:
        raise RecipeProblems(problems)
