"""Facts of a dataset that all passports need."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2

from beam_pipelines.analysis.schema import read_schema
from beam_pipelines.analysis.statistics.datasets import read_statistics
from beam_pipelines.analysis.statistics.view import proto_of
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.dataset_layout import MANIFEST
from beam_pipelines.core.layout.manifest import Manifest, parse_manifest
from beam_pipelines.core.layout.schema_features import feature_lists_of, features_of, name_of
from beam_pipelines.core.layout.shard_formats import PARQUET, TFRECORD
from beam_pipelines.storage import files
from beam_pipelines_plugins.passports.about import About

DType = Literal["int64", "float32", "bytes"]
_DTYPES: Mapping[int, DType] = {
    schema_pb2.INT: "int64",
    schema_pb2.FLOAT: "float32",
    schema_pb2.BYTES: "bytes",
}
# The feature that tf.Examples of images have by TensorFlow's convention.
_IMAGE = "image/encoded"


class Numbers(NamedTuple):
    """Statistics of a number feature in all splits, without NaN."""

    mean: float
    minimum: float
    maximum: float


@dataclasses.dataclass(frozen=True)
class FeatureFacts:
    """A feature of the tf.Examples.

    Attributes:
      name: of the feature.
      dtype: of its values in the records.
      shape: ``()`` for one value a row, sizes for a tensor, ``None`` for lists of any length.
      type: the recipe's name of the column's type; empty if it was encoded.
      is_text: whether bytes are UTF-8.
      is_image: whether bytes are an encoded image.
      labels: texts by id; empty if the values are no ids.
      numbers: statistics of its values; ``None`` without numbers, or if it was encoded.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...] | None
    type: str = ""
    is_text: bool = False
    is_image: bool = False
    labels: tuple[str, ...] = ()
    numbers: Numbers | None = None


@dataclasses.dataclass(frozen=True)
class DatasetFacts:
    """A dataset, as passports describe it.

    Attributes:
      name: of the recipe.
      version: of ``about``, or else ``1.0.0``.
      manifest: its fields.
      manifest_bytes: the file.
      features: of the records.
      about: what only people know.
      parquet: columns of the Parquet shards; ``None``: there are none.
    """

    name: str
    version: str
    manifest: Manifest
    manifest_bytes: bytes
    features: tuple[FeatureFacts, ...]
    about: About
    parquet: pa.Schema | None = None

    @property
    def description(self) -> str:
        """The description of ``about``, or else splits and rows."""
        if self.about.description:
            return self.about.description
        kind = "TFRecords" if self.manifest.format == TFRECORD else "Parquet files"
        splits = ", ".join(f"{name}: {one.rows:,}" for name, one in self.manifest.splits.items())
        return f"{len(self.features):,} features of {kind}. Rows: {splits}."


def read_facts(folder: str, about: About) -> DatasetFacts:
    """Reads the facts of a dataset.

    Raises:
      DataError: there is no dataset, or a file of it is damaged.
    """
    path = files.join(folder, MANIFEST)
    content = files.read_bytes(path)
    manifest = parse_manifest(content, path)
    schema = read_schema(files.within(folder, manifest.schema))
    numbers = {} if manifest.encodings else _numbers(read_statistics(folder).values())
    columns = {} if manifest.encodings else manifest.columns
    lists = {feature.name for feature in feature_lists_of(schema)}
    found = (_feature(one, columns, manifest.labels, numbers) for one in features_of(schema))
    # Steps are values, as many as a sequence is long.
    features = (dataclasses.replace(one, shape=None) if one.name in lists else one for one in found)
    return DatasetFacts(
        manifest.name,
        about.version or "1.0.0",
        manifest,
        content,
        tuple(features),
        about,
        _parquet(folder, manifest),
    )


def _parquet(folder: str, manifest: Manifest) -> pa.Schema | None:
    """Returns the columns of Parquet files, if they have all rows."""
    shards = [shard for split in manifest.splits.values() for shard in split.shards]
    if manifest.format == PARQUET:
        paths = [str(shard.path) for shard in shards]
    elif all(PARQUET in shard.also for shard in shards):
        paths = [str(shard.also[PARQUET].path) for shard in shards]
    else:
        return None
    path = files.within(folder, paths[0])
    try:
        with files.open_read(path) as file:
            return pq.read_schema(file)
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{path}: found damaged Parquet data ({error}). Convert again with --overwrite."
        ) from error


def _feature(
    feature: schema_pb2.Feature,
    columns: Mapping[str, str],
    labels: Mapping[str, tuple[str, ...]],
    numbers: Mapping[str, Numbers],
) -> FeatureFacts:
    kind = columns.get(feature.name, "")
    shape = None
    if feature.HasField("shape"):
        shape = tuple(dim.size for dim in feature.shape.dim)
    is_text = feature.type == schema_pb2.BYTES and (
        "text" in kind or feature.WhichOneof("domain_info") in ("domain", "string_domain")
    )
    return FeatureFacts(
        feature.name,
        _DTYPES[feature.type],
        () if shape == (1,) else shape,
        kind,
        is_text,
        feature.name == _IMAGE and shape == (1,),
        labels.get(feature.name, ()),
        numbers.get(feature.name),
    )


def _numbers(splits: Iterable[Any]) -> dict[str, Numbers]:
    """Returns feature -> statistics of its finite numbers in all splits."""
    found: dict[str, list[statistics_pb2.NumericStatistics]] = {}
    for split in splits:
        for feature in proto_of(split).features:
            if feature.WhichOneof("stats") == "num_stats" and _count(feature.num_stats):
                found.setdefault(name_of(tuple(feature.path.step)), []).append(feature.num_stats)
    merged = {name: _merged(own) for name, own in found.items()}
    return {name: one for name, one in merged.items() if all(map(math.isfinite, one))}


def _count(numbers: statistics_pb2.NumericStatistics) -> int:
    return int(numbers.common_stats.tot_num_values)


def _merged(own: list[statistics_pb2.NumericStatistics]) -> Numbers:
    total = sum(map(_count, own))
    mean = sum(one.mean * (_count(one) / total) for one in own)
    return Numbers(mean, min(one.min for one in own), max(one.max for one in own))
