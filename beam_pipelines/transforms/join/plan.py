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
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources import format_of
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sql.database import identifier

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
# Types of a key and of the other one -> SQL that makes the first of the other's type; "{}" stands
# for the key.
_CASTS = {
    (pa.string(), pa.int64()): "TRY_CAST({} AS BIGINT)",
    (pa.bool_(), pa.string()): "{}::VARCHAR",
    (pa.date32(), pa.string()): "{}::VARCHAR",
    (pa.bool_(), pa.int64()): "{}::BIGINT",
    (pa.int64(), pa.float64()): "{}::DOUBLE",
    (pa.float32(), pa.float64()): "{}::DOUBLE",
    (pa.string(), pa.float64()): "TRY_CAST({} AS DOUBLE)",
    (pa.timestamp("us"), pa.date32()): "{}::DATE",
    (pa.timestamp("us", "UTC"), pa.date32()): "timezone('UTC', {})::DATE",
    (pa.string(), pa.timestamp("us")): "TRY_CAST({} AS TIMESTAMP)",
    (pa.string(), pa.binary()): "encode({})",
    (pa.timestamp("us"), pa.timestamp("us", "UTC")): "timezone('UTC', {})",
}


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
    """

    number: int
    join: Join
    source_plan: SourcePlan
    strategy: Strategy
    size_bytes: int
    partitions: int
    added: tuple[tuple[str, str], ...]
    schema: pa.Schema

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
    schema, made = base.schema, set[str]()
    steps = []
    for number, join in enumerate(joins):
        right = sources[join.source]
        wrong = list(_key_problems(number, join, schema, right, made))
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
        made |= join.parsed.keys()
        schema = pa.schema([*schema, *(field for field in fields if field.name not in known)])
        size_bytes = plain_bytes(right)
        strategy = _strategy(join, size_bytes, broadcast_limit_bytes)
        partitions = (
            max(LEAST_PARTITIONS, count_partitions(right, partition_bytes))
            if strategy == "hash"
            else 0
        )
        steps.append(JoinStep(number, join, right, strategy, size_bytes, partitions, added, schema))
    if problems:
        raise RecipeProblems(problems)
    return JoinPlan(tuple(steps), schema)


def _strategy(join: Join, size_bytes: int, broadcast_limit_bytes: int) -> Strategy:
    if join.strategy != "auto":
        return join.strategy
    return "broadcast" if size_bytes <= broadcast_limit_bytes else "hash"


def _key_problems(
    number: int, join: Join, schema: pa.Schema, right: SourcePlan, made: Collection[str]
) -> Iterator[Problem]:
    """Yields the problems of the key columns.

    ``made`` has the names on the left that windows have made.
    """
    path = ("join", number, "on")
    sides = ("so far", schema), (f"of source '{join.source}'", right.schema)
    for pair in join.on:
        types = []
        for name, (side, columns_) in zip(pair, sides, strict=True):
            if name in columns_.names:
                types.append(columns_.field(name).type)
                continue
            hint = nearest_column(name, columns_.names)
            yield Problem(path, f"found '{name}', expected one of the columns {side}.{hint}")
        if len(types) == 2 and (found := _type_problem(pair, types, join, made)):
            yield Problem(path, found)


def _type_problem(
    pair: tuple[str, str], types: Sequence[pa.DataType], join: Join, made: Collection[str]
) -> str:
    """Returns what is wrong with two key columns, or "".

    ``made`` has the names on the left that windows have made.
    """
    lists = [name for name, type_ in zip(pair, types, strict=True) if pa.types.is_list(type_)]
    if lists:
        return f"column '{lists[0]}' is a list, expected a scalar to join on"
    if types[0] == types[1]:
        return ""
    left, right = map(columns.type_name, types)
    remedy = f"Make one that is {left} by 'derive' of source '{join.source}', and join on it."
    of = "" if pair[0] in made else "the source on the left", f"source '{join.source}'"
    for name, source, own, other in zip(pair, of, types, types[::-1], strict=True):
        if source and (sql := _CASTS.get((own, other))):
            line = f"{yaml_text(f'{name}_key')}: {yaml_text(sql.format(identifier(name)))}"
            remedy = f"Add 'derive: {{{line}}}' to {source}, and join on that column."
    return (
        f"'{pair[0]}' is {left} and '{pair[1]}' of source '{join.source}' is {right}, expected the "
        f"same type. {remedy}"
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
            f"new names. Set another prefix, such as 'prefix: {example}'.",
        )
