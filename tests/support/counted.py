"""The counters that a job must have, by its manifest."""

from __future__ import annotations

from typing import Any

from beam_pipelines.core.layout.manifest import Manifest


def expected_counts(manifest: Manifest) -> dict[str, Any]:
    """Returns the counters that follow from the dataset's own counts."""
    counts, base = manifest.counts, next(iter(manifest.sources))
    shards = [*manifest.shards]
    expected = {
        "rows_read": counts.read,
        "rows_rejected": counts.rejected,
        "rows_filtered": counts.filtered,
        "rows_matched": sum(join.matched for join in manifest.joins),
        "rows_duplicate": sum(counts.left_out_by.values()),
        "rows_written": counts.written,
        "bytes_read": sum(file.bytes for file in manifest.sources[base].files),
        "bytes_written": sum(shard.bytes for shard in shards),
    }
    return {name: number for name, number in expected.items() if number}


def found_counts(manifest: Manifest) -> dict[str, Any]:
    """Returns these counters as the job has counted."""
    counted = manifest.timings["counted"]
    return {name: counted[name] for name in counted if name.startswith(("rows_", "bytes_"))}
