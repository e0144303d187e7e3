"""Writes a small dataset of numbered rows, without TensorFlow and Beam."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.binary_arrays import data_of
from tests.support.manifests import small_manifest

SCHEMA = """
feature { name: "id" type: INT presence { min_fraction: 1 min_count: 1 } shape { dim { size: 1 } } }
feature { name: "half" type: FLOAT presence { min_count: 1 } value_count { min: 1 max: 1 } }
feature { name: "words" type: BYTES presence { min_count: 1 } }
feature { name: "odd" type: INT bool_domain {} presence { min_fraction: 1 min_count: 1 } shape { dim { size: 1 } } }
"""
SUFFIX = {"gzip": ".tfrecord.gz", "zlib": ".tfrecord.zlib", "none": ".tfrecord"}
_COMPRESS = {"gzip": gzip.compress, "zlib": zlib.compress, "none": bytes}

# Numbers of rows -> columns.
Columns = Callable[[range], Mapping[str, pa.Array]]


def columns_of(numbers: range) -> dict[str, pa.Array]:
    """Returns number, half, words and parity of rows.

    Half is there if the number is even; the last digit is the number of words.
    """
    halves = [None if number % 2 else number / 2 for number in numbers]
    words = [[b"w%d" % number] * (number % 10) for number in numbers]
    return {
        "id": pa.array(numbers, pa.int64()),
        "odd": pa.array([number % 2 for number in numbers], pa.int64()),
        "words": pa.array(words, pa.list_(pa.binary())),
        "half": pa.array(halves, pa.float32()),
    }


def write_dataset(
    folder: Path,
    shards: Sequence[int] = (7, 0, 30, 13),
    compression: str = "gzip",
    label: str | None = "odd",
    schema: str = SCHEMA,
    labels: dict[str, list[str]] | None = None,
    more: Columns = lambda _: {},
) -> str:
    """Writes a dataset with a split ``train`` and an empty ``eval``.

    ``train`` has so many rows a shard, numbered through. ``more`` gives more columns.
    """
    (folder / "examples" / "Split-train").mkdir(parents=True)
    (folder / "schema.pbtxt").write_text(schema)
    number, entries, framed = 0, [], 0
    for index, rows in enumerate(shards):
        path = f"examples/Split-train/t-{index:05}-of-{len(shards):05}{SUFFIX[compression]}"
        numbers = range(number, number + rows)
        batch = pa.RecordBatch.from_pydict({**columns_of(numbers), **more(numbers)})
        records = data_of(_native.frame(_native.serialize(batch, framed=False))).to_pybytes()
        (folder / path).write_bytes(_COMPRESS[compression](records))
        number, framed = number + rows, framed + len(records)
        entries.append(_shard(folder, path, rows))
    empty = f"t-00000-of-00001{SUFFIX[compression]}"
    (folder / empty).write_bytes(_COMPRESS[compression](b""))
    splits = {
        "train": {"rows": number, "bytes": 0, "framed_bytes": framed, "shards": entries},
        "eval": {"rows": 0, "bytes": 0, "shards": [_shard(folder, empty, 0)]},
    }
    text = small_manifest() | {
        "schema": "schema.pbtxt",
        "label": label,
        "labels": labels or {},
        "compression": compression,
        "splits": splits,
    }
    (folder / "dataset.json").write_text(json.dumps(text))
    return str(folder)


def _shard(folder: Path, path: str, rows: int) -> dict[str, Any]:
    size = (folder / path).stat().st_size
    return {"path": path, "rows": rows, "bytes": size, "crc32c": "00000000"}
