"""The files that let TensorFlow Datasets open a dataset.

``tfds.builder_from_directory(folder)`` reads ``dataset_info.json`` and ``features.json``, the JSON
forms of its protos ``DatasetInfo`` and ``Feature``, and the names of class labels.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.manifest import ManifestShard
from beam_pipelines.core.layout.shard_formats import TFRECORD
from beam_pipelines_plugins.passports.dataset_facts import DatasetFacts, FeatureFacts

_FEATURES = "tensorflow_datasets.core.features"
_DTYPES = {"int64": "int64", "float32": "float32", "bytes": "string"}
_SHARD_NUMBER = re.compile(r"-[0-9]{5,}-of-([0-9]{5,})(?=\.)")


def tfds_files(facts: DatasetFacts) -> dict[str, str]:
    """Returns path -> text of the files.

    Raises:
      DataError: TensorFlow Datasets cannot read the shards.
    """
    _check(facts)
    info = {
        "name": re.sub(r"\W", "_", facts.name),
        "version": facts.version,
        "description": facts.description,
        "citation": facts.about.citation or "",
        "location": {"urls": [facts.about.url] if facts.about.url else []},
        "fileFormat": "tfrecord",
        "splits": [
            {
                "name": name,
                "shardLengths": [str(shard.rows) for shard in split.shards],
                "numBytes": str(split.bytes),
                "filepathTemplate": _template(split.shards),
            }
            for name, split in facts.manifest.splits.items()
        ],
    }
    features = {one.name: _feature(one) for one in facts.features}
    root = _kind("features_dict.FeaturesDict", featuresDict={"features": features})
    found = {"dataset_info.json": _to_text(info), "features.json": _to_text(root)}
    for one in facts.features:
        if one.labels:
            path = f"{one.name.replace('/', '.')}.labels.txt"
            found[path] = "".join(f"{label}\n" for label in one.labels)
    return found


def _check(facts: DatasetFacts) -> None:
    manifest = facts.manifest
    if manifest.format != TFRECORD:
        found, cure = f"{manifest.format} shards", "Convert again with 'format: tfrecord'."
    elif manifest.record != "example":
        found, cure = f"records of kind '{manifest.record}'", "Read it with bp.open or tf.data."
    elif manifest.compression != "none":
        found = f"shards with {manifest.compression} compression"
        cure = "Convert again with --set output.compression=none."
    elif any(shard.generation > 1 for split in manifest.splits.values() for shard in split.shards):
        found, cure = "several generations", "Convert all files in one run."
    else:
        return
    raise DataError(
        f"{facts.name}: found {found}, expected uncompressed tf.Examples of one run: TensorFlow "
        f"Datasets reads nothing else. {cure}"
    )


def _template(shards: Sequence[ManifestShard]) -> str:
    return _SHARD_NUMBER.sub("-{SHARD_X_OF_Y}", shards[0].path)


def _feature(feature: FeatureFacts) -> dict[str, Any]:
    if feature.is_image:
        shape = {"dimensions": ["-1", "-1", "-1"]}
        return _kind("image_feature.Image", image={"shape": shape, "dtype": "uint8"})
    if feature.labels and feature.shape == () and feature.dtype == "int64":
        count = str(len(feature.labels))
        return _kind("class_label_feature.ClassLabel", classLabel={"numClasses": count})
    if feature.shape is None:
        items = _tensor(feature.dtype, ())
        return _kind("sequence_feature.Sequence", sequence={"feature": items, "length": "-1"})
    return _tensor(feature.dtype, feature.shape)


def _tensor(dtype: str, shape: tuple[int, ...]) -> dict[str, Any]:
    sizes: Mapping[str, Any] = {"dimensions": [str(size) for size in shape]} if shape else {}
    tensor = {"shape": sizes, "dtype": _DTYPES[dtype], "encoding": "none"}
    return _kind("tensor_feature.Tensor" if shape else "scalar.Scalar", tensor=tensor)


def _kind(name: str, **content: Any) -> dict[str, Any]:
    return {"pythonClassName": f"{_FEATURES}.{name}", **content}


def _to_text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
