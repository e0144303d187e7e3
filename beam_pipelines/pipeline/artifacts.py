"""Writes a dataset's files other than shards, the manifest last."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis import report
from beam_pipelines.analysis.alerts import Alert, by_kind, find_alerts, find_repeats
from beam_pipelines.analysis.anomalies import anomalies_to_proto, describe
from beam_pipelines.analysis.joins import joins_of
from beam_pipelines.analysis.schema import schema_to_text
from beam_pipelines.analysis.statistics import TableStatistics
from beam_pipelines.analysis.statistics.datasets import (
    has_accumulators,
    read_accumulators,
    statistics_to_files,
)
from beam_pipelines.core.layout.compression import part_compression_of
from beam_pipelines.core.layout.dataset_layout import (
    ENCODED_SCHEMA,
    ENCODINGS,
    RAW_SCHEMA,
    REJECTED,
    REPORT,
    SEQUENCE_SCHEMA,
    TRANSFORM_GRAPH,
    anomalies_path,
    index_path,
    inputs_path,
)
from beam_pipelines.core.layout.manifest import InnerPath, Manifest, to_text
from beam_pipelines.dataset.manifest import FinishedRun, is_gathered, make_manifest
from beam_pipelines.encodings.labels import label_files, labels_of_features
from beam_pipelines.encodings.plan import with_fitted
from beam_pipelines.pipeline.checks import entries_of
from beam_pipelines.pipeline.first_pass_result import FirstPassResult
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.sources.files.file_list import masked_to_bytes
from beam_pipelines.storage import file_checksums, files
from beam_pipelines.tfrecord.part_index import write_index
from beam_pipelines.transforms.encode import load_encodings
from beam_pipelines.transforms.row_counts import StoredRows, write_rejected
from beam_pipelines.transforms.select.select import SelectPlan
from beam_pipelines.transforms.shards import join_indexes
from beam_pipelines.transforms.write import ShardInfo


def write_files(
    plan: Plan,
    result: FirstPassResult,
    shards: Sequence[ShardInfo],
    place: Callable[[str], str],
    manifest_name: str,
    started: float,
    others: Sequence[str] = (),
) -> list[str]:
    """Writes all files except the shards, the manifest last.

    Args:
      plan, result, shards, started: as in ``commit``.
      place: returns the target of a path within the dataset.
      manifest_name: path of the manifest within the dataset.
      others: paths of files that are written already, for their checksums in the manifest.

    Returns:
      Paths within the dataset, in order.
    """
    written: list[str] = []

    def write(path: str, content: str | bytes) -> None:
        with files.replace(place(path)) as file:
            file.write(content.encode() if isinstance(content, str) else content)
        written.append(path)

    for path, stored, places in _rejected(plan, result):
        write_rejected(place(path), stored, places)
        written.append(path)
    if is_gathered(plan.base):
        write(inputs_path(plan.recipe.base), masked_to_bytes(plan.base.files))
    statistics = result.statistics
    for path, content in statistics_to_files(statistics, plan.statistics):
        write(path, content)
    write(RAW_SCHEMA, schema_to_text(result.schema))
    expected = (
        result.schema if plan.contract is None else schema_pb2.Schema.FromString(plan.contract)
    )
    for name, anomalies in anomalies_to_proto(result.anomalies, expected).items():
        write(anomalies_path(name), anomalies.SerializeToString(deterministic=True))
    manifest = _manifest(plan, result, shards, place, started)
    if manifest.schema == SEQUENCE_SCHEMA and result.encoded is not None:
        write(SEQUENCE_SCHEMA, schema_to_text(result.encoded))
    for path, text in label_files(manifest.labels, plan.recipe.label).items():
        write(path, text)
    alerts = [
        *_repeats(plan, manifest, result),
        *result.sampled.alerts,
        *find_alerts(statistics, plan.recipe.label, plan.recipe.split.by),
    ]
    # No program reads what is rejected, or the report, whose times differ between runs.
    checked = [path for path in (*written, *others) if not path.startswith(REJECTED)]
    manifest = dataclasses.replace(
        manifest,
        alerts=by_kind(alerts),
        files=file_checksums.entries_of({InnerPath(path): place(path) for path in checked}),
    )
    write(REPORT, report.render_report(_report(plan, result, manifest, statistics, alerts)))
    write(manifest_name, to_text(manifest))
    return written


def write_indexes(
    shards: Sequence[ShardInfo], folder: str, place: Callable[[str], str]
) -> list[str]:
    """Writes the index of each split's shards.

    Args:
      shards: as in ``commit``.
      folder: where the shards' own indexes are.
      place: as in ``write_files``.

    Returns:
      Paths within the dataset, in order.
    """
    written = []
    for split in dict.fromkeys(shard.split for shard in shards):
        own = [shard for shard in shards if shard.split == split]
        own.sort(key=lambda shard: shard.path)
        compression = part_compression_of(own[0].path)
        index = join_indexes([shard.indexed() for shard in own], compression, folder)
        path = index_path(split)
        with files.replace(place(path)) as file:
            write_index(file, index)
        written.append(path)
    return written


def _rejected(
    plan: Plan, result: FirstPassResult
) -> Iterator[tuple[str, StoredRows, Mapping[str, int]]]:
    """Yields the rejected rows of each source that has some.

    Yields:
      Path of their file, where they are stored, and the order of the source's files.
    """
    for name, source in result.row_counts.sources.items():
        if source.stored:
            yield f"{REJECTED}/{name}.jsonl", source.stored, plan.sources[name].places


def _manifest(
    plan: Plan,
    result: FirstPassResult,
    shards: Sequence[ShardInfo],
    place: Callable[[str], str],
    started: float,
) -> Manifest:
    """Returns the manifest of the dataset."""
    schema = ENCODED_SCHEMA if result.encoded is not None else RAW_SCHEMA
    if result.encoded is not None and plan.encode.lists:
        schema = SEQUENCE_SCHEMA
    timings = {"total_secs": round(time.time() - started, 3)}
    if result.shards.finished:
        timings["resumed_shards"] = len(result.shards.finished)
    names = {**plan.labels, **_vocabulary_of_label(plan, result, place(ENCODINGS))}
    encodings = None if result.encoded is None else _fingerprint_of_encodings(plan, place)
    run = FinishedRun(
        recipe=plan.recipe,
        plans=plan.sources,
        row_counts=result.row_counts,
        shards=shards,
        schema=schema,
        columns=plan.encode.columns,
        labels=names,
        encodings=encodings,
        timings=timings,
        contract=plan.contract,
        take=plan.take,
        findings=entries_of(result.findings),
        shares=result.shares,
        sampled=result.sampled_classes,
    )
    return make_manifest(run)


def _vocabulary_of_label(
    plan: Plan, result: FirstPassResult, folder: str
) -> dict[str, tuple[str, ...]]:
    """Returns label -> its values by id, if a vocabulary encodes it.

    Args:
      folder: of the fitted encodings.
    """
    if not result.fitted or plan.preprocessing is not None:
        return {}
    fitted = with_fitted(plan.encode, load_encodings(folder))
    label = plan.recipe.label
    return {name: texts for name, texts in labels_of_features(fitted).items() if name == label}


def _fingerprint_of_encodings(plan: Plan, place: Callable[[str], str]) -> str:
    """Returns a fingerprint; equal ones encode equal values alike."""
    # The analysis of a preprocessing_fn is stored in the graph only.
    return file_checksums.folder_fingerprint(
        place(ENCODINGS if plan.preprocessing is None else TRANSFORM_GRAPH)
    )


def _report(
    plan: Plan,
    result: FirstPassResult,
    manifest: Manifest,
    statistics: Mapping[str, TableStatistics],
    alerts: Sequence[Alert],
) -> report.Report:
    """Returns the content of the report."""
    recipe, baseline, counted = plan.recipe, plan.policy.baseline_path, manifest.counts
    splits = {
        name: report.SplitSummary(split.rows, tuple(shard.bytes for shard in split.shards))
        for name, split in manifest.splits.items()
    }
    sources = [
        report.SourceSummary(
            name, source.file_count, source.bytes, source.read, source.rejected, source.decisions
        )
        for name, source in manifest.sources.items()
    ]
    joins = [
        report.JoinSummary(
            step.join.source,
            step.join.how,
            step.strategy,
            ", ".join(
                left if left == right else f"{left} = {right}" for left, right in step.join.on
            ),
            counts.matched,
            counts.unmatched + counts.dropped,
            counts.dropped,
            counts.added,
        )
        for step, counts in zip(plan.joins.steps, manifest.joins, strict=True)
    ]
    return report.Report(
        recipe.name,
        recipe.base,
        splits,
        sources,
        joins,
        describe(result.anomalies),
        statistics,
        filter_first=_sql(plan.base_filter),
        filter=_sql(plan.select),
        filtered_first=counted.filtered_first or 0,
        filtered=counted.filtered,
        left_out=counted.left_out or 0,
        label=recipe.label,
        rejected=[
            row for source in result.row_counts.sources.values() for row in source.rejected_rows
        ],
        images=result.images,
        baseline=read_accumulators(baseline).splits
        if baseline and has_accumulators(baseline)
        else {},
        schema=_schema_name(plan),
        findings=manifest.findings,
        left_out_by=counted.left_out_by,
        sampled_out=counted.sampled_out or 0,
        repeated=counted.repeated or 0,
        alerts=[
            *(
                Alert(f"join with {join.source}", "join", warning)
                for join in joins_of(manifest)
                for warning in join.warnings()
            ),
            *alerts,
        ],
        class_names=plan.labels,
        sampled=result.sampled,
        recipe=_recipe_text(manifest.recipe),
        seconds=manifest.timings["total_secs"],
        versions=manifest.versions,
    )


def _sql(select: SelectPlan | None) -> str:
    """Returns the condition of a selection, or an empty text."""
    return "" if select is None or select.filter is None else select.filter.sql


def _repeats(plan: Plan, manifest: Manifest, result: FirstPassResult) -> Iterator[Alert]:
    """Yields an alert of equal rows, unless a check looks for them."""
    is_told = any(check.finds_equal_rows for check in plan.select.checks)
    if not is_told and not manifest.counts.repeated:
        sampled, rows = result.sampled, manifest.counts.written
        yield from find_repeats(sampled.compared, sampled.repeats, rows)


def _recipe_text(recipe: Mapping[str, Any]) -> str:
    """Returns a normal form as YAML, without what is empty."""
    import yaml  # here, because workers do not need it

    def filled(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        items = ((name, filled(item)) for name, item in value.items())
        return {name: item for name, item in items if item not in (None, [], {}, "")}

    return yaml.safe_dump(filled(recipe), sort_keys=False, allow_unicode=True, width=100)


def _schema_name(plan: Plan) -> str | None:
    """Returns the name of the contract in the report.

    It has no folder of this machine, so that the report is the same everywhere. It is ``None``
    without a contract.
    """
    if plan.contract is None:
        return None
    return plan.recipe.schema or "that was given"
