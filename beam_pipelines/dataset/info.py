"""Splits, shards, schema and labels of one or several datasets.

For trainers: no Beam. Folders may be URLs of TensorFlow's filesystems.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beam_pipelines.core import regular_files
from beam_pipelines.core.checked_files import read_checked
from beam_pipelines.core.dataset_layout import MANIFEST
from beam_pipelines.core.errors import DataError, nearest
from beam_pipelines.core.manifest import Manifest, parse_manifest
from beam_pipelines.core.schema_features import SEQUENCE, feature_lists_of
from beam_pipelines.dataset.sequences import feature_lists
from beam_pipelines.opening.together import Folders, Member, check_together, list_folders

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2

# Beam's own test of a path. It is written here again, because trainers load no Beam.
_URL = re.compile(r"[a-zA-Z][-a-zA-Z0-9+.]*://")


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
class Split:
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
      compression: ``gzip``, ``zlib`` or ``none``.
      schema_path: of the schema that parses the records.
      manifest: of the folder, for the checksums of its files.
      labels_by_feature: feature -> texts by id, as the sources have them.
      record: ``example``, ``sequence_example``, or ``raw`` for records that are not examples.
      encodings: fingerprint of the fitted encodings, or ``None``; datasets with the same one have
        the same ids.
      others: folders of more datasets that are read as one with it. A split has the rows of all
        that have it.
      columns: column -> type, before encoding.
    """

    folder: str
    splits: Mapping[str, Split]
    label: str | None
    compression: str
    schema_path: str
    manifest: Manifest = dataclasses.field(repr=False, compare=False)
    labels_by_feature: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    record: str = "example"
    encodings: str | None = None
    others: tuple[str, ...] = ()
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def split(self, name: str | None = None) -> Split:
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
        from google.protobuf import text_format
        from tensorflow_metadata.proto.v0 import schema_pb2

        try:
            return text_format.Parse(self._read(self.schema_path).decode(), schema_pb2.Schema())
        except (text_format.ParseError, UnicodeDecodeError) as error:
            raise DataError(
                f"{self.schema_path}: found no schema in it ({error}). Copy the dataset again, or "
                "convert again with --overwrite."
            ) from error

    def feature_spec(self) -> dict[str, Any]:
        """Returns feature -> ``tf.io.FixedLenFeature`` and others.

        ``tf.io.parse_example`` takes it; ``tf.io.parse_sequence_example`` takes it for the context
        of tf.SequenceExamples. It follows from the schema by tfx-bsl's rules: a feature that is
        never missing and has a shape is dense, any other one sparse, or ragged if the schema says
        so.
        """
        return feature_spec_of(self.schema())

    def sequence_spec(self) -> dict[str, Any]:
        """Returns name -> ``tf.io.RaggedFeature`` of the feature lists.

        ``tf.io.parse_sequence_example`` takes it and gives ragged tensors [batch, steps, values].
        Empty if records are not tf.SequenceExamples.
        """
        return dict(feature_lists(self.schema()).spec)

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
        import tensorflow as tf

        folder = os.path.dirname(self.schema_path)
        asset_map = os.path.join(folder, "asset_map")
        names = json.loads(self._read(asset_map)) if tf.io.gfile.exists(asset_map) else {}
        if feature not in names:
            return ()
        return tuple(
            self._read(
                os.path.join(os.path.dirname(folder), "transform_fn", "assets", names[feature])
            )
            .decode()
            .removesuffix("\n")
            .split("\n")
        )

    def _read(self, path: str) -> bytes:
        """Returns a file of the folder, checked against the manifest."""
        inner = path.removeprefix(os.path.join(self.folder, ""))
        return read_checked(
            lambda name: _read(os.path.join(self.folder, name)), self.folder, self.manifest, inner
        )


def info(folder: Folders) -> Info:
    """Reads the manifest of one or several datasets.

    Args:
      folder: of the dataset; or several, such as one for each date, as a list or a pattern.

    Raises:
      DataError: there is no dataset in the folder, or this version cannot read it; or no folder
        matches the pattern.
      ValueError: several datasets do not go together.
    """
    first, *others = [_info(one) for one in list_folders(folder, _find_files)]
    return _together(first, others) if others else first


def _find_files(pattern: str) -> Sequence[str]:
    import tensorflow as tf

    found: Sequence[str] = tf.io.gfile.glob(pattern)
    return found


def _together(first: Info, others: Sequence[Info]) -> Info:
    """Joins datasets."""
    everyone = [first, *others]
    check_together([_member(one) for one in everyone])
    splits: dict[str, Split] = {}
    for one in everyone:
        if one.compression != first.compression:
            raise ValueError(
                f"{one.folder}: found the compression {one.compression}, expected "
                f"{first.compression} as in {first.folder}. Take "
                "bp.open([…]).batches(as_='tf'), which reads both."
            )
        for name, split in one.splits.items():
            known = splits.get(name, Split(0, 0, ()))
            splits[name] = Split(
                known.rows + split.rows,
                known.framed_bytes + split.framed_bytes,
                known.shards + split.shards,
            )
    return dataclasses.replace(first, splits=splits, others=tuple(other.folder for other in others))


def _member(one: Info) -> Member:
    def read(path: str) -> bytes:
        return _read(os.path.join(one.folder, path))

    return Member(one.folder, one.manifest, one.schema, read)


def _info(folder: str) -> Info:
    import tensorflow as tf

    path = os.path.join(folder, MANIFEST)
    scheme = folder.partition("://")[0]
    if not is_local(folder) and scheme not in tf.io.gfile.get_registered_schemes():
        raise DataError(
            f"{folder}: TensorFlow cannot read there. Copy the dataset to this machine or to "
            "gs://, and load the copy."
        )
    if not tf.io.gfile.exists(path):
        raise DataError(
            f"{folder}: found no {MANIFEST}, so there is no dataset, or none that was finished."
        )
    manifest = parse_manifest(_read(path), path)
    splits = {
        name: Split(
            split.rows,
            split.framed_bytes,
            tuple(
                Shard(os.path.join(folder, shard.path), shard.rows, shard.bytes)
                for shard in split.shards
            ),
        )
        for name, split in manifest.splits.items()
    }
    return Info(
        folder,
        splits,
        manifest.label,
        manifest.compression,
        os.path.join(folder, manifest.schema),
        manifest,
        manifest.labels,
        manifest.record,
        manifest.encodings,
        columns=manifest.columns,
    )


def steps_of(rows: int, batch_size: int, drop_remainder: bool) -> int:
    """Returns the number of batches of an epoch.

    Raises:
      ValueError: a batch of no rows.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size: found {batch_size}, expected at least 1.")
    return rows // batch_size if drop_remainder else -(-rows // batch_size)


def feature_spec_of(schema: schema_pb2.Schema) -> dict[str, Any]:
    """Returns the ``feature_spec`` of a dataset with the schema."""
    # tf.Transform uses this part of tfx-bsl too; it imports no Beam.
    from tfx_bsl.tfxio import tensor_representation_util as representations

    types = {feature.name: feature.type for feature in schema.feature}
    lists = {f"{SEQUENCE}.{feature.name}" for feature in feature_lists_of(schema)}
    spec = {}
    for name, representation in representations.InferTensorRepresentationsFromMixedSchema(
        schema
    ).items():
        if name in lists:
            continue
        column = representations.GetSourceValueColumnFromTensorRepresentation(representation)
        spec[name] = representations.CreateTfExampleParserConfig(
            representation, types[column.steps()[0]]
        )
    return spec


def is_local(path: str) -> bool:
    """Whether a path is no URL: ``files.is_local`` without Beam."""
    return _URL.match(path) is None


def _read(path: str) -> bytes:
    import tensorflow as tf

    if is_local(path):
        regular_files.check(path)
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            return bytes(file.read())
    except tf.errors.OpError as error:
        raise DataError(
            f"{path}: cannot be read: {error.message}. Copy the dataset again, or convert again "
            "with --overwrite."
        ) from error
