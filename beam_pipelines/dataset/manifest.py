"""Writes and reads ``dataset.json``, the manifest of a dataset.

A conversion writes it last; readers read it first.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from beam_pipelines.analysis.class_shares import ClassShares
from beam_pipelines.core.chunks import LEFT_OUT
from beam_pipelines.core.columns import column_type, parse_type, type_name
from beam_pipelines.core.compression import PARQUET_COMPRESSION
from beam_pipelines.core.dataset_layout import DESCRIPTION, MANIFEST
from beam_pipelines.core.errors import DataError, mask
from beam_pipelines.core.manifest_reader import (
    FORMAT_VERSION,
    DatasetManifest,
    DescriptionManifest,
    parse_manifest,
)
from beam_pipelines.core.shard_formats import TFRECORD
from beam_pipelines.core.version import __version__
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.normal_form import normalised, recipe_hash
from beam_pipelines.recipe.output import Output
from beam_pipelines.recipe.path_dates import span_of
from beam_pipelines.recipe.unions import unused_sources
from beam_pipelines.sources import format_of
from beam_pipelines.sources.partitions import Partitioned
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.storage import files
from beam_pipelines.transforms.row_counts import RowCounts
from beam_pipelines.transforms.take import Take
from beam_pipelines.transforms.write import ShardInfo

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

Manifest = dict[str, Any]


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
    shards: Sequence[ShardInfo]
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
    """Returns the manifest of a dataset."""
    recipe, plans, row_counts = run.recipe, run.plans, run.row_counts
    ordered = sorted(run.shards, key=lambda shard: shard.path)
    manifest: Manifest = {
        "format_version": FORMAT_VERSION,
        "name": recipe.name,
        "date": recipe.date and recipe.date.isoformat(),
        "span": None if recipe.date is None else span_of(recipe.date),
        "recipe": normalised(recipe),
        "recipe_hash": recipe_hash(recipe),
        "directory": mask(recipe.directory),
        "schema": run.schema,
        "columns": {field.name: type_name(field.type) for field in run.columns},
        "label": recipe.label,
        "labels": {name: list(names) for name, names in run.labels.items()},
        "encodings": run.encodings,
        "contract": run.contract and f"sha256:{hashlib.sha256(run.contract).hexdigest()}",
        "record": _record_kind(recipe),
        **_format(recipe.output),
        "splits": {
            name: _split_entry(rows, [shard for shard in ordered if shard.split == name])
            for name, rows in row_counts.rows.items()
        },
        "sources": {name: _source_entry(plans[name], row_counts) for name in plans},
        "joins": [
            {"source": join.source, "how": join.how, **vars(counts)}
            for join, counts in zip(recipe.join, row_counts.joins, strict=True)
        ],
        "counts": {
            "read": row_counts.sources[recipe.base].read,
            "rejected": row_counts.sources[recipe.base].rejected,
            "added": row_counts.added,
            "dropped": sum(join.dropped for join in row_counts.joins),
            "filtered": row_counts.filtered,
            **({"filtered_first": row_counts.filtered_first} if recipe.join else {}),
            "merged": row_counts.merged,
            **({} if run.take is None else {LEFT_OUT: row_counts.left_out}),
            **{f"{LEFT_OUT}/{check}": rows for check, rows in row_counts.left_out_by.items()},
            **(
                {}
                if run.sampled is None
                else {
                    "sampled_out": sum(row_counts.sampled_out.values()),
                    "repeated": sum(row_counts.repeated.values()),
                }
            ),
            "written": sum(shard.rows for shard in run.shards),
        },
        "versions": {"beam-pipelines": __version__, "python": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in _LIBRARIES},
        "timings": run.timings,
    }
    if unused := unused_sources(recipe):
        manifest["unused_sources"] = list(unused)
    if run.take is not None:
        manifest["taken"] = {
            "limit": run.take.limit,
            "sample": run.take.share,
            "unread_bytes": run.take.unread_bytes,
        }
    if run.findings:
        manifest["findings"] = list(run.findings)
    if run.shares is not None:
        manifest["class_shares"] = run.shares.to_json()
    if run.sampled is not None:
        manifest["sample"] = dict(run.sampled)
    return manifest


def is_gathered(plan: SourcePlan) -> bool:
    """Whether small files of a source are read together.

    The manifest then has no entry for each.
    """
    return any(byte_range.members != (0, 0) for byte_range in plan.ranges)


def _format(output: Output) -> dict[str, str]:
    """Returns compression and, if it is not TFRecord, format of shards."""
    if output.format == TFRECORD:
        return {"compression": output.compression}
    return {"format": output.format, "compression": PARQUET_COMPRESSION}


def _record_kind(recipe: Recipe) -> str:
    if recipe.output.record is not None:
        return "raw"
    return "example" if recipe.sequence is None else "sequence_example"


def _split_entry(rows: int, shards: Sequence[ShardInfo]) -> dict[str, Any]:
    return {
        "rows": rows,
        "bytes": sum(shard.bytes for shard in shards),
        "framed_bytes": sum(shard.framed_bytes for shard in shards),
        "shards": [
            {
                "path": shard.path,
                "rows": shard.rows,
                "bytes": shard.bytes,
                "crc32c": f"{shard.crc32c:08x}",
                **_also(shard),
            }
            for shard in shards
        ],
    }


def _also(shard: ShardInfo) -> dict[str, Any]:
    files = {
        file.format: {
            "path": file.path,
            "rows": file.rows,
            "bytes": file.bytes,
            "crc32c": f"{file.crc32c:08x}",
        }
        for file in shard.also
    }
    return {"also": files} if files else {}


def _source_entry(plan: SourcePlan, row_counts: RowCounts) -> dict[str, Any]:
    source = row_counts.sources[plan.source.name]
    return (
        {
            "format": plan.format,
            "columns": {field.name: _type_name(field.type) for field in plan.read_schema},
            "labels": {name: list(names) for name, names in plan.labels.items()},
            "read": source.read,
            "rejected": source.rejected,
            "files": [
                {
                    "path": mask(path),
                    "bytes": size,
                    "fingerprint": source.fingerprints.get(path, ""),
                    **more,
                }
                for path, size, more in _read_files(plan)
            ],
        }
        | _found(plan)
        | _partitions(plan)
        | _snapshot(plan)
    )


def _snapshot(plan: SourcePlan) -> dict[str, Any]:
    """Returns the snapshot of a table."""
    if plan.snapshot is None:
        return {}
    table = {"table": plan.snapshot.table} if plan.snapshot.table else {}
    return {"snapshot": {"id": plan.snapshot.id, "rows": plan.snapshot.rows, **table}}


def _partitions(plan: SourcePlan) -> dict[str, Any]:
    """Returns the columns of folders' names, whose types new data keep."""
    names = plan.reader.names if isinstance(plan.reader, Partitioned) else ()
    return {"partitions": list(names)} if names else {}


def _found(plan: SourcePlan) -> dict[str, Any]:
    """Returns what files showed and their recipe did not say."""
    if not plan.decisions:
        return {}
    source = plan.source
    shown = {"columns": source.columns, **format_of(plan).found_of(source)}
    return {
        "decisions": list(plan.decisions),
        "found": {name: value for name, value in shown.items() if value not in (None, {}, ())},
    }


def _read_files(plan: SourcePlan) -> Iterator[tuple[str, int, dict[str, float]]]:
    """Yields path, bytes and date of each file.

    Of small files that are read together it yields the first one's path and their number.
    """
    gathered = [byte_range for byte_range in plan.ranges if byte_range.members != (0, 0)]
    for byte_range in gathered:
        first, end = byte_range.members
        yield byte_range.file.path, byte_range.end, {"files": end - first}
    for file in () if gathered else plan.files:
        yield file.path, file.size_bytes, {"modified": file.modified_secs}


def _type_name(type_: pa.DataType) -> str:
    """Returns the recipe's name of a type, which ``types:`` takes.

    Of a timestamp with a zone, which becomes UTC, it is the plain one.
    """
    try:
        parse_type(type_name(type_))
    except ValueError:
        return type_name(column_type(type_) or type_)
    return type_name(type_)


def manifest_to_text(manifest: Manifest) -> str:
    """Returns the content of ``dataset.json``."""
    return json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"


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
    kind = DatasetManifest if name == MANIFEST else DescriptionManifest
    return parse_manifest(files.read_bytes(path), path, kind)[1]


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
