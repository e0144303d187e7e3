"""Plans the joins from the sources' columns and sizes, before the read."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import pyarrow as pa

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.errors import Problem, RecipeProblems, nearest_column
from beam_pipelines.core.limits import MIB
from beam_pipelines.core.process.pickling import PickledOnce
from beam_pipelines.joins.timed import time_problems
from beam_pipelines.joins.windows import feature_problems
from beam_pipelines.recipe.joins import Join
from beam_pipelines.sources import format_of
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.transforms.join.remedies import Keys, SampledKey, near_miss, type_remedy

# Every worker process holds a broadcast table as Arrow data and an index: about 1.5 times its
# plain bytes.
BROADCAST_LIMIT_BYTES = 64 * MIB
# Plain bytes of the right side in one partition, which is indexed in memory.
PARTITION_BYTES = 64 * MIB
# Flink concatenates a partition's rows of one sort buffer, of some MiB, and the result has to fit
# into another one. A hash join of a million rows failed with 2 partitions, but not with 16.
LEAST_PARTITIONS = 16
# Plain bytes of a compressed byte: gzip and Parquet compress tables of numbers and short texts to
# about a quarter.
PLAIN_BYTES_PER_COMPRESSED = 5
Strategy = Literal["broadcast", "hash"]
_COMPRESSED_SUFFIXES = (".gz", ".gzip", ".bz2", ".zst", ".zstd")


@dataclasses.dataclass(frozen=True)
class JoinStep(PickledOnce):
    """One join that is ready to run.

    Attributes:
      number: in the recipe, from 0.
      join: the recipe's join.
      source_plan: of its right source.
      strategy: the recipe's, or the choice of ``auto``.
      size_bytes: estimate of the right source's plain bytes, for that choice.
      partitions: of a hash-partitioned join; 0 of a broadcast one.
      added: (column of the right source, name in the result).
      schema: the columns after this join.
      near_misses: how keys of the sample without a match would match.
    """

    number: int
    join: Join
    source_plan: SourcePlan
    strategy: Strategy
    size_bytes: int
    partitions: int
    added: tuple[tuple[str, str], ...]
    schema: pa.Schema
    near_misses: tuple[str, ...] = ()

    @property
    def made(self) -> tuple[tuple[str, str], ...]:
        """(column of the right source, name in the result), also of features."""
        features = ((each.column, name) for name, each in self.join.parsed.items())
        return (*self.added, *features)

    @property
    def right_schema(self) -> pa.Schema:
        """The columns of the right source that the join needs."""
        join, schema = self.join, self.source_plan.schema
        needed: set[str | None] = {*join.right_on, *(name for name, _ in self.made)}
        if join.timed is not None:
            needed |= {join.timed.right, join.timed.tie}
        return pa.schema([field for field in schema if field.name in needed])


@dataclasses.dataclass(frozen=True)
class JoinPlan:
    """The chain of joins, and the columns after it."""

    steps: tuple[JoinStep, ...]
    schema: pa.Schema

    def with_near_misses(self, sources: Mapping[str, SourcePlan]) -> dict[str, SourcePlan]:
        """Returns the sources, whose decisions tell the near misses of their keys."""
        noted = dict(sources)
        for step in self.steps:
            source = noted[step.join.source]
            decisions = (*source.decisions, *step.near_misses)
            noted[step.join.source] = dataclasses.replace(source, decisions=decisions)
        return noted


def plain_bytes(source_plan: SourcePlan) -> int:
    """Estimates a source's uncompressed bytes from the sizes of its files."""
    return sum(file.size_bytes * _expansion(source_plan, file.path) for file in source_plan.files)


def count_partitions(source_plan: SourcePlan, partition_bytes: int = PARTITION_BYTES) -> int:
    """Returns the number of partitions of a source that fit in memory.

    It depends on the source's size only.
    """
    return max(1, math.ceil(plain_bytes(source_plan) / partition_bytes))


def _expansion(source_plan: SourcePlan, path: str) -> int:
    declared = source_plan.source.compression
    compressed = (
        path.lower().endswith(_COMPRESSED_SUFFIXES) if declared is None else declared != "none"
    )
    return PLAIN_BYTES_PER_COMPRESSED if compressed or format_of(source_plan).is_compressed else 1


def plan_join(
    joins: tuple[Join, ...],
    base: SourcePlan,
    sources: Mapping[str, SourcePlan],
    broadcast_limit_bytes: int = BROADCAST_LIMIT_BYTES,
    partition_bytes: int = PARTITION_BYTES,
) -> JoinPlan:
    """Plans the chain of joins.

    Args:
      joins: the recipe's joins.
      base: the leftmost source.
      sources: plans of the right sources, by name.
      broadcast_limit_bytes: larger right sources are hash partitioned, if the strategy is ``auto``.
      partition_bytes: bytes of the right source in one partition.

    Raises:
      RecipeProblems: unknown columns, different key types, or names that occur twice in the result.
    """
    problems: list[Problem] = []
    schema = base.schema
    origins = {name: (base.source.name, name) for name in schema.names}
    steps = []
    for number, join in enumerate(joins):
        right = sources[join.source]
        pairs = _key_pairs(join, schema, origins, {base.source.name: base, **sources})
        wrong = list(_key_problems(number, pairs, join, schema, right))
        near = tuple(miss for pair in pairs if not wrong and (miss := near_miss(pair)))
        keys = {right_name for _, right_name in join.on}
        times = "as_of" if join.window is None else "window"
        wrong += time_problems(("join", number, times), join, schema, right.schema)
        features = list(feature_problems(("join", number, "features"), join, right.schema))
        wrong += [problem for problem, _ in features if problem is not None]
        added = tuple(
            (name, join.prefix + name)
            for name in right.schema.names
            if name not in keys and join.adds_columns and join.window is None
        )
        known = set(schema.names)
        problems.extend(wrong)
        fields = [right.schema.field(name).with_name(result) for name, result in added]
        fields += [field for _, field in features if field is not None]
        problems.extend(_name_problems(number, join, known, fields))
        schema = pa.schema([*schema, *(field for field in fields if field.name not in known)])
        origins.update(
            {result: (join.source, name) for name, result in added if result not in origins}
        )
        size_bytes = plain_bytes(right)
        strategy = _strategy(join, size_bytes, broadcast_limit_bytes)
        partitions = (
            max(LEAST_PARTITIONS, count_partitions(right, partition_bytes))
            if strategy == "hash"
            else 0
        )
        steps.append(
            JoinStep(number, join, right, strategy, size_bytes, partitions, added, schema, near)
        )
    if problems:
        raise RecipeProblems(problems)
    return JoinPlan(tuple(steps), schema)


def _strategy(join: Join, size_bytes: int, broadcast_limit_bytes: int) -> Strategy:
    if join.strategy != "auto":
        return join.strategy
    return "broadcast" if size_bytes <= broadcast_limit_bytes else "hash"


def _key_pairs(
    join: Join,
    schema: pa.Schema,
    origins: Mapping[str, tuple[str, str]],
    sources: Mapping[str, SourcePlan],
) -> list[Keys]:
    """Returns the key columns that are there, but for features of windows."""
    right = sources[join.source]
    return [
        Keys(
            SampledKey(sources[origins[name][0]], origins[name][1]),
            SampledKey(right, other),
            name,
            join,
            schema.names,
        )
        for name, other in join.on
        if name in origins and other in right.schema.names
    ]


def _key_problems(
    number: int, keys: Sequence[Keys], join: Join, schema: pa.Schema, right: SourcePlan
) -> Iterator[Problem]:
    """Yields the problems of the key columns."""
    path = ("join", number, "on")
    sampled = {each.name: each for each in keys}
    sides = ("so far", schema), (f"of source '{join.source}'", right.schema)
    for pair in join.on:
        types = []
        for name, (side, columns_) in zip(pair, sides, strict=True):
            if name in columns_.names:
                types.append(columns_.field(name).type)
                continue
            hint = nearest_column(name, columns_.names)
            yield Problem(path, f"found '{name}', expected one of the columns {side}.{hint}")
        if len(types) == 2 and (found := _type_problem(pair, types, join, sampled.get(pair[0]))):
            yield Problem(path, found)


def _type_problem(
    pair: tuple[str, str], types: Sequence[pa.DataType], join: Join, keys: Keys | None
) -> str:
    """Returns what is wrong with two key columns, or ""."""
    lists = [name for name, type_ in zip(pair, types, strict=True) if pa.types.is_list(type_)]
    if lists:
        return f"column '{lists[0]}' is a list, expected a scalar to join on"
    if types[0] == types[1]:
        return ""
    left, right = map(columns.type_name, types)
    remedy = f"Make one that is {left} by 'derive' of source '{join.source}', and join on it."
    return (
        f"'{pair[0]}' is {left} and '{pair[1]}' of source '{join.source}' is {right}, expected the "
        f"same type. {remedy if keys is None else type_remedy(keys)}"
    )


def _name_problems(
    number: int, join: Join, known: Collection[str], fields: Sequence[pa.Field]
) -> Iterator[Problem]:
    """Yields the names that would occur twice in the result."""
    clashes = [field.name for field in fields if field.name in known]
    if clashes:
        listed = ", ".join(f"'{name}'" for name in clashes)
        example = f"{join.source}_" if not join.prefix else f"{join.source}_{join.prefix}"
        yield Problem(
            ("join", number),
            f"source '{join.source}' adds {listed}, which the rows so far have already, expected "
            "new names. "
            f"Set another prefix, such as 'prefix: {example}'.",
        )
