"""The result of the first pass, and the checks on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis import report
from beam_pipelines.analysis.anomalies import SplitAnomalies, find_anomalies
from beam_pipelines.analysis.class_shares import sampled_entry_of
from beam_pipelines.analysis.joins import JoinMatches, check_joins, matches_of
from beam_pipelines.analysis.schema import infer_schema, read_schema, with_shapes
from beam_pipelines.analysis.schema.sparse import add_sparse_features
from beam_pipelines.analysis.schema.update import update_schema
from beam_pipelines.analysis.statistics import TableStatistics
from beam_pipelines.checks.check import Facts, SampledSplits
from beam_pipelines.core.arrow.columns import has_lists_as_steps, value_type
from beam_pipelines.core.arrow.memory import give_back_memory
from beam_pipelines.core.chunks import Chunk, MergedCounts
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.formatting import show_count
from beam_pipelines.core.layout.shard_formats import TFRECORD
from beam_pipelines.core.layout.tensor_representations import add_representations
from beam_pipelines.encodings.schema import encoded_schema
from beam_pipelines.files.beam import files
from beam_pipelines.pipeline import validate
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.planning.private import without_private
from beam_pipelines.pipeline.sampled_rows import LabelColumn, describe_sample
from beam_pipelines.sinks.parquet.sink import columns_of
from beam_pipelines.sql.database import not_null_line
from beam_pipelines.tfrecord.framing import missing_records
from beam_pipelines.transforms import metrics
from beam_pipelines.transforms import row_counts as counted_rows
from beam_pipelines.transforms.encode import LoadedEncoder, load_fitted
from beam_pipelines.transforms.equal_rows import Met
from beam_pipelines.transforms.shards import ShardPlan, plan_shards
from beam_pipelines.transforms.size_sample import estimate_row_bytes, joined_samples
from beam_pipelines.transforms.split.sample import check_named
from beam_pipelines.transforms.split.stratify import load_shares
from beam_pipelines.transforms.statistics import SplitTables


@dataclasses.dataclass(frozen=True)
class FirstPassResult:
    """The result of the first pass.

    Attributes:
      row_counts: read, dropped and written rows.
      statistics, anomalies: by split.
      schema: of the raw joined columns. With a contract: the contract, widened by accepted
        anomalies. Else inferred.
      encoded: schema of the written features; ``None`` if the recipe encodes nothing.
      fitted, analyzed: as in ``FittedFolders``.
      shards: the shard plan.
      findings: of the checks of the recipe.
      sampled: a description of sampled rows.
      shares: of classes, if the recipe divides them.
      sampled_classes: the manifest's entry, if the recipe samples rows.
    """

    row_counts: counted_rows.RowCounts
    statistics: SplitTables
    anomalies: Mapping[str, SplitAnomalies]
    schema: schema_pb2.Schema
    encoded: schema_pb2.Schema | None
    fitted: str
    analyzed: str
    shards: ShardPlan
    findings: validate.Findings = dataclasses.field(default_factory=dict)
    sampled: report.SampledRows = dataclasses.field(default_factory=report.SampledRows)
    shares: Mapping[str, Any] | None = None
    sampled_classes: Mapping[str, Any] | None = None


class FittedFolders(NamedTuple):
    """Where fitted encodings are, and the rows of classes.

    Attributes:
      fitted: fitted encodings; empty: nothing is fitted.
      analyzed: tensorflow-transform's analysis of the ``preprocessing_fn``; empty: there is none.
      shares: file of the rows of classes; empty: they are not divided.
    """

    fitted: str = ""
    analyzed: str = ""
    shares: str = ""


def make_result(
    plan: Plan,
    statistics: SplitTables,
    counts: Mapping[str, MergedCounts],
    samples: Sequence[Chunk],
    fitting: FittedFolders,
    found: Iterable[Met] = (),
) -> FirstPassResult:
    """Computes the result of the first pass.

    Args:
      plan: of the conversion.
      statistics: split -> statistics of the selected columns.
      counts: right source or ``BASE`` -> counts of its chunks.
      samples: sampled rows before encoding, in any order.
      fitting: what was fitted.
      found: rows that met.

    Raises:
      DataError: rows were lost, or too many were rejected, or an encoding does not take the data's
        schema, or an expectation has no value.
    """
    recipe = plan.recipe
    names = recipe.split.names
    encoder = LoadedEncoder(plan.encode, fitting.fitted, plan.preprocessing, fitting.analyzed)
    joined = [*joined_samples(samples)]
    encoded = [one._replace(batch=encoder(one.batch, one.path)) for one in joined]
    own = _base_counts(counts)
    base = counted_rows.count_base(plan.base, own, len(recipe.join), names, plan.partitions)
    row_counts = dataclasses.replace(
        base,
        sources={
            name: base.sources.get(name)
            or counted_rows.count_source(plan.sources[name], counts[name])
            for name in plan.sources
        },
    )
    row_counts.check(recipe)
    if plan.take is None:
        counted_rows.check_snapshots(plan.sources, row_counts)
    contract = plan.contract
    expected = (
        _inferred(plan, statistics) if contract is None else schema_pb2.Schema.FromString(contract)
    )
    # Records with accepted anomalies have to parse by the dataset's schema.
    schema = (
        update_schema(expected, list(statistics.values()), plan.policy.accepts)
        if plan.policy.accepted
        else add_representations(schema_pb2.Schema.FromString(expected.SerializeToString()))
    )
    selected = sum((*row_counts.divided.values(), *row_counts.left_out_by.values()))
    shard_bytes, framed_bytes = _estimate(plan, row_counts.rows, encoded)
    sampled, sample = _described(plan, fitting, joined, encoded)
    give_back_memory()
    encoded_schema = _encoded_schema(plan, schema, fitting)
    facts = Facts(
        selected + row_counts.merged,
        {name: row_counts.divided[name] for name in names},
        {},
        sampled=sample,
    )
    shards = plan_shards(recipe.output, names, own, shard_bytes, framed_bytes)
    return FirstPassResult(
        row_counts=row_counts,
        statistics=statistics,
        anomalies=find_anomalies(
            statistics, expected, plan.policy, validate.baseline_of(plan.policy)
        ),
        schema=schema,
        encoded=encoded_schema,
        fitted=fitting.fitted,
        analyzed=fitting.analyzed,
        shards=dataclasses.replace(
            shards, columns=_written_columns(plan, encoded_schema or schema)
        ),
        sampled=dataclasses.replace(sampled, images=_images(samples, plan)),
        findings=validate.judge_checks(plan, own.pieces, found, facts),
        shares=load_shares(plan.split, fitting.shares) if fitting.shares else None,
        sampled_classes=_describe_sampled(plan, row_counts),
    )


def _described(
    plan: Plan, fitting: FittedFolders, samples: Sequence[Chunk], encoded: Sequence[Chunk]
) -> tuple[report.SampledRows, SampledSplits | None]:
    name = plan.recipe.label
    label = LabelColumn(name, plan.labels.get(name or "", ()), plan.statistics.weight)
    encode = load_fitted(plan.encode, fitting.fitted)
    encode, samples, encoded = without_private(plan.recipe, encode, samples, encoded)
    return describe_sample(encode, plan.recipe.split.names, samples, encoded, label)


def check_anomalies(
    plan: Plan, result: FirstPassResult, folder: str, started: float
) -> FirstPassResult:
    """Ends the first pass, if the data may be written.

    Offending rows are listed in ``folder/rejected/``. An existing dataset in the folder
    stays as it is.

    Raises:
      DataError: an anomaly is not accepted, a check stops the run, or a row has no label or no
        record.
    """
    validate.stop_on_findings(result.findings, folder)
    validate.check_run(plan, result.anomalies, result.schema, folder)
    label = plan.recipe.label
    if label is not None and (nulls := _count_nulls(result, label)):
        raise DataError(
            f"label '{label}': found {show_count(nulls, 'row')} without one, expected none; "
            f"nothing was written. Leave them out with '{not_null_line(label)}', or of the "
            "columns that it is derived from."
        )
    record = plan.recipe.output.record
    if record is not None and (nulls := _count_nulls(result, record)):
        raise DataError(missing_records(record, nulls))
    metrics.end_stage("first_pass", started, sum(result.row_counts.rows.values()))
    return result


def check_joins_of(plan: Plan, joins: Sequence[counted_rows.JoinCounts]) -> None:
    """Raises ``DataError`` if a join has too few matches or too many.

    The rows that a dataset gets later may be few: none of them has to match.
    """
    few = plan.run.of_dataset or plan.take is not None
    check_joins(
        JoinMatches(
            join.source,
            *matches_of(join.how, counts.matched, counts.unmatched, counts.dropped),
            counts.added,
            0.0 if few and join.require_match is None else join.require_match,
            join.max_fanout,
        )
        for join, counts in zip(plan.recipe.join, joins, strict=True)
    )


def _base_counts(counts: Mapping[str, MergedCounts]) -> MergedCounts:
    return counts.get(counted_rows.BASE, MergedCounts.of([]))


def check_counted_joins(plan: Plan, counts: Mapping[str, MergedCounts]) -> None:
    """Checks the joins before encodings are fitted on what they gave.

    Raises:
      DataError: as ``check_joins_of`` does, or rows were lost.
    """
    names = plan.recipe.split.names
    joined = len(plan.recipe.join)
    own = _base_counts(counts)
    check_joins_of(
        plan, counted_rows.count_base(plan.base, own, joined, names, plan.partitions).joins
    )


def _count_nulls(result: FirstPassResult, column: str) -> int:
    return sum(
        table.columns[column].missing
        for table in result.statistics.values()
        if column in table.columns
    )


def _inferred(plan: Plan, statistics: Mapping[str, TableStatistics]) -> schema_pb2.Schema:
    schema = with_shapes(infer_schema(statistics), plan.encode.columns)
    add_sparse_features(schema, plan.sparse, statistics)
    image = report.image_column(plan.encode.columns, plan.recipe.rename)
    for feature in schema.feature:
        # Under its own name the column is known for an image without a domain.
        if feature.name == image and image in plan.recipe.rename.values():
            feature.image_domain.SetInParent()
    return add_representations(schema)


def _encoded_schema(
    plan: Plan, schema: schema_pb2.Schema, fitting: FittedFolders
) -> schema_pb2.Schema | None:
    """Returns the schema of the written features, or ``None``.

    ``None`` means that they equal the columns.
    """
    if fitting.analyzed:
        return read_schema(files.join(fitting.analyzed, "transformed_metadata", "schema.pbtxt"))
    encode = load_fitted(plan.encode, fitting.fitted)
    return encoded_schema(schema, encode) if encode.changes else None


def _images(samples: Sequence[Chunk], plan: Plan) -> tuple[report.ImageSample, ...]:
    ordered = sorted(samples, key=lambda sample: (sample.range_number, sample.part, sample.split))
    rows = ((sample.split, sample.batch) for sample in ordered)
    return report.choose_images(rows, plan.recipe.label, plan.recipe.rename, plan.labels)


def _estimate(
    plan: Plan, rows: Mapping[str, int], samples: Sequence[Chunk]
) -> tuple[dict[str, float], dict[str, float]]:
    """Returns split -> shard bytes, and split -> framed bytes."""
    shard_bytes, framed_bytes = {}, {}
    for name, count in rows.items():
        own = [sample for sample in samples if sample.split == name]
        compressed, framed = estimate_row_bytes(
            own or samples, plan.recipe.output, plan.encode.lists
        )
        shard_bytes[name], framed_bytes[name] = count * compressed, count * framed
    return shard_bytes, framed_bytes


def _describe_sampled(plan: Plan, counts: counted_rows.RowCounts) -> dict[str, Any] | None:
    """Returns the manifest's entry; ``None`` without a sample.

    Args:
      plan: of the run.
      counts: of the run.

    Raises:
      DataError: a class that the recipe names does not occur.
    """
    sample = plan.split.sample
    if sample is None:
        return None
    splits = [plan.split.names[number] for number in sample.splits]
    if not plan.run.of_dataset:  # new data need not have every class
        check_named(sample, {sample.names[number] for number in counts.classes})
    classes = [
        {
            "class": sample.names[number],
            "found": found,
            "written": written,
            "weight": 1 / sample.rates[number],
        }
        for number, (found, written) in counts.classes.items()
    ]
    return sampled_entry_of(sample.column, splits, classes)


def _written_columns(plan: Plan, schema: schema_pb2.Schema) -> pa.Schema | None:
    """Returns the names and types of the written features.

    ``None`` means that the shards do not need them. What a ``preprocessing_fn`` returns is
    bytes, not text: TensorFlow does not tell them apart.

    Args:
      plan: of the conversion.
      schema: of the written features.
    """
    if plan.recipe.output.format == TFRECORD:
        return None
    known = plan.encode.features() if plan.preprocessing is None else {}
    texts = {name for name, one in known.items() if pa.types.is_string(value_type(one.type))}
    steps = {field.name for field in plan.encode.columns if has_lists_as_steps(field.type)}
    return columns_of(schema, texts, steps)
