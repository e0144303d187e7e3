"""``dataset.json``: what a dataset is, where it came from and what became of every row. Written last, read first."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from beam_pipelines import __version__, days, files
from beam_pipelines.account import Account
from beam_pipelines.columns import column_type, parse_type, type_name
from beam_pipelines.errors import DataError
from beam_pipelines.plan import SourcePlan
from beam_pipelines.recipe import Recipe, normalised, recipe_hash
from beam_pipelines.write import ShardInfo

FORMAT_VERSION = 1
FILE_NAME = "dataset.json"
_LIBRARIES = ("apache-beam", "pyarrow", "numpy", "duckdb", "isal", "pillow", "tfx-bsl", "tensorflow-metadata")

Manifest = dict[str, Any]


def make_manifest(
    recipe: Recipe,
    plans: Mapping[str, SourcePlan],
    account: Account,
    shards: Sequence[ShardInfo],
    schema: str,
    columns: pa.Schema,
    labels: Mapping[str, tuple[str, ...]],
    encodings: str | None,
    timings: dict[str, float],
) -> Manifest:
    """Returns the manifest of a dataset.

    Args:
      recipe, plans, account: of the run.
      shards: all shards, in any order.
      schema: path of the schema that parses the records, relative to the dataset.
      columns: the selected columns, before encoding.
      labels: feature -> class names, by id.
      encodings: fingerprint of what the encodings have learned, or ``None``.
      timings: step -> seconds.
    """
    ordered = sorted(shards, key=lambda shard: shard.path)
    return {
        "format_version": FORMAT_VERSION,
        "name": recipe.name,
        "date": recipe.date and recipe.date.isoformat(),
        "span": None if recipe.date is None else days.span_of(recipe.date),
        "recipe": normalised(recipe),
        "recipe_hash": recipe_hash(recipe),
        "directory": recipe.directory,
        "schema": schema,
        "columns": {field.name: type_name(field.type) for field in columns},
        "label": recipe.label,
        "labels": {name: list(names) for name, names in labels.items()},
        "encodings": encodings,
        "record": _record_kind(recipe),
        "compression": recipe.output.compression,
        "splits": {
            name: _split_entry(rows, [shard for shard in ordered if shard.split == name])
            for name, rows in account.rows.items()
        },
        "sources": {name: _source_entry(plans[name], account) for name in plans},
        "joins": [
            {"source": join.source, "how": join.how, **vars(counts)}
            for join, counts in zip(recipe.join, account.joins, strict=True)
        ],
        "counts": {
            "read": account.sources[recipe.base].read,
            "rejected": account.sources[recipe.base].rejected,
            "added": sum(join.added for join in account.joins),
            "dropped": sum(join.dropped for join in account.joins),
            "filtered": account.filtered,
            "merged": account.merged,
            "written": sum(shard.rows for shard in shards),
        },
        "versions": {"beam-pipelines": __version__, "python": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in _LIBRARIES},
        "timings": timings,
    }


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
            {"path": shard.path, "rows": shard.rows, "bytes": shard.bytes, "crc32c": f"{shard.crc32c:08x}"}
            for shard in shards
        ],
    }


def _source_entry(plan: SourcePlan, account: Account) -> dict[str, Any]:
    source = account.sources[plan.source.name]
    return {
        "format": plan.format,
        "columns": {field.name: _type_name(field.type) for field in plan.read_schema},
        "labels": {name: list(names) for name, names in plan.labels.items()},
        "read": source.read,
        "rejected": source.rejected,
        "files": [
            {"path": path, "bytes": size, "fingerprint": source.fingerprints.get(path, ""), **more}
            for path, size, more in _read_files(plan)
        ],
    }


def _read_files(plan: SourcePlan) -> Iterator[tuple[str, int, dict[str, int]]]:
    """Yields path and bytes of each file; of small ones that are read together, the first one's path, and how many they are."""
    gathered = [range_ for range_ in plan.ranges if range_.members != (0, 0)]
    for range_ in gathered:
        first, end = range_.members
        yield range_.file.path, range_.end, {"files": end - first}
    for file in () if gathered else plan.files:
        yield file.path, file.size_bytes, {}


def _type_name(type_: pa.DataType) -> str:
    """Returns the recipe's name of a type that is read, so that ``types:`` takes it; of a timestamp with a zone, which becomes UTC, its plain one."""
    try:
        parse_type(type_name(type_))
    except ValueError:
        return type_name(column_type(type_) or type_)
    return type_name(type_)


def write_manifest(folder: str, manifest: Manifest, name: str = FILE_NAME) -> None:
    """Writes ``dataset.json``, which makes the folder a dataset; under another name, it does not."""
    text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    with files.replace(files.join(folder, name)) as file:
        file.write(text.encode())


def read_manifest(folder: str, name: str = FILE_NAME) -> Manifest:
    """Reads the manifest of a dataset.

    Raises:
      DataError: there is none, or this version cannot read it.
    """
    path = files.join(folder, name)
    if not files.exists(path):
        raise DataError(f"{folder}: found no {name}, so there is no dataset, or none that was finished.")
    try:
        manifest: Manifest = json.loads(files.read_bytes(path))
        version = manifest["format_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path}: is not a manifest ({error!r}). Convert again with --overwrite.") from error
    if version != FORMAT_VERSION:
        raise DataError(
            f"{path}: format version {version}, expected {FORMAT_VERSION}. Read it with the version that wrote it."
        )
    try:
        _check_keys(manifest)
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: found a manifest that lacks {error}. Convert again with --overwrite.") from error
    return manifest


def _check_keys(manifest: Manifest) -> None:
    """Looks up what readers rely on, so that a manifest without it fails here, with its path."""
    itemgetter("schema", "record", "compression", "counts", "sources")(manifest)
    itemgetter("read", "added", "dropped", "filtered", "merged", "written")(manifest["counts"])
    for split in manifest["splits"].values():
        itemgetter("rows", "bytes")(split)
        for shard in split["shards"]:
            itemgetter("path", "rows", "bytes", "crc32c")(shard)
