"""Plans a conversion, stage by stage.

A stage adds its parts to a draft of the plan. If it finds a problem, the stages that need its parts
are left out. All others run, so that one pass finds the problems of independent stages.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from beam_pipelines.analysis.anomalies.policy import DEFAULT_POLICY, ValidationPolicy
from beam_pipelines.analysis.statistics import StatisticsPlan, plan_statistics
from beam_pipelines.core.errors import Problem, RecipeProblems
from beam_pipelines.core.process.full_package import tensorflow_lacks
from beam_pipelines.encodings.plan import EncodePlan, plan_encode
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
from beam_pipelines.storage.input_roots import only_below
from beam_pipelines.transforms import group
from beam_pipelines.transforms.join.plan import JoinPlan, plan_join
from beam_pipelines.transforms.preprocessing.function import Preprocessing, plan_preprocessing
from beam_pipelines.transforms.select.protect import with_fingerprints
from beam_pipelines.transforms.select.rename import rename_schema
from beam_pipelines.transforms.select.select import SelectPlan, divide_filter, plan_select
from beam_pipelines.transforms.shards import shard_name
from beam_pipelines.transforms.split.key import (
    SplitKey,
    counts_nulls,
    plan_split_key,
    with_record_keys,
)
from beam_pipelines.transforms.split.split import SplitPlan, by_file, check_files, plan_split


@dataclasses.dataclass(repr=False)
class PlanDraft:
    """A plan as far as its stages have made it.

    A part without a default is there once its stage has run.

    Attributes:
      recipe: the recipe; a stage may complete it.
      contract: the recipe's schema, serialized, or ``None``.
      planned: plans of sources by name, of earlier drafts, too.
      sources, joins, select, groups, split, encode: see ``Plan``.
      columns: of joined rows, renamed; then of selected, grouped and divided ones.
      key: what decides the splits of rows, or ``None``.
      lists: columns whose values are steps; ``None``: not known.
    """

    recipe: Recipe
    contract: bytes | None
    planned: dict[str, SourcePlan]
    sources: dict[str, SourcePlan] = dataclasses.field(init=False)
    joins: JoinPlan = dataclasses.field(init=False)
    columns: pa.Schema = dataclasses.field(init=False)
    key: SplitKey | None = None
    select: SelectPlan = dataclasses.field(init=False)
    groups: group.GroupPlan | None = None
    split: SplitPlan = dataclasses.field(init=False)
    encode: EncodePlan = dataclasses.field(init=False)
    lists: tuple[str, ...] | None = None
    statistics: StatisticsPlan = dataclasses.field(init=False)
    policy: ValidationPolicy = DEFAULT_POLICY
    preprocessing: Preprocessing | None = None

    @property
    def base(self) -> SourcePlan:
        """The source whose rows become examples."""
        return self.sources[self.recipe.base]


class Stage(NamedTuple):
    """One step of planning.

    Attributes:
      plan: adds parts to a draft; raises ``RecipeProblems``.
      needs: the stages whose parts it takes.
    """

    plan: Callable[[PlanDraft], None]
    needs: tuple[Callable[[PlanDraft], None], ...] = ()


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
        draft = PlanDraft(recipe, contract, {} if planned is None else planned)
        problems: list[Problem] = []
        done: set[Callable[[PlanDraft], None]] = set()
        for stage in STAGES:
            if done.issuperset(stage.needs):
                try:
                    stage.plan(draft)
                    done.add(stage.plan)
                except RecipeProblems as error:
                    problems += error.problems
        if problems or len(done) < len(STAGES):
            raise RecipeProblems(problems)
        plan = _plan_of(draft)
        problems = [problem for check in CHECKS for problem in check(plan)]
        if problems:
            raise RecipeProblems(problems)
        return _filtered(plan)


def _protect(draft: PlanDraft) -> None:
    protect = with_fingerprints(draft.recipe.protect, draft.recipe.directory)
    draft.recipe = dataclasses.replace(draft.recipe, protect=protect)


def _contract(draft: PlanDraft) -> None:
    recipe = draft.recipe
    draft.contract = draft.contract or read_contract(recipe.schema, recipe.directory)


def _date(draft: PlanDraft) -> None:
    check_date(draft.recipe)


def _names(draft: PlanDraft) -> None:
    recipe = draft.recipe
    shard_name(recipe.output.shard_name or recipe.name, recipe.date)


def _sources(draft: PlanDraft) -> None:
    sources = plan_sources(draft.recipe, draft.contract, draft.planned)
    base = draft.recipe.base
    draft.sources = {**sources, base: with_record_keys(draft.recipe.split, sources[base])}


def _joins(draft: PlanDraft) -> None:
    draft.joins = plan_join(draft.recipe.join, draft.base, draft.sources)


def _rename(draft: PlanDraft) -> None:
    draft.columns = rename_schema(draft.joins.schema, draft.recipe.rename)


def _split_key(draft: PlanDraft) -> None:
    recipe = draft.recipe
    draft.key = plan_split_key(
        recipe.split,
        draft.base,
        draft.columns,
        recipe.rename,
        is_grouped=recipe.sequence is not None and bool(recipe.sequence.group_by),
        changes=bool(recipe.derive or recipe.drop or recipe.keep),
        derived=_derived_by_sources(draft),
    )


def _derived_by_sources(draft: PlanDraft) -> set[str]:
    """Returns the columns that sources derive, of renamed rows."""
    names = {expression.name for expression in draft.base.derive}
    for step in draft.joins.steps:
        own = {expression.name for expression in step.source_plan.derive}
        names |= {result for name, result in step.added if name in own}
    return {draft.recipe.rename.get(name, name) for name in names}


def _select(draft: PlanDraft) -> None:
    draft.select = plan_select(draft.recipe, draft.columns, draft.key, draft.contract)
    draft.columns = draft.select.schema


def _groups(draft: PlanDraft) -> None:
    draft.groups = group.plan_groups(draft.recipe, draft.base, draft.columns)
    draft.columns = draft.columns if draft.groups is None else draft.groups.schema


def _split(draft: PlanDraft) -> None:
    draft.split = plan_split(draft.recipe, draft.columns, counts_nulls(draft.base))
    draft.columns = draft.split.schema


def _encode(draft: PlanDraft) -> None:
    # After a problem with the split, the columns are those before it.
    labels = source_labels(draft.base, draft.joins, draft.recipe.rename)
    sizes = {name: len(names) for name, names in labels.items()}
    draft.encode = plan_encode(draft.recipe, draft.columns, sizes)


def _feature_lists(draft: PlanDraft) -> None:
    draft.recipe = feature_lists.with_feature_lists(draft.recipe, draft.base, draft.encode)
    draft.encode = feature_lists.plan_feature_lists(draft.recipe, draft.groups, draft.encode)
    draft.lists = feature_lists.list_columns(draft.groups, draft.encode)


def _lists_of_contract(draft: PlanDraft) -> None:
    feature_lists.check_contract(draft.contract, draft.columns, draft.lists or ())


def _files(draft: PlanDraft) -> None:
    paths = [file.path for file in draft.base.files]
    check_files(draft.split, paths)
    base = by_file(draft.split, draft.base)
    if draft.recipe.split == Split() and (patterns := split_patterns(paths)):
        parts = ", ".join(f"{name}: {{files: {yaml_text(one)}}}" for name, one in patterns)
        words = f"{len(paths)} files are named after splits; split: {{{parts}}} divides them"
        note = f"split: {{train: 1}}  # {words}"
        base = dataclasses.replace(base, decisions=(*base.decisions, note))
    draft.sources[draft.recipe.base] = base


def _statistics(draft: PlanDraft) -> None:
    recipe, columns = draft.recipe, draft.columns
    # After a problem with the encodings, each column may be a feature list.
    lists = tuple(columns.names) if draft.lists is None else draft.lists
    private = recipe.hidden
    draft.statistics = plan_statistics(recipe.statistics, columns, draft.contract, lists, private)


def _policy(draft: PlanDraft) -> None:
    allowed = draft.recipe.allow_anomalies
    draft.policy = read_policy(allowed, draft.contract, draft.columns.names)


def _preprocessing(draft: PlanDraft) -> None:
    draft.preprocessing = plan_preprocessing(draft.recipe, draft.encode, draft.contract)


STAGES = (
    Stage(_protect),
    Stage(_contract),
    Stage(_date),
    Stage(_names),
    Stage(_sources),
    Stage(_joins, (_sources,)),
    Stage(_rename, (_joins,)),
    Stage(_split_key, (_rename,)),
    Stage(_select, (_rename,)),
    Stage(_groups, (_select,)),
    Stage(_split, (_groups, _split_key)),
    Stage(_encode, (_groups,)),
    Stage(_feature_lists, (_encode,)),
    Stage(_lists_of_contract, (_feature_lists,)),
    Stage(_files, (_split,)),
    Stage(_statistics, (_groups,)),
    Stage(_policy, (_groups,)),
    Stage(_preprocessing, (_feature_lists,)),
)


def _plan_of(draft: PlanDraft) -> Plan:
    return Plan(
        draft.recipe,
        draft.sources,
        draft.joins,
        draft.select,
        draft.split,
        draft.encode,
        draft.statistics,
        Validation(draft.contract, draft.policy),
        draft.groups,
        draft.preprocessing,
    )


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
    sources = plan.joins.with_near_misses(plan.sources)
    return dataclasses.replace(plan, sources=sources, select=select, base_filter=first)
