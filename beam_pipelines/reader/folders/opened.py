"""One open dataset: its folder, manifest, schema, and shards with their indexes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from beam_pipelines.core.errors import DataError, mask
from beam_pipelines.core.layout.checked_files import read_checked
from beam_pipelines.core.layout.dataset_layout import MANIFEST
from beam_pipelines.core.layout.manifest import Manifest, parse_manifest
from beam_pipelines.core.layout.schema_features import feature_lists_of
from beam_pipelines.core.layout.shard_formats import TFRECORD
from beam_pipelines.reader.folders.folder import Folder
from beam_pipelines.reader.parts import Indexed, ShardFile
from beam_pipelines.tfrecord.part_index import (
    IndexedShard,
    PartIndex,
    parse_index,
    shards_by_index,
)

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2

    from beam_pipelines.reader.row_groups import RowGroups


class Opened(NamedTuple):
    """An open dataset.

    Attributes:
      files: its folder.
      content: the bytes of the manifest.
      fields: the manifest.
    """

    files: Folder
    content: bytes
    fields: Manifest

    @classmethod
    def at(cls, path: str, cache: str | None, cache_bytes: int) -> Opened:
        """Reads the manifest in a folder.

        Raises:
          DataError: there is none that this version reads.
        """
        files = Folder(path, cache, cache_bytes)
        content = files.read(MANIFEST)
        return cls(files, content, parse_manifest(content, files.join(MANIFEST)))

    @property
    def shown(self) -> str:
        """The folder, without secrets."""
        return mask(self.files.path)

    def read(self, path: str) -> bytes:
        """Returns a file, checked against the manifest."""
        return read_checked(self.files.read, self.files.path, self.fields, path)

    def schema(self) -> schema_pb2.Schema:
        """Reads the schema of the records.

        Raises:
          DataError: there is none, or it was changed.
        """
        from google.protobuf import text_format
        from tensorflow_metadata.proto.v0 import schema_pb2

        content = self.read(self.fields.schema)
        try:
            return text_format.Parse(content.decode(), schema_pb2.Schema())
        except (text_format.ParseError, UnicodeDecodeError) as error:
            raise DataError(
                f"{self.files.join(self.fields.schema)}: found no schema in it ({error}). Copy the "
                "dataset again, or convert again with --overwrite."
            ) from error

    def indexes_of(self, split: str) -> list[Indexed]:
        """Returns the shards of a split with the parts of their indexes.

        Raises:
          DataError: there is no index; or it is damaged, or of other shards; or the shards have
            other rows than the manifest says.
        """
        fields, files = self.fields, self.files
        if split not in fields.splits:
            return []
        self._check_rows(split)
        is_shuffled = fields.recipe.get("output", {}).get("shuffle", False) is True
        indexes = shards_by_index(split, fields.splits[split].shards)
        remote, row_groups = files.shards(self.content), self._row_groups()
        return [
            Indexed(
                tuple(ShardFile(files.join(one.name), one.rows, one.bytes) for one in shards),
                self._read_index(path, shards),
                remote,
                row_groups,
                is_shuffled,
            )
            for path, shards in indexes.items()
            if any(shard.rows for shard in shards)
        ]

    def _check_rows(self, name: str) -> None:
        """Checks that an epoch has the rows that the manifest promises."""
        split = self.fields.splits[name]
        rows = sum(shard.rows for shard in split.shards)
        if rows != split.rows:
            raise DataError(
                f"{self.files.join(MANIFEST)}: found shards with {rows:,} rows in split '{name}', "
                f"expected {split.rows:,} as it says. Copy the dataset again, or convert again "
                "with --overwrite."
            )

    def _read_index(self, path: str, shards: Sequence[IndexedShard]) -> PartIndex:
        """Reads an index whole."""
        full = self.files.join(path)

        def read(path: str) -> bytes:
            content = self.files.find(path)
            if content is None:
                raise DataError(
                    f"{full}: found no index of the shards' parts, which batches() reads by. Make "
                    f"it once: beam-pipelines index {self.files.path}"
                )
            return content

        content = read_checked(read, self.files.path, self.fields, path)
        return parse_index(pa.py_buffer(content), full, self.fields.compression, shards)

    def _row_groups(self) -> RowGroups | None:
        """Returns the reader of Parquet shards; ``None``: shards are TFRecords."""
        if self.fields.format == TFRECORD:
            return None
        from beam_pipelines.reader.row_groups import RowGroups  # readers of TFRecords spare it

        return RowGroups([feature.name for feature in feature_lists_of(self.schema())])
