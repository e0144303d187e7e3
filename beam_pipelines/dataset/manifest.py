"""Writes and reads ``dataset.json``, the manifest of a dataset.

A conversion writes it last; readers read it first.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import platform
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from beam_pipelines.analysis.class_shares import ClassShares
from beam_pipelines.core.arrow.columns import column_type, parse_type, type_name
from beam_pipelines.core.errors import DataError, mask
from beam_pipelines.core.layout.compression import PARQUET_COMPRESSION
from beam_pipelines.core.layout.dataset_layout import DESCRIPTION, MANIFEST
from beam_pipelines.core.layout.manifest import (
    AlsoFile,
    Counts,
    File,
    InnerPath,
    Manifest,
    ManifestJoin,
    ManifestShard,
    ManifestSnapshot,
    ManifestSource,
    ManifestSplit,
    Record,
    parse_manifest,
)
from beam_pipelines.core.layout.shard_formats import TFRECORD
from beam_pipelines.core.version import __version__
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.normal_form import normalised, recipe_hash
from beam_pipelines.recipe.path_dates import span_of
from beam_pipelines.recipe.unions import unused_sources
from beam_pipelines.sources import format_of
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.wrapping.partitions import Partitioned
from beam_pipelines.storage import files
from beam_pipelines.transforms import write
from beam_pipelines.transforms.row_counts import RowCounts, SourceCounts
from beam_pipelines.transforms.take import Take

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


@dataclasses.dataclass(frozen=True)
class FinishedRun:
    """The parts of a run that its manifest describes.

    Attributes:
      recipe, plans, row_counts: of the run.
      shards: of the run, in any order.
      schema: path of the schema that parses the records, relative to the dataset.
      columns: the selected columns, before encoding.
      labels: feature -> labels by id.
      encodings: fingerprint of the fitted encodings, or ``None``.
      timings: step -> seconds.
      contract: the recipe's schema, serialized, or ``None``.
      take: the part of the base source's rows that the run took; ``None``: all.
      findings: entries of the checks; empty: there is no check.
      shares: of classes; ``None``: they are not divided.
      sampled: the entry of sampled classes; ``None``: rows are not sampled.
    """

    recipe: Recipe
    plans: Mapping[str, SourcePlan]
    row_counts: RowCounts
    shards: Sequence[write.ShardInfo]
    schema: str
    columns: pa.Schema
    labels: Mapping[str, tuple[str, ...]]
    encodings: str | None
    timings: dict[str, float]
    contract: bytes | None = None
    take: Take | None = None
    findings: Sequence[Mapping[str, Any]] = ()
    shares: ClassShares | None = None
    sampled: Mapping[str, Any] | None = None


def make_manifest(run: FinishedRun) -> Manifest:
    """Returns the manifest of a dataset, without alerts and checksums of files."""
    recipe, plans, rows, sampled = run.recipe, run.plans, run.row_counts, run.sampled
    base, is_parquet = rows.sources[recipe.base], recipe.output.format != TFRECORD
    ordered = sorted(run.shards, key=lambda shard: shard.path)
    return Manifest(
        name=recipe.name,
        date=None if recipe.date is None else recipe.date.isoformat(),
        span=None if recipe.date is None else span_of(recipe.date),
        recipe=normalised(recipe),
        recipe_hash=recipe_hash(recipe),
        directory=mask(recipe.directory),
        schema=InnerPath(run.schema),
        columns={field.name: type_name(field.type) for field in run.columns},
        label=recipe.label,
        labels=run.labels,
        encodings=run.encodings,
        contract=None
        if run.contract is None
        else f"sha256:{hashlib.sha256(run.contract).hexdigest()}",
        record=_record_kind(recipe),
        format=recipe.output.format,
        compression=PARQUET_COMPRESSION if is_parquet else recipe.output.compression,
        splits={
            name: _split(count, [shard for shard in ordered if shard.split == name])
            for name, count in rows.rows.items()
        },
        sources={name: _source(plan, rows.sources[name]) for name, plan in plans.items()},
        joins=tuple(
            ManifestJoin(source=join.source, how=join.how, **vars(counts))
            for join, counts in zip(recipe.join, rows.joins, strict=True)
        ),
        counts=Counts(
            read=base.read,
            rejected=base.rejected,
            added=rows.added,
            dropped=sum(join.dropped for join in rows.joins),
            filtered=rows.filtered,
            filtered_first=rows.filtered_first if recipe.join else None,
            merged=rows.merged,
            left_out=None if run.take is None else rows.left_out,
            left_out_by=rows.left_out_by,
            sampled_out=None if sampled is None else sum(rows.sampled_out.values()),
            repeated=None if sampled is None else sum(rows.repeated.values()),
            written=sum(shard.rows for shard in run.shards),
        ),
        versions={"beam-pipelines": __version__, "python": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in _LIBRARIES},
        timings=run.timings,
        unused_sources=tuple(unused_sources(recipe)),
        taken=None if run.take is None else _taken(run.take),
        findings=tuple(run.findings),
        class_shares=None if run.shares is None else run.shares.to_json(),
        sample=sampled,
    )


def _taken(take: Take) -> dict[str, Any]:
    return {"limit": take.limit, "sample": take.share, "unread_bytes": take.unread_bytes}


def is_gathered(plan: SourcePlan) -> bool:
    """Whether small files of a source are read together.

    The manifest then has no entry for each.
    """
    return any(byte_range.members != (0, 0) for byte_range in plan.ranges)


def _record_kind(recipe: Recipe) -> Record:
    if recipe.output.record is not None:
        return "raw"
    return "example" if recipe.sequence is None else "sequence_example"


def _split(rows: int, shards: Sequence[write.ShardInfo]) -> ManifestSplit:
    return ManifestSplit(
        rows=rows,
        bytes=sum(shard.bytes for shard in shards),
        framed_bytes=sum(shard.framed_bytes for shard in shards),
        shards=tuple(
            ManifestShard(
                **vars(_file(shard)), also={file.format: _file(file) for file in shard.also}
            )
            for shard in shards
        ),
    )


def _file(file: write.ShardInfo | write.WrittenAlso) -> AlsoFile:
    return AlsoFile(
        path=InnerPath(file.path), rows=file.rows, bytes=file.bytes, crc32c=f"{file.crc32c:08x}"
    )


def _source(plan: SourcePlan, counts: SourceCounts) -> ManifestSource:
    found = None
    if plan.decisions:
        source = plan.source
        shown = {"columns": source.columns, **format_of(plan).found_of(source)}
        found = {name: value for name, value in shown.items() if value not in (None, {}, ())}
    return ManifestSource(
        format=plan.format,
        columns={field.name: _type_name(field.type) for field in plan.read_schema},
        labels=plan.labels,
        read=counts.read,
        rejected=counts.rejected,
        files=tuple(_files(plan, counts.fingerprints)),
        decisions=tuple(plan.decisions),
        found=found,
        partitions=tuple(plan.reader.names) if isinstance(plan.reader, Partitioned) else (),
        snapshot=plan.snapshot and ManifestSnapshot(**plan.snapshot._asdict()),
    )


def _files(plan: SourcePlan, fingerprints: Mapping[str, str]) -> Iterator[File]:
    """Yields the files of a source; of gathered small ones the first."""
    gathered = [byte_range for byte_range in plan.ranges if byte_range.members != (0, 0)]
    for byte_range in gathered:
        (first, end), path = byte_range.members, byte_range.file.path
        found = fingerprints.get(path, "")
        yield File(path=mask(path), bytes=byte_range.end, fingerprint=found, files=end - first)
    for file in () if gathered else plan.files:
        yield File(
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


def read_manifest(folder: str, name: str = MANIFEST) -> Manifest:
    """Reads the manifest of a dataset or of a description.

    Raises:
      DataError: there is none, or this version cannot read it.
    """
    path = files.join(folder, name)
    if not files.exists(path):
        raise DataError(
            f"{folder}: found no {name}, so there is no dataset, or none that was finished."
        )
    return parse_manifest(files.read_bytes(path), path, name == DESCRIPTION)


def find_manifest(path: str) -> Manifest | None:
    """Reads the manifest of a dataset or description, if any.

    Args:
      path: a folder, or a file of statistics, which has none.

    Raises:
      DataError: this version cannot read it.
    """
    if path.endswith(".pb"):
        return None
    found = (name for name in (MANIFEST, DESCRIPTION) if files.exists(files.join(path, name)))
    name = next(found, None)
    return None if name is None else read_manifest(path, name)
