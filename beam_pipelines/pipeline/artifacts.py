"""Writes a dataset's files other than shards, the manifest last."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis import alerts, report
from beam_pipelines.analysis.anomalies import anomalies_to_proto, describe
from beam_pipelines.analysis.compare import BASELINE, measure_drift
from beam_pipelines.analysis.joins import joins_of
from beam_pipelines.analysis.schema import schema_to_text
from beam_pipelines.core.layout import dataset_layout
from beam_pipelines.core.layout.manifest import InnerPath, Manifest, to_text
from beam_pipelines.core.layout.shard_formats import part_compression_of
from beam_pipelines.encodings.apply import needed
from beam_pipelines.encodings.labels import label_files
from beam_pipelines.files.beam import file_checksums, files
from beam_pipelines.pipeline.first_pass_result import FirstPassResult
from beam_pipelines.pipeline.new_manifest import is_gathered, make_manifest
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.validate import baseline_of
from beam_pipelines.sources.files.file_list import masked_to_bytes
from beam_pipelines.tfrecord.part_index import write_index
from beam_pipelines.transforms.select.rejected_files import write_rejected
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
      plan, result, shards, started: as in ``commit.stage``.
      place: returns the target of a path within the dataset.
      manifest_name: path of the manifest within the dataset.
      others: paths of files that are written already, for their checksums in the manifest.

    Returns:
      Paths within the dataset, in order.
    """
    written: list[str] = []

    def write(path: str, content: str | bytes) -> None:
        files.write_bytes(place(path), content.encode() if isinstance(content, str) else content)
        written.append(path)

    for name, source in result.row_counts.sources.items():
        if source.stored:
            written.append(f"{dataset_layout.REJECTED}/{name}.jsonl")
            write_rejected(place(written[-1]), source.stored, plan.sources[name].places)
    if is_gathered(plan.base):
        write(dataset_layout.inputs_path(plan.recipe.base), masked_to_bytes(plan.base.files))
    statistics = result.statistics
    for path, content in statistics.files():
        write(path, content)
    write(dataset_layout.RAW_SCHEMA, schema_to_text(result.schema))
    expected = (
        result.schema if plan.contract is None else schema_pb2.Schema.FromString(plan.contract)
    )
    for name, anomalies in anomalies_to_proto(result.anomalies, expected).items():
        write(dataset_layout.anomalies_path(name), anomalies.SerializeToString(deterministic=True))
    manifest = make_manifest(plan, result, shards, place, started)
    if manifest.schema == dataset_layout.SEQUENCE_SCHEMA and result.encoded is not None:
        write(dataset_layout.SEQUENCE_SCHEMA, schema_to_text(result.encoded))
    for path, text in label_files(manifest.labels, plan.recipe.label).items():
        write(path, text)
    data = _data(plan, result, manifest)
    # No program reads what is rejected, or the report, whose times differ between runs.
    checked = [path for path in (*written, *others) if not path.startswith(dataset_layout.REJECTED)]
    manifest = dataclasses.replace(
        manifest,
        alerts=alerts.by_kind(alert for alert in data.alerts if alert.what != alerts.OF_JOIN),
        files=file_checksums.entries_of({InnerPath(path): place(path) for path in checked}),
    )
    write(dataset_layout.REPORT, report.render_report(report.Report(manifest, statistics, data)))
    write(manifest_name, to_text(manifest))
    return written


def write_indexes(
    shards: Sequence[ShardInfo], folder: str, place: Callable[[str], str]
) -> list[str]:
    """Writes the index of each split's shards.

    Args:
      shards: as in ``commit.stage``.
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
        path = dataset_layout.index_path(split)
        with files.replace(place(path)) as file:
            write_index(file, index)
        written.append(path)
    return written


def _data(plan: Plan, result: FirstPassResult, manifest: Manifest) -> report.ReportData:
    """Returns what the report shows and no other file has."""
    keys = plan.recipe.split.by
    drifts = measure_drift(result.statistics, baseline_of(plan.policy) or {})
    # The values of columns that the recipe splits by differ by its will.
    of_others = {
        name: tuple(one for one in found if name not in keys or one.reference == BASELINE)
        for name, found in drifts.items()
    }
    return report.ReportData(
        describe(result.anomalies),
        tuple(_alerts(plan, manifest, result)),
        [row for source in result.row_counts.sources.values() for row in source.rejected_rows],
        plan.labels,
        of_others,
        result.sampled,
    )


def _alerts(plan: Plan, manifest: Manifest, result: FirstPassResult) -> Iterator[alerts.Alert]:
    """Yields the alerts, but of columns that are only dropped."""
    for join in joins_of(manifest):
        for warning in join.warnings():
            yield alerts.Alert(f"join with {join.source}", alerts.OF_JOIN, warning)
    yield from _repeats(plan, manifest, result)
    yield from result.sampled.alerts
    _, used = needed(plan.encode, plan.encode.written)
    for alert in alerts.find_alerts(result.statistics, plan.recipe.label, plan.recipe.split.by):
        if alert.feature in used or alert.what == alerts.NULL_KEY:
            yield alert


def _repeats(plan: Plan, manifest: Manifest, result: FirstPassResult) -> Iterator[alerts.Alert]:
    """Yields an alert of equal rows, unless a check looks for them."""
    is_told = any(check.finds_equal_rows for check in plan.select.checks)
    if not is_told and not manifest.counts.repeated:
        sampled, rows = result.sampled, manifest.counts.written
        yield from alerts.find_repeats(sampled.compared, sampled.repeats, rows)
