"""The plan of a whole conversion: every decision that can be made before a row is read, and every mistake found by then."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from beam_pipelines import files
from beam_pipelines.anomalies.gate import NO_GATE, Gate
from beam_pipelines.columns import type_name
from beam_pipelines.encode_plan import EncodePlan, plan_encode
from beam_pipelines.errors import DataError, Problem, RecipeProblems
from beam_pipelines.join_plan import JoinPlan, plan_join
from beam_pipelines.plan import SourcePlan
from beam_pipelines.preprocessing import Preprocessing, plan_preprocessing
from beam_pipelines.read import plan_source
from beam_pipelines.recipe import Recipe
from beam_pipelines.schema import read_schema
from beam_pipelines.select import SelectPlan, plan_select
from beam_pipelines.split import SplitPlan, check_files, plan_split
from beam_pipelines.statistics import StatisticsPlan, plan_statistics

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Plan:
    """A conversion that is ready to run.

    Attributes:
      recipe: what was asked for.
      sources: name -> plan, of the sources that are joined.
      joins, select, split, encode: the stages' own plans.
      statistics: weight and slices.
      contract: the recipe's schema as serialized ``schema_pb2.Schema``, or ``None`` to infer one.
      gate: what is checked beside the schema, and what is accepted.
      preprocessing: the recipe's own function behind the encodings, or ``None``.
      transform_graph: folder with encodings that are fitted already, of another dataset; empty: they are fitted.
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
    gate: Gate = NO_GATE

    @property
    def base(self) -> SourcePlan:
        """The source whose rows become examples."""
        return self.sources[self.recipe.base]

    @property
    def size_bytes(self) -> int:
        """Bytes of all sources, as they lie on disk."""
        return sum(source.size_bytes for source in self.sources.values())

    @property
    def contract_path(self) -> str | None:
        """Where the contract lies, if there is one."""
        return self.recipe.schema and files.resolve(self.recipe.schema, self.recipe.directory)

    def describe(self) -> str:
        """Returns the plan as a person wants to read it."""
        return "\n".join(_describe(self))


def make_plan(recipe: Recipe, contract: bytes | None = None) -> Plan:
    """Plans a conversion: lists the files, looks at their beginnings, checks every column that the recipe names.

    Args:
      recipe: what was asked for.
      contract: serialized ``schema_pb2.Schema`` to take instead of the recipe's.

    Raises:
      RecipeProblems: everything that is wrong with the recipe and can be known before reading.
      DataError: a file cannot be read.
    """
    problems: list[Problem] = []

    def attempt(step: Callable[[], T]) -> T | None:
        try:
            return step()
        except RecipeProblems as error:
            problems.extend(error.problems)
            return None

    contract = contract or attempt(lambda: _read_contract(recipe))
    used = {recipe.base, *(join.source for join in recipe.join)}
    sources: dict[str, SourcePlan] = {}
    for name, source in recipe.sources.items():
        planned = attempt(partial(plan_source, source, recipe.directory)) if name in used else None
        if planned is not None:
            sources[name] = planned
    if len(sources) < len(used):
        raise RecipeProblems(problems)
    joins = attempt(lambda: plan_join(recipe.join, sources[recipe.base], sources))
    select = attempt(lambda: plan_select(recipe, joins.schema)) if joins else None
    split = attempt(lambda: plan_split(recipe, select.schema)) if select else None
    # What is wrong with the split does not hide what is wrong with the encodings.
    encode = attempt(lambda: plan_encode(recipe, (split or select).schema)) if select else None
    if split:
        attempt(partial(check_files, split, [file.path for file in sources[recipe.base].files]))
    statistics = attempt(lambda: plan_statistics(recipe, (split or select).schema, contract)) if select else None
    preprocessing = attempt(lambda: plan_preprocessing(recipe, encode, contract)) if encode else None
    if problems or not joins or not select or not split or not encode or not statistics:
        raise RecipeProblems(problems)
    return Plan(recipe, sources, joins, select, split, encode, statistics, contract, preprocessing)


def without_encodings(plan: Plan) -> Plan:
    """Returns the plan of the same conversion with the columns as they are."""
    columns = plan.encode.columns
    return dataclasses.replace(plan, encode=EncodePlan(columns, (), tuple(columns.names)), preprocessing=None)


def _read_contract(recipe: Recipe) -> bytes | None:
    if recipe.schema is None:
        return None
    try:
        return bytes(read_schema(files.resolve(recipe.schema, recipe.directory)).SerializeToString())
    except DataError as error:
        raise RecipeProblems([Problem(("schema",), str(error))]) from error


def _describe(plan: Plan) -> list[str]:
    recipe, output = plan.recipe, plan.recipe.output
    lines = [f"plan of '{recipe.name}'", "sources"]
    for name, source in plan.sources.items():
        lines.append(
            f"  {name}: {source.format}, {len(source.files)} file(s), {source.size_bytes:,} bytes, "
            f"{len(source.ranges)} range(s), {len(source.schema)} columns"
        )
        lines += [f"    {file.path} ({file.size_bytes:,} bytes)" for file in source.files[:5]]
        if len(source.files) > 5:
            lines.append(f"    … and {len(source.files) - 5} more")
    if recipe.join:
        lines.append("joins")
    for step in plan.joins.steps:
        join = step.join
        on = ", ".join(left if left == right else f"{left} = {right}" for left, right in join.on)
        lines.append(f"  {join.how} join with {join.source} on {on}: {step.strategy}")
    if recipe.filter:
        lines.append(f"filter\n  {recipe.filter}")
    made = {chain.name: chain for chain in plan.encode.chains}
    lines.append("features written")
    for feature_name, feature in plan.encode.features().items():
        chain = made.get(feature_name)
        steps = f" = {' > '.join([', '.join(chain.inputs), *(step.kind for step in chain.steps)])}" if chain else ""
        lines.append(f"  {feature_name}: {type_name(feature.type)}{steps}")
    if plan.encode.reads > 1:
        lines.append(f"  fitted in {plan.encode.reads} reads: some encodings are fitted on what others have fitted")
    lines.append("splits")
    for name in recipe.split.names:
        share = recipe.split.fractions.get(name)
        lines.append(f"  {name}" + (f": {share:.4g} of the rows" if share is not None else ""))
    lines.append("shards")
    count = f"{output.num_shards} a split" if output.num_shards else f"of about {output.shard_size:,} bytes"
    multiple = f", a multiple of {output.shards_multiple_of}" if output.shards_multiple_of > 1 else ""
    order = f"shuffled with seed {output.shuffle_seed}" if output.shuffle else "in source order"
    lines.append(f"  {count}{multiple}, {output.compression}, {order}")
    return lines
