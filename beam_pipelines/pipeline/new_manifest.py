"""Makes the manifest of a dataset that a run has written."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from beam_pipelines.core.arrow.columns import column_type, parse_type, type_name
from beam_pipelines.core.errors import mask
from beam_pipelines.core.layout import dataset_layout, manifest
from beam_pipelines.core.layout.shard_formats import PARQUET_COMPRESSION, TFRECORD
from beam_pipelines.core.version import __version__
from beam_pipelines.encodings.labels import labels_of_features
from beam_pipelines.encodings.plan import with_fitted
from beam_pipelines.files.beam import file_checksums
from beam_pipelines.pipeline.first_pass_result import FirstPassResult
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.validate import entries_of
from beam_pipelines.recipe.normal_form import normalised, recipe_hash
from beam_pipelines.recipe.path_dates import span_of
from beam_pipelines.recipe.unions import unused_sources
from beam_pipelines.sources import format_of
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.wrapping.partitions import Partitioned
from beam_pipelines.transforms import write
from beam_pipelines.transforms.encode import load_encodings
from beam_pipelines.transforms.row_counts import SourceCounts

_LIBRARIES = (
    "apache-beam",
    "pyarrow",
    "numpy",
    "duckdb",
    "isal",
    "pillow",
    "tfx-bsl",
    "tensorflow-metadata",
    "zlib-ng",
)


def make_manifest(
    plan: Plan,
    result: FirstPassResult,
    shards: Sequence[write.ShardInfo],
    place: Callable[[str], str],
    started: float,
) -> manifest.Manifest:
    """Returns the manifest of a dataset, without alerts and checksums of files.

    Arguments are those of ``artifacts.write_files``.
    """
    recipe, rows, sampled = plan.recipe, result.row_counts, result.sampled_classes
    base, is_parquet = rows.sources[recipe.base], recipe.output.format != TFRECORD
    ordered = sorted(shards, key=lambda shard: shard.path)
    schema = (
        dataset_layout.ENCODED_SCHEMA if result.encoded is not None else dataset_layout.RAW_SCHEMA
    )
    if result.encoded is not None and plan.encode.lists:
        schema = dataset_layout.SEQUENCE_SCHEMA
    record: manifest.Record = "example" if recipe.sequence is None else "sequence_example"
    if recipe.output.record is not None:
        record = "raw"
    take, taken = plan.take, None
    if take is not None:
        taken = {"limit": take.limit, "sample": take.share, "unread_bytes": take.unread_bytes}
    timings = {"started": started, "total_secs": round(time.time() - started, 3)}
    if result.shards.finished:
        timings["resumed_shards"] = len(result.shards.finished)
    # The analysis of a preprocessing_fn is stored in the graph only.
    encodings = place(
        dataset_layout.ENCODINGS if plan.preprocessing is None else dataset_layout.TRANSFORM_GRAPH
    )
    return manifest.Manifest(
        name=recipe.name,
        date=None if recipe.date is None else recipe.date.isoformat(),
        span=None if recipe.date is None else span_of(recipe.date),
        recipe=normalised(recipe),
        recipe_hash=recipe_hash(recipe),
        directory=mask(recipe.directory),
        schema=manifest.InnerPath(schema),
        columns={field.name: type_name(field.type) for field in plan.encode.columns},
        label=recipe.label,
        labels={
            **plan.labels,
            **_vocabulary_of_label(plan, result, place(dataset_layout.ENCODINGS)),
        },
        encodings=None if result.encoded is None else file_checksums.folder_fingerprint(encodings),
        contract=None
        if plan.contract is None
        else f"sha256:{hashlib.sha256(plan.contract).hexdigest()}",
        record=record,
        format=recipe.output.format,
        compression=PARQUET_COMPRESSION if is_parquet else recipe.output.compression,
        splits={
            name: _split(count, [shard for shard in ordered if shard.split == name])
            for name, count in rows.rows.items()
        },
        sources={name: _source(one, rows.sources[name]) for name, one in plan.sources.items()},
        joins=tuple(
            manifest.ManifestJoin(source=join.source, how=join.how, **vars(counts))
            for join, counts in zip(recipe.join, rows.joins, strict=True)
        ),
        counts=manifest.Counts(
            read=base.read,
            rejected=base.rejected,
            added=rows.added,
            dropped=sum(join.dropped for join in rows.joins),
            filtered=rows.filtered,
            filtered_first=rows.filtered_first if recipe.join else None,
            merged=rows.merged,
            left_out=None if take is None else rows.left_out,
            left_out_by=rows.left_out_by,
            sampled_out=None if sampled is None else sum(rows.sampled_out.values()),
            repeated=None if sampled is None else sum(rows.repeated.values()),
            written=sum(shard.rows for shard in shards),
        ),
        versions={"beam-pipelines": __version__, "python": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in _LIBRARIES},
        timings=timings,
        unused_sources=tuple(unused_sources(recipe)),
        taken=taken,
        findings=tuple(entries_of(result.findings)),
        class_shares=result.shares,
        sample=sampled,
    )


def is_gathered(plan: SourcePlan) -> bool:
    """Whether small files of a source are read together.

    The manifest then has no entry for each.
    """
    return bool(plan.ranges) and plan.ranges[0].members != (0, 0)


def _split(rows: int, shards: Sequence[write.ShardInfo]) -> manifest.ManifestSplit:
    return manifest.ManifestSplit(
        rows=rows,
        bytes=sum(shard.bytes for shard in shards),
        framed_bytes=sum(shard.framed_bytes for shard in shards),
        shards=tuple(
            manifest.ManifestShard(
                path=manifest.InnerPath(shard.path),
                rows=shard.rows,
                bytes=shard.bytes,
                crc32c=f"{shard.crc32c:08x}",
            )
            for shard in shards
        ),
    )


def _source(plan: SourcePlan, counts: SourceCounts) -> manifest.ManifestSource:
    found = None
    if plan.decisions:
        source = plan.source
        shown = {"columns": source.columns, **format_of(plan).found_of(source)}
        found = {name: value for name, value in shown.items() if value not in (None, {}, ())}
    return manifest.ManifestSource(
        format=plan.format,
        columns={field.name: _type_name(field.type) for field in plan.read_schema},
        labels=plan.labels,
        read=counts.read,
        rejected=counts.rejected,
        files=tuple(_files(plan, counts.fingerprints)),
        decisions=tuple(plan.decisions),
        found=found,
        partitions=tuple(plan.reader.names) if isinstance(plan.reader, Partitioned) else (),
        snapshot=plan.snapshot and manifest.ManifestSnapshot(**plan.snapshot._asdict()),
    )


def _files(plan: SourcePlan, fingerprints: Mapping[str, str]) -> Iterator[manifest.File]:
    """Yields the files of a source; of gathered small ones the first."""
    gathered = plan.ranges if is_gathered(plan) else ()
    for byte_range in gathered:
        (first, end), path = byte_range.members, byte_range.file.path
        found = fingerprints.get(path, "")
        yield manifest.File(
            path=mask(path), bytes=byte_range.end, fingerprint=found, files=end - first
        )
    for file in () if gathered else plan.files:
        yield manifest.File(
            path=mask(file.path),
            bytes=file.size_bytes,
            fingerprint=fingerprints.get(file.path, ""),
            modified=file.modified_secs,
        )


def _type_name(type_: pa.DataType) -> str:
    """Returns the recipe's name of a type, which ``types:`` takes.

    Of a timestamp with a zone, which becomes UTC, it is the plain one.
    """
    try:
        parse_type(type_name(type_))
    except ValueError:
        return type_name(column_type(type_) or type_)
    return type_name(type_)


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
