"""Prints tables after a conversion or a description.

The tables are of the manifest and the statistics.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from tensorflow_metadata.proto.v0 import anomalies_pb2

from beam_pipelines.analysis import alerts, class_shares
from beam_pipelines.analysis.anomalies.table import recorded_anomalies
from beam_pipelines.analysis.joins import joins_of
from beam_pipelines.cli.feature_table import described, table_lines, to_json
from beam_pipelines.cli.output import answer, json_text, table
from beam_pipelines.core import _native
from beam_pipelines.core.errors import mask
from beam_pipelines.core.formatting import show_bytes
from beam_pipelines.core.layout.dataset_layout import REPORT, SAVED_MODEL, anomalies_path
from beam_pipelines.core.layout.manifest import Manifest, ManifestSplit
from beam_pipelines.core.layout.manifest import to_json as manifest_json
from beam_pipelines.files.beam import files
from beam_pipelines.recipe.unions import unused_lines

WIDTH_WHEN_PIPED = 100
MOST_NAMES = 3
_NO_KERNELS = (
    "kernels  not built: beam-pipelines was installed without a C++ compiler, and converts at "
    "about a tenth of the speed. Install a compiler, and beam-pipelines again."
)


def print_summary(manifest: Manifest, folder: str, form: str = "text") -> None:
    """Prints a dataset's splits, sources, joins, row counts and paths.

    The paths are those of the dataset and of its report.

    Args:
      manifest: of the dataset.
      folder: of the dataset.
      form: ``text`` or ``json``.
    """
    answer(form, _summary(manifest, folder), _summary_lines(manifest, folder))


def _summary_lines(manifest: Manifest, folder: str) -> Iterator[str]:
    for lines in (_splits(manifest.splits), *_inputs(manifest)):
        yield from (*lines, "")
    yield _rows_line(manifest)
    if rounded := _rounded(manifest):
        more = f" and {len(rounded) - MOST_NAMES:,} more" if len(rounded) > MOST_NAMES else ""
        yield f"floats   float64 rounded to 32 bits: {', '.join(rounded[:MOST_NAMES])}{more}"
    yield from _found(manifest)
    if not _native.KERNELS_AVAILABLE:
        yield _NO_KERNELS
    yield f"dataset  {mask(folder)}"
    yield f"report   {mask(files.join(folder, REPORT))}"
    if manifest.encodings and not files.exists(files.within(folder, SAVED_MODEL)):
        yield f"serving  no graph yet: beam-pipelines graph {mask(folder)}"


def _summary(manifest: Manifest, folder: str) -> dict[str, Any]:
    """Returns what ``print_summary`` prints, as data for JSON."""
    splits = {
        name: {"rows": split.rows, "shards": len(split.shards), "bytes": split.bytes}
        for name, split in manifest.splits.items()
    }
    sources = {
        name: {
            "read": source.read,
            "rejected": source.rejected,
            "files": source.file_count,
            "bytes": source.bytes,
            "decisions": list(source.decisions),
        }
        for name, source in manifest.sources.items()
    }
    return {
        "dataset": folder,
        "report": files.join(folder, REPORT),
        "splits": splits,
        "sources": sources,
        **_entries(manifest, "counts", "joins", "timings"),
    }


def _entries(manifest: Manifest, *keys: str) -> dict[str, Any]:
    """Returns entries of the manifest, and those on what was found."""
    document = manifest_json(manifest)
    return {key: document[key] for key in (*keys, *_FINDINGS) if key in document}


def print_description(manifest: Manifest, folder: str, is_kept: bool) -> None:
    """Prints sources, joins, the features of each split, and anomalies.

    Args:
      manifest: of the description.
      folder: of statistics and anomalies.
      is_kept: whether the folder stays, and is printed.
    """
    answer("text", None, _description_lines(manifest, folder, is_kept, _width()))


def _description_lines(manifest: Manifest, folder: str, is_kept: bool, width: int) -> Iterator[str]:
    for lines in _inputs(manifest):
        yield from (*lines, "")
    for split in described(folder):
        yield from table_lines(split, width)
    yield _rows_line(manifest)
    yield from _found(manifest)
    for name in manifest.splits:
        yield from _anomaly_lines(folder, name)
    if is_kept:
        yield f"written  {mask(folder)}"
        yield f"report   {mask(files.join(folder, REPORT))}"


def _width() -> int:
    """Returns the width of standard output, in characters."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return shutil.get_terminal_size().columns
    return WIDTH_WHEN_PIPED


def _found(manifest: Manifest) -> Iterator[str]:
    """Yields what files and checks showed, unlikely joins, and alerts."""
    for name, source in manifest.sources.items():
        yield from (f"found    {name}: {decision}" for decision in source.decisions)
    if findings := manifest.findings:
        met = sum(finding["severity"] == "ok" for finding in findings)
        yield f"checks   {met:,} of {len(findings):,} findings are good"
    yield from (f"classes  {line}" for line in class_shares.lines_of(manifest.class_shares))
    yield from (f"sampled  {line}" for line in class_shares.sampled_lines_of(manifest.sample))
    yield from (f"warning  {warning}" for warning in _warnings(manifest))
    yield from (f"alert    {line}" for line in alerts.lines_of(manifest.alerts))


def _warnings(manifest: Manifest) -> list[str]:
    joins = [warning for join in joins_of(manifest) for warning in join.warnings()]
    checked = (
        f"{finding['check']}: {finding['line']}"
        for finding in manifest.findings
        if finding["severity"] != "ok"
    )
    unused = unused_lines(manifest.unused_sources)
    return [*unused, *joins, *checked]


def _rows_line(manifest: Manifest) -> str:
    counts = manifest_json(manifest.counts)
    checks = {key: f"left out as {key.partition('/')[2]}" for key in counts if "/" in key}
    words = {**_WORDS_FOR_COUNT, **checks, "written": "written"}
    parts = [f"{counts[key]:,} {what}" for key, what in words.items() if counts.get(key)]
    seconds = manifest.timings.get("total_secs")
    duration = f" in {seconds:,.1f} s" if seconds is not None else ""
    return f"rows     {', '.join(parts) or 'none'}{duration}"


def _rounded(manifest: Manifest) -> list[str]:
    """Returns the columns of float64 values that were rounded to 32 bits."""
    if manifest.record == "raw" or manifest.recipe["output"]["floats"] == "exact":
        return []
    return [
        name for name, type_ in manifest.columns.items() if type_ in ("float64", "list<float64>")
    ]


# Entries of a manifest on a run and its rows.
_FINDINGS = ("taken", "unused_sources", "class_shares", "sample", "findings", "alerts")
_WORDS_FOR_COUNT = {
    "read": "read",
    "rejected": "rejected",
    "added": "added by joins",
    "dropped": "dropped by joins",
    "left_out": "left out by --limit or --sample",
    "filtered": "filtered out",
    "merged": "merged into sequences",
    "sampled_out": "sampled out",
    "repeated": "added by sampling",
}


def _splits(splits: Mapping[str, ManifestSplit]) -> Iterator[str]:
    sizes = {name: (split.rows, len(split.shards), split.bytes) for name, split in splits.items()}
    if len(sizes) > 1:
        rows, shards, size = (sum(values) for values in zip(*sizes.values(), strict=True))
        sizes |= {"all": (rows, shards, size)}
    return table(
        ["split", "rows", "shards", "bytes", "a shard"],
        [
            [
                name,
                f"{rows:,}",
                f"{shards:,}",
                show_bytes(size),
                show_bytes(size / shards) if shards else "-",
            ]
            for name, (rows, shards, size) in sizes.items()
        ],
    )


def _inputs(manifest: Manifest) -> Iterator[Iterator[str]]:
    """Yields the tables of sources and, if there are any, of joins."""
    yield table(
        ["source", "rows read", "rejected", "files", "bytes"],
        [
            [
                name,
                f"{source.read:,}",
                f"{source.rejected:,}",
                f"{source.file_count:,}",
                show_bytes(source.bytes),
            ]
            for name, source in manifest.sources.items()
        ],
    )
    if manifest.joins:
        keys = ["matched", "unmatched", "dropped", "added"]
        if any(join.null_keys for join in manifest.joins):
            keys.append("null_keys")
        yield table(
            ["join", *(key.replace("_", " ") for key in keys)],
            [
                [f"{join.how} {join.source}", *(f"{getattr(join, key):,}" for key in keys)]
                for join in manifest.joins
            ],
        )


def print_statistics(folder: str, form: str) -> None:
    """Prints the features of each split that has statistics in a folder.

    Args:
      folder: a dataset or a description.
      form: ``text`` or ``json``.
    """
    splits = described(folder)
    width = _width()
    answer(
        form,
        {"splits": to_json(splits)},
        (line for split in splits for line in table_lines(split, width)),
    )


def description_json(manifest: Manifest, folder: str) -> str:
    """Returns the JSON text of a description, with warnings and anomalies."""
    anomalies = [
        {"split": name, "severity": severity, "place": where, "text": what}
        for name in manifest.splits
        for severity, where, what in recorded_anomalies(_anomalies(folder, name))
    ]
    document = {
        "splits": to_json(described(folder)),
        **_entries(manifest, "counts", "sources", "joins"),
        "warnings": _warnings(manifest),
        "anomalies": anomalies,
    }
    return json_text(document)


def _anomaly_lines(folder: str, split: str) -> Iterator[str]:
    anomalies = _anomalies(folder, split)
    for severity, where, what in recorded_anomalies(anomalies):
        mark = "" if severity == "anomaly" else f" ({severity})"
        yield f"anomaly  {split}, {where}{mark}: {what}"
    if anomalies.data_missing:
        yield f"anomaly  {split}: no rows at all."


def _anomalies(folder: str, split: str) -> anomalies_pb2.Anomalies:
    path = files.join(folder, anomalies_path(split))
    return anomalies_pb2.Anomalies.FromString(files.read_bytes(path))
