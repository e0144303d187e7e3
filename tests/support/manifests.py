"""A small manifest."""

from __future__ import annotations

import json
from typing import Any

from beam_pipelines.core.layout.manifest import Manifest, parse_manifest


def small_manifest() -> dict[str, Any]:
    """Returns a manifest that is as it should be."""
    counts = dict.fromkeys(("read", "added", "dropped", "filtered", "merged", "written"), 1)
    shard = {"path": "examples/Split-train/a.tfrecord", "rows": 1, "bytes": 2, "crc32c": "00000000"}
    sizes = {"rows": 1, "bytes": 2, "framed_bytes": 3}
    return {
        "format_version": 1,
        "schema": "schema/schema.pbtxt",
        "label": None,
        "labels": {"y": ["a"]},
        "record": "example",
        "compression": "gzip",
        "splits": {"train": {**sizes, "shards": [shard]}},
        "sources": {"a": {"read": 1, "files": [{"path": "a.csv", "bytes": 1}]}},
        "counts": dict(counts),
    }


def parsed_manifest(**keys: Any) -> Manifest:
    """Returns the small manifest, parsed, with other values for some keys."""
    return parse_manifest(json.dumps(small_manifest() | keys).encode(), "dataset.json")
