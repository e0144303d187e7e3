"""The plan of a conversion: every decision before a row is read."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from beam_pipelines.analysis.anomalies.policy import DEFAULT_POLICY, ValidationPolicy
from beam_pipelines.analysis.statistics import StatisticsPlan
from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.core.arrow.sparse_columns import SparseColumns
from beam_pipelines.core.errors import mask, masked_repr
from beam_pipelines.core.formatting import show_bytes, show_count
from beam_pipelines.core.process.pickling import PickledOnce
from beam_pipelines.encodings.labels import labels_of_features
from beam_pipelines.encodings.plan import EncodePlan
from beam_pipelines.files.beam import files
from beam_pipelines.recipe import path_dates
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.unions import unused_lines, unused_sources
from beam_pipelines.sources import format_of
from beam_pipelines.sources.files.file_list import store_files
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.transforms.group import GroupPlan
from beam_pipelines.transforms.join.plan import JoinPlan
from beam_pipelines.transforms.preprocessing.function import Preprocessing
from beam_pipelines.transforms.select.reject import Checks
from beam_pipelines.transforms.select.rename import Names, rename_sparse
from beam_pipelines.transforms.select.select import SelectPlan
from beam_pipelines.transforms.shards import shard_name
from beam_pipelines.transforms.split.split import SplitPlan
from beam_pipelines.transforms.take import Take


class RunPlan(NamedTuple):
    """The options of a command beyond its recipe.

    Attributes:
      transform_graph: folder with fitted encodings of a dataset.
      take: the run takes a part of the base source's rows (``planning/take.py``).
      of_dataset: the recipe is that of a dataset, whose new rows may be few.
    """

    transform_graph: str = ""
    take: Take | None = None
    of_dataset: bool = False


class Validation(NamedTuple):
    """The schema of good data, and how anomalies are judged.

    Attributes:
      contract: the recipe's schema as serialized ``schema_pb2.Schema``.
      policy: how anomalies are judged.
    """

    contract: bytes | None = None
    policy: ValidationPolicy = DEFAULT_POLICY


@masked_repr
@dataclasses.dataclass(frozen=True)
class Plan(PickledOnce):
    """A conversion that is ready to run.

    Attributes:
      recipe: the recipe.
      sources: name -> plan, of the base source and of the joined ones.
      joins, select, split, encode: plans of the stages.
      statistics: plan of the statistics: weight and slices.
      validation: what the data have to be.
      groups: plan of the grouping; ``None``: rows are not grouped.
      preprocessing: the recipe's ``preprocessing_fn``, which runs after the encodings, or ``None``.
      base_filter: the parts of the filter that are applied before the joins, or ``None``.
      run: what the command says.
    """

    recipe: Recipe
    sources: Mapping[str, SourcePlan]
    joins: JoinPlan
    select: SelectPlan
    split: SplitPlan
    encode: EncodePlan
    statistics: StatisticsPlan
    validation: Validation = Validation()  # noqa: RUF009 (it is immutable)
    groups: GroupPlan | None = None
    preprocessing: Preprocessing | None = None
    base_filter: SelectPlan | None = None
    run: RunPlan = RunPlan()  # noqa: RUF009

    @property
    def contract(self) -> bytes | None:
        """The expected schema as serialized ``schema_pb2.Schema``; ``None``: inferred."""
        return self.validation.contract

    @property
    def policy(self) -> ValidationPolicy:
        """The validation policy."""
        return self.validation.policy

    @property
    def take(self) -> Take | None:
        """The part of the base source's rows that is taken; ``None``: all."""
        return self.run.take

    @property
    def transform_graph(self) -> str:
        """Folder with fitted encodings of a dataset; empty: the run fits them."""
        return self.run.transform_graph

    @property
    def shard_name(self) -> str:
        """First part of the shards' names."""
        recipe = self.recipe
        return shard_name(recipe.output.shard_name or recipe.name, recipe.date)

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
                self.encode, source_labels(self.base, self.joins, self.recipe.rename)
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

    def joined_words(self, column: str) -> str:
        """Returns words for a column whose values another source has, or ``""``."""
        names = self.recipe.rename
        for step in self.joins.steps:
            if column in (names.get(name, name) for _, name in step.added):
                return f", joined from '{step.join.source}'"
        return ""

    def describe(self) -> str:
        """Returns the plan as text for the user."""
        return mask("\n".join(_describe(self)))


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


def source_labels(base: SourcePlan, joins: JoinPlan, rename: Names) -> dict[str, tuple[str, ...]]:
    """Returns column of ids -> labels by id, of renamed rows."""
    named = dict(base.labels)
    for step in joins.steps:
        known = step.source_plan.labels
        named.update((result, known[name]) for name, result in step.added if name in known)
    return {rename.get(name, name): labels for name, labels in named.items()}


def _describe(plan: Plan) -> list[str]:
    """Returns lines for the user: sources, joins, features, splits, shards."""
    recipe, output = plan.recipe, plan.recipe.output
    of_day = f" of {recipe.date}, span {path_dates.span_of(recipe.date)}" if recipe.date else ""
    lines = [f"plan of '{recipe.name}'{of_day}", "sources"]
    for name, source in plan.sources.items():
        count = f"{show_count(len(source.files), 'file')},"
        number = count if format_of(source).has_files else "about"
        lines.append(
            f"  {name}: {source.format}, {number} {show_bytes(source.size_bytes)}, "
            f"{show_count(len(source.ranges), 'range')}, "
            f"{show_count(len(source.read_schema), 'column')}"
        )
        lines += [f"    {file.path} ({show_bytes(file.size_bytes)})" for file in source.files[:5]]
        if len(source.files) > 5:
            lines.append(f"    … and {len(source.files) - 5} more")
        lines += [f"    found {decision}" for decision in source.decisions]
        lines += [f"    derives {each.name}: {each.sql}" for each in source.derive]
    lines += [f"warning  {line}" for line in unused_lines(unused_sources(recipe))]
    if plan.base_filter is not None and plan.base_filter.filter is not None:
        lines.append(f"filter before the joins\n  {plan.base_filter.filter.sql}")
    if recipe.join:
        lines.append("joins")
    for step in plan.joins.steps:
        join = step.join
        on = ", ".join(left if left == right else f"{left} = {right}" for left, right in join.on)
        lines.append(f"  {join.how} join with {join.source} on {on}{join.words}: {step.strategy}")
    if plan.select.filter is not None:
        after = " after the joins" if recipe.join else ""
        lines.append(f"filter{after}\n  {plan.select.filter.sql}")
    lines += _describe_records(plan)
    if plan.encode.reads > 1:
        lines.append(
            f"  fitted in {plan.encode.reads} reads: some encodings are fitted on what others have "
            "fitted"
        )
    classes = ", ".join(recipe.split.stratify)
    rows = f"each class of {classes}" if classes else "the rows"
    shares = recipe.split.shares
    names = (
        f"{name} {shares[name]:.4g}" if name in shares else name for name in recipe.split.names
    )
    lines.append(f"splits\n  {', '.join(names)}" + (f" of {rows}" if shares else ""))
    lines.append("shards")
    count = (
        f"{output.num_shards} a split"
        if output.num_shards
        else f"of about {show_bytes(output.shard_size)}"
    )
    multiple = (
        f", a multiple of {output.shards_multiple_of}" if output.shards_multiple_of > 1 else ""
    )
    order = f"shuffled with seed {output.shuffle_seed}" if output.shuffle else "in source order"
    lines.append(f"  {count}{multiple}, {output.compression}, {order}")
    return lines


def _describe_records(plan: Plan) -> Iterator[str]:
    if plan.recipe.output.record is not None:
        yield f"raw records\n  the values of {plan.recipe.output.record}"
        return
    if plan.groups:
        ordered = f", ordered by {', '.join(plan.groups.order_by)}" if plan.groups.order_by else ""
        yield f"sequences\n  of the rows with the same {', '.join(plan.groups.by)}{ordered}"
    made = {chain.name: chain for chain in plan.encode.chains}
    yield "features written"
    for name, feature in plan.encode.features().items():
        chain = made.get(name)
        steps = (
            f" = {' > '.join([', '.join(chain.inputs), *(step.kind for step in chain.steps)])}"
            if chain
            else ""
        )
        kind = (
            f"feature list of {type_name(feature.value_type)}"
            if name in plan.encode.lists
            else type_name(feature.type)
        )
        yield f"  {name}: {kind}{steps}"
    for sparse in plan.sparse:
        if set(sparse.columns) <= set(plan.encode.written) - set(made):
            sizes = " × ".join(
                "learned from the data" if size is None else f"{size:,}" for size in sparse.sizes
            )
            yield f"  {sparse.name}: sparse, of {', '.join(sparse.columns)}; size {sizes}"
