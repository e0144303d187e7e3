"""Reads tf.Examples with TensorFlow, as an independent reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def read_examples(dataset: Path, split: str) -> list[dict[str, Any]]:
    """Returns the examples of a split, feature -> its only value.

    Bytes become text.
    """
    import tensorflow as tf

    rows = []
    for record in read_records(dataset, split):
        example = tf.train.Example.FromString(record)
        rows.append({name: _value(value) for name, value in example.features.feature.items()})
    return rows


def read_records(dataset: Path, split: str = "train") -> list[bytes]:
    """Returns the serialized records of a split, shard after shard."""
    import tensorflow as tf

    paths = sorted(map(str, (dataset / "examples" / f"Split-{split}").iterdir()))
    kind = {".gz": "GZIP", ".zlib": "ZLIB"}.get(Path(paths[0]).suffix, "")
    return list(tf.data.TFRecordDataset(paths, kind).as_numpy_iterator())


def _value(feature: Any) -> Any:
    values = getattr(feature, feature.WhichOneof("kind")).value
    value = values[0] if values else None
    return value.decode() if isinstance(value, bytes) else value
