"""Writes small datasets of given records, for tests of a reader's values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.binary_arrays import data_of
from tests.reader.indexed import add_index


def write_records(
    folder: Path, schema: str, records: Sequence[bytes], shards: int = 2, **manifest: Any
) -> str:
    """Writes a dataset of one split, ``train``, in plain shards."""
    (folder / "examples" / "Split-train").mkdir(parents=True)
    (folder / "schema.pbtxt").write_text(schema)
    found = []
    for shard in range(shards):
        own = records[len(records) * shard // shards : len(records) * (shard + 1) // shards]
        path = f"examples/Split-train/t-{shard:05}-of-{shards:05}.tfrecord"
        framed_records = _native.frame(pa.array(own, pa.large_binary()))
        (folder / path).write_bytes(data_of(framed_records).to_pybytes())
        size = (folder / path).stat().st_size
        found.append({"path": path, "rows": len(own), "bytes": size, "crc32c": "00000000"})
    framed = sum(len(record) + 16 for record in records)
    split = {"rows": len(records), "bytes": framed, "framed_bytes": framed, "shards": found}
    counts = dict.fromkeys(("read", "added", "dropped", "filtered", "merged", "written"), 0)
    fields = {
        "format_version": 1,
        "schema": "schema.pbtxt",
        "label": None,
        "labels": {},
        "compression": "none",
        "record": "example",
        "counts": counts,
        "sources": {},
        "columns": {},
        "splits": {"train": split},
    }
    (folder / "dataset.json").write_text(json.dumps(fields | manifest))
    return add_index(str(folder))
