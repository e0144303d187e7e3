"""What the first read teaches: statistics, schema, anomalies, fitted encodings, and how many shards there will be."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.account import Account, base_account, source_account
from beam_pipelines.anomalies import SplitAnomalies, describe, find_anomalies
from beam_pipelines.encode import EncodePlan
from beam_pipelines.errors import DataError
from beam_pipelines.pieces import Receipt
from beam_pipelines.planning import Plan
from beam_pipelines.sample import Sample, estimate_row_bytes
from beam_pipelines.schema import encoded_schema, infer_schema
from beam_pipelines.shards import ShardPlan, plan_shards
from beam_pipelines.statistics import TableStatistics


@dataclasses.dataclass(frozen=True)
class Learned:
    """The result of the first read.

    Attributes:
      account: what became of every row.
      statistics, anomalies: by split.
      schema: of the raw joined columns: the contract, or inferred.
      encoded: of the written features, where the recipe encodes; else ``None``.
      encode: the encodings, fitted.
      shards: where rows will go.
    """

    account: Account
    statistics: Mapping[str, TableStatistics]
    anomalies: Mapping[str, SplitAnomalies]
    schema: schema_pb2.Schema
    encoded: schema_pb2.Schema | None
    encode: EncodePlan
    shards: ShardPlan


def learn(
    plan: Plan,
    statistics: Mapping[str, TableStatistics],
    receipts: Sequence[Receipt],
    samples: Sequence[Sample],
    rights: Mapping[str, Sequence[Receipt]],
) -> Learned:
    """Draws the conclusions of the first read.

    Args:
      plan: of the conversion.
      statistics: split -> statistics of the selected columns.
      receipts: of the base source's pieces, in any order.
      samples: sampled rows, in any order.
      rights: right source -> receipts of its pieces, in order.

    Raises:
      DataError: rows were lost, or too many rejected.
    """
    recipe = plan.recipe
    names = recipe.split.names
    base = base_account(plan.base, receipts, len(recipe.join), names)
    account = dataclasses.replace(
        base, sources={name: base.sources.get(name) or source_account(rights[name]) for name in plan.sources}
    )
    account.check(recipe)
    contract = plan.contract
    schema = infer_schema(statistics) if contract is None else schema_pb2.Schema.FromString(contract)
    shard_bytes, framed_bytes = _estimate(plan, account.rows, samples)
    return Learned(
        account=account,
        statistics=statistics,
        anomalies=find_anomalies(statistics, schema),
        schema=schema,
        encoded=_encoded(plan, schema),
        encode=plan.encode,
        shards=plan_shards(recipe.output, names, receipts, shard_bytes, framed_bytes),
    )


def check_anomalies(plan: Plan, learned: Learned) -> Learned:
    """Returns what was learned if the data may be written.

    Raises:
      DataError: there are anomalies, or the label is missing somewhere.
    """
    rows = describe(learned.anomalies)
    if rows:
        table = "\n".join(
            f"  split '{row.split}', '{row.feature}': {row.what}: found {row.found}, expected {row.expected}"
            for row in rows
        )
        raise DataError(
            f"{len(rows)} anomalies against {plan.recipe.schema or 'the schema'}; nothing was written:\n{table}\n"
            "Mend the data or the recipe, or change the schema if the data are right."
        )
    label = plan.recipe.label
    nulls = sum(table.columns[label].missing for table in learned.statistics.values()) if label is not None else 0
    if nulls:
        raise DataError(
            f"label '{label}': found {nulls:,} rows without one, expected none; nothing was written. Leave them out with "
            f"'filter: {label} IS NOT NULL', or of the columns that it is derived from."
        )
    return learned


def _estimate(
    plan: Plan, rows: Mapping[str, int], samples: Sequence[Sample]
) -> tuple[dict[str, float], dict[str, float]]:
    """Returns for each split the bytes of its shards, and of its framed examples."""
    output = plan.recipe.output
    shard_bytes, framed_bytes = {}, {}
    for name, count in rows.items():
        own = [sample for sample in samples if sample.split == name]
        compressed, framed = estimate_row_bytes(own or samples, plan.encode, output)
        shard_bytes[name], framed_bytes[name] = count * compressed, count * framed
    return shard_bytes, framed_bytes


def _encoded(plan: Plan, schema: schema_pb2.Schema) -> schema_pb2.Schema | None:
    types: dict[str, pa.DataType] = {
        name: plan.encode.encoded_schema.field(name).type for name, _ in plan.encode.chains
    }
    return encoded_schema(schema, types) if types else None
