"""One open dataset: folder, manifest, schema, report, and indexed shards."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from beam_pipelines.core.errors import DataError, mask
from beam_pipelines.core.layout.checked_files import read_checked
from beam_pipelines.core.layout.dataset_layout import MANIFEST
from beam_pipelines.core.layout.manifest import Manifest, parse_manifest
from beam_pipelines.core.layout.schema_features import feature_lists_of
from beam_pipelines.core.layout.shard_formats import TFRECORD
from beam_pipelines.core.process import full_package, regular_files
from beam_pipelines.reader.parts import Indexed, ShardFile
from beam_pipelines.tfrecord.part_index import IndexedShard, PartIndex, parse_index, shards_by_index

if TYPE_CHECKING:
    from tensorflow_metadata.proto.v0 import schema_pb2

    from beam_pipelines.files.cache import RemoteShards
    from beam_pipelines.reader.row_groups import RowGroups


# Bytes of a cache, unless others are asked for.
CACHE_BYTES = 16 << 30
# Hexadecimal digits of a dataset's name in a cache.
_NAME_DIGITS = 32


class Folder(NamedTuple):
    """A dataset's folder, and where parts of a remote one are kept.

    Attributes:
      path: of the folder, or its URL.
      cache: a folder on this machine, or ``None``.
      cache_bytes: of all parts in the cache.
    """

    path: str
    cache: str | None = None
    cache_bytes: int = 0

    def __repr__(self) -> str:
        return f"Folder({mask(self.path)!r}, {self.cache!r}, {self.cache_bytes})"

    @property
    def is_remote(self) -> bool:
        """Whether it is a URL."""
        return "://" in self.path

    def join(self, path: str) -> str:
        """Returns the path or URL of a file in it."""
        if self.is_remote:
            return f"{self.path.rstrip('/')}/{path}"
        return os.path.join(self.path, *path.split("/"))

    def find(self, path: str) -> bytes | None:
        """Returns a file, or ``None`` if there is none.

        Raises:
          DataError: it cannot be read.
        """
        full = self.join(path)
        try:
            if self.is_remote:
                return _get(full)
            with regular_files.open_read(full) as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise DataError(f"{full}: cannot be read ({error.strerror}).") from error

    def read(self, path: str) -> bytes:
        """Returns a file.

        Raises:
          DataError: it is not there, or cannot be read.
        """
        found = self.find(path)
        if found is not None:
            return found
        if path != MANIFEST:
            raise DataError(f"{self.join(path)}: found no file. Copy the dataset again.")
        raise DataError(
            f"{self.path}: found no {MANIFEST}, so there is no dataset, or none that was finished."
        )

    def shards(self, manifest: bytes) -> RemoteShards | None:
        """Returns the reader of remote shards; ``None``: they are on this machine.

        Args:
          manifest: the content of ``dataset.json``, which another dataset at the URL has not.
        """
        if not self.is_remote:
            return None
        import hashlib

        from beam_pipelines.files.cache import Cache, RemoteShards

        if self.cache is None:
            return RemoteShards(self.path, None)
        name = hashlib.sha256(self.path.encode() + b"\0" + manifest).hexdigest()[:_NAME_DIGITS]
        return RemoteShards(self.path, Cache(self.cache, self.cache_bytes, name))


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
        from beam_pipelines.core.layout.schema_features import parse_schema

        return parse_schema(self.read(self.fields.schema), self.files.join(self.fields.schema))

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
                    f"{full}: found no index of the shards' parts, which batches() reads by. "
                    "Copy the dataset again, or convert again with --overwrite."
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


def _get(url: str) -> bytes:
    """Returns a remote file: of other schemes, such as ``hdfs://``, by Beam.

    Raises:
      FileNotFoundError: there is none.
      DataError: it cannot be read.
      ImportError: the full package is not installed.
    """
    from beam_pipelines.files import stores  # takes 5 ms, which local readers spare

    if url.partition("://")[0] in stores.SCHEMES:
        return stores.get(url)
    files = full_package.import_module("files.beam.files", "bp.open of such a URL")
    if not files.exists(url):
        raise FileNotFoundError(url)
    content: bytes = files.read_bytes(url)
    return content
