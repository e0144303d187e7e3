"""Splits, shards, schema and labels of one or several datasets, for TensorFlow."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from beam_pipelines.core.errors import DataError, nearest
from beam_pipelines.core.layout.schema_features import feature_lists_of
from beam_pipelines.reader.folders.opened import Opened
from beam_pipelines.reader.folders.together import Folders, open_all
from beam_pipelines.serving.specs import feature_spec

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2


@dataclasses.dataclass(frozen=True)
class Shard:
    """A file of records.

    Attributes:
      path: path or URL.
      rows, bytes: number of rows, and size of the file.
    """

    path: str
    rows: int
    bytes: int


@dataclasses.dataclass(frozen=True)
class SplitInfo:
    """A split: rows, uncompressed bytes of records, and shards in order."""

    rows: int
    framed_bytes: int
    shards: tuple[Shard, ...]


@dataclasses.dataclass(frozen=True)
class Info:
    """A dataset, as its manifest describes it.

    Attributes:
      folder: path or URL.
      splits: name -> split, in the recipe's order.
      label: name of the label's feature, or ``None``.
      compression: ``gzip``, ``zlib`` or ``none``; ``zstd`` of Parquet shards.
      schema_path: of the schema that parses the records.
      labels_by_feature: feature -> texts by id, as the sources have them.
      record: ``example``, ``sequence_example``, or ``raw`` for records that are not examples.
      encodings: fingerprint of the fitted encodings, or ``None``; datasets with the same one have
        the same ids.
      others: folders of more datasets that are read as one with it. A split has the rows of all
        that have it.
      columns: column -> type, before encoding.
    """

    folder: str
    splits: Mapping[str, SplitInfo]
    label: str | None
    compression: str
    schema_path: str
    labels_by_feature: Mapping[str, tuple[str, ...]]
    record: str
    encodings: str | None
    others: tuple[str, ...]
    columns: Mapping[str, str]
    _opened: Opened = dataclasses.field(repr=False, compare=False)

    def split(self, name: str | None = None) -> SplitInfo:
        """Returns a split; without a name, the first.

        Raises:
          ValueError: there is no split of that name.
          DataError: it has no rows.
        """
        name = next(iter(self.splits)) if name is None else name
        if name not in self.splits:
            raise ValueError(
                f"{', '.join((self.folder, *self.others))}: found no split '{name}', expected one "
                f"of {', '.join(self.splits)}.{nearest(name, self.splits)}"
            )
        if not self.splits[name].rows:
            raise DataError(
                f"{self.folder}: found no rows in split '{name}'. Change 'split' or 'filter' in "
                "the recipe."
            )
        return self.splits[name]

    def steps_per_epoch(
        self, split: str | None = None, *, batch_size: int, drop_remainder: bool = False
    ) -> int:
        """Returns the number of batches of a split, as ``len(load(…))`` does."""
        return steps_of(self.split(split).rows, batch_size, drop_remainder)

    def schema(self) -> schema_pb2.Schema:
        """Reads the schema that parses the records."""
        return self._opened.schema()

    def feature_spec(self) -> dict[str, Any]:
        """Returns feature -> ``tf.io.FixedLenFeature`` and others.

        ``tf.io.parse_example`` takes it; ``tf.io.parse_sequence_example`` takes it for the context
        of tf.SequenceExamples. It follows from the schema by tfx-bsl's rules: a feature that is
        never missing and has a shape is dense, any other one sparse, or ragged if the schema says
        so.
        """
        return feature_spec(self.schema())

    def sequence_spec(self) -> dict[str, Any]:
        """Returns name -> ``tf.io.RaggedFeature`` of the feature lists.

        ``tf.io.parse_sequence_example`` takes it and gives ragged tensors [batch, steps, values].
        Empty if records are not tf.SequenceExamples.
        """
        return sequence_spec_of(self.schema())

    def labels(self) -> tuple[str, ...]:
        """Returns the label's texts by id; empty if its values have none.

        They are the source's, such as the names of folders; or the tokens of the label's
        vocabulary; else the domain that the schema gives a text label, in its order; or of a truth
        value the texts of false and true.
        """
        if self.label is not None and self.label in self.labels_by_feature:
            return self.labels_by_feature[self.label]
        schema = self.schema()
        domains = {domain.name: tuple(domain.value) for domain in schema.string_domain}
        for feature in schema.feature:
            if feature.name == self.label:
                if feature.HasField("bool_domain"):
                    names = (feature.bool_domain.false_value, feature.bool_domain.true_value)
                    return names if any(names) else ()
                return (
                    tuple(feature.string_domain.value)
                    or domains.get(feature.domain)
                    or self._vocabulary(feature.name)
                )
        return ()

    def _vocabulary(self, feature: str) -> tuple[str, ...]:
        """Returns the tokens of a feature's vocabulary by id, or nothing.

        The files are where tf.Transform writes them.
        """
        read, folder = self._opened.read, os.path.dirname(self._opened.fields.schema)
        path = f"{folder}/asset_map"
        names = {} if self._opened.files.find(path) is None else json.loads(read(path))
        if feature not in names:
            return ()
        assets = f"{os.path.dirname(folder)}/transform_fn/assets"
        tokens = read(f"{assets}/{names[feature]}").decode()
        return tuple(tokens.removesuffix("\n").split("\n"))


def info(folder: Folders) -> Info:
    """Reads the manifest of one or several datasets.

    Args:
      folder: of the dataset; or several, such as one for each date, as a list or a pattern.

    Raises:
      DataError: there is no dataset in the folder, or this version cannot read it; or no folder
        matches the pattern.
      ValueError: several datasets do not go together.
    """
    opened = open_all(folder)
    splits: dict[str, SplitInfo] = {}
    for one in opened:
        for name, split in one.fields.splits.items():
            known = splits.get(name, SplitInfo(0, 0, ()))
            shards = [
                Shard(one.files.join(shard.path), shard.rows, shard.bytes) for shard in split.shards
            ]
            splits[name] = SplitInfo(
                known.rows + split.rows,
                known.framed_bytes + split.framed_bytes,
                (*known.shards, *shards),
            )
    first, manifest = opened[0], opened[0].fields
    return Info(
        first.files.path,
        splits,
        manifest.label,
        manifest.compression,
        first.files.join(manifest.schema),
        manifest.labels,
        manifest.record,
        manifest.encodings,
        tuple(one.files.path for one in opened[1:]),
        manifest.columns,
        first,
    )


def steps_of(rows: int, batch_size: int, drop_remainder: bool) -> int:
    """Returns the number of batches of an epoch.

    Raises:
      ValueError: a batch of no rows.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size: found {batch_size}, expected at least 1.")
    return rows // batch_size if drop_remainder else -(-rows // batch_size)


def sequence_spec_of(schema: schema_pb2.Schema) -> dict[str, Any]:
    """Returns the ``sequence_features`` of a dataset with the schema."""
    import tensorflow as tf
    from tensorflow_metadata.proto.v0 import schema_pb2

    dtypes = {schema_pb2.INT: tf.int64, schema_pb2.FLOAT: tf.float32, schema_pb2.BYTES: tf.string}
    return {
        feature.name: tf.io.RaggedFeature(dtypes[feature.type], value_key=feature.name)
        for feature in feature_lists_of(schema)
    }


def spec_of(schema: schema_pb2.Schema) -> dict[str, Any]:
    """Returns how TensorFlow parses all features and feature lists."""
    return feature_spec(schema) | sequence_spec_of(schema)
