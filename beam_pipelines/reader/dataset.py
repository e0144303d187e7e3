"""A dataset as a Python object, for scripts, notebooks and trainers.

Opening a local one and reading its batches loads neither Beam nor TensorFlow.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, overload

from beam_pipelines.core.errors import DataError, mask, nearest
from beam_pipelines.core.layout.dataset_layout import REPORT, statistics_path
from beam_pipelines.core.process import full_package
from beam_pipelines.reader.features import (
    ReadFeature,
    Wishes,
    names_of_lists_of_lists,
    wanted_features,
)
from beam_pipelines.reader.folders.opened import CACHE_BYTES
from beam_pipelines.reader.folders.together import Folders, indexed, open_all, the_only
from beam_pipelines.reader.frameworks import check_installed, to_pandas, without_int64
from beam_pipelines.reader.parse import RECORD, RowFinder, parse_lists, parse_rows
from beam_pipelines.reader.reader import Reader, options_of
from beam_pipelines.reader.sequence import Stream

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2
    from typing_extensions import Unpack

    from beam_pipelines.reader.encodings.encoder import Encoder
    from beam_pipelines.reader.encodings.feature_info import FeatureInfo
    from beam_pipelines.reader.reader import BatchOptions


class Dataset:
    """A dataset on disk, or several that are read as one.

    Reads the manifest at once, and everything else on demand.

    Attributes:
      folder: path or URL; of several, the first.
      folders: of all, in the order of their rows.
      splits: split -> number of rows, in the recipe's order.
      label: name of the label's feature, or ``None``.
      record: ``example``, ``sequence_example`` or ``raw``.
    """

    def __init__(
        self,
        folder: Folders,
        *,
        cache: str | os.PathLike[str] | None = None,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        """Opens a dataset, or several as one.

        Args:
          folder: a path on this machine, or a URL: ``s3://``, ``gs://``, ``https://``, ``http://``.
            A list of them, or a pattern such as ``out/2026-*``, is read as one dataset: its splits
            have the rows of all, in the order of the list, or of the sorted folders of the pattern.
          cache: of a URL, a folder on this machine that keeps parts of shards for ``batches``. All
            processes of a machine may share it, and several datasets. ``None``: no part is kept.
          cache_bytes: that the cache has at most. Parts that do not fit are fetched in each epoch.

        Raises:
          DataError: the folder has no manifest, or another version wrote it; no folder matches the
            pattern; or a URL cannot be read: no credentials, no access, no answer.
          ValueError: ``cache_bytes`` is no positive number; or datasets differ in record, label,
            encodings or features.
        """
        if cache_bytes < 1:
            raise ValueError(f"cache_bytes: found {cache_bytes}, expected a number from 1.")
        self._all = open_all(folder, None if cache is None else os.fspath(cache), cache_bytes)
        self.folders = tuple(one.files.path for one in self._all)
        self._first = self._all[0]
        self.folder: str = self.folders[0]
        self.splits: Mapping[str, int] = {}
        for one in self._all:
            for name, found in one.fields.splits.items():
                self.splits[name] = self.splits.get(name, 0) + found.rows
        self.label: str | None = self._first.fields.label
        self.record: str = self._first.fields.record

    @functools.cached_property
    def manifest(self) -> dict[str, Any]:
        """The content of ``dataset.json``, of several that of the first."""
        document: dict[str, Any] = json.loads(self._first.content)
        return document

    @functools.cached_property
    def schema(self) -> schema_pb2.Schema:
        """The schema of the records, as ``tensorflow_metadata.proto.v0.schema_pb2.Schema``."""
        return self._first.schema()

    @functools.cached_property
    def features(self) -> Mapping[str, FeatureInfo]:
        """Name -> ``FeatureInfo``, in the order of the schema.

        Reads the fitted encodings, for the vocabularies. Sizes come from the schema.
        """
        from beam_pipelines.reader.encodings.feature_info import describe_features

        if self.record == "raw":
            return {}
        read = self._first.files.read
        return describe_features(read, mask(self.folder), self._first.fields, self.schema)

    def labels(self) -> tuple[str, ...]:
        """Returns the label's texts by id; empty if its values have none.

        The source's, such as names of folders, the encodings', or the schema's.
        """
        from beam_pipelines.reader.encodings.feature_info import labels_of

        return labels_of(self.features, self.schema, self.label)

    def shards(self, split: str | None = None) -> list[str]:
        """Returns the paths or URLs of a split's shards, in order."""
        name = self._split_name(split)
        own = ((one, one.fields.splits[name]) for one in self._all if name in one.fields.splits)
        return [one.files.join(shard.path) for one, found in own for shard in found.shards]

    def feature_spec(self, lists: bool = False) -> dict[str, Any]:
        """Returns feature -> ``tf.io.FixedLenFeature`` or others, for ``tf.io.parse_example``.

        By tfx-bsl's rules: a feature that is never missing and has a shape is dense, any other one
        sparse, or ragged if the schema says so.

        Args:
          lists: those of feature lists instead, for ``tf.io.parse_sequence_example``.
        """
        specs = full_package.import_module("serving.specs", "Dataset.feature_spec")
        found: dict[str, Any] = (specs.sequence_spec if lists else specs.feature_spec)(self.schema)
        return found

    @functools.cached_property
    def statistics(self) -> Mapping[str, statistics_pb2.DatasetFeatureStatistics]:
        """Split -> statistics of the columns before encoding, as TFDV has them."""
        from beam_pipelines.core.layout.schema_features import parse_statistics

        one = the_only(self._all, "statistics")
        paths = {name: statistics_path(name) for name in self.splits}
        return {
            name: parse_statistics(one.read(path), one.files.join(path))
            for name, path in paths.items()
            if path in one.fields.files or one.files.find(path) is not None
        }

    @property
    def report(self) -> str:
        """Path or URL of the HTML report."""
        return the_only(self._all, "report").files.join(REPORT)

    def head(self, n: int = 5, split: str | None = None) -> pa.Table:
        """Returns the first examples of a split, parsed by the schema.

        Args:
          n: number of examples, at most all of the split.
          split: default: the first.

        Returns:
          A column of lists for each feature: int64, float32 or binary values; null where the
          feature is missing. Raw records are one binary column ``record``.

        Raises:
          ValueError: there is no such split.
          DataError: there is no index of parts, or a shard is damaged.
        """
        import pyarrow as pa

        split = self._split_name(split)
        rows = range(min(n, self.splits[split]))
        if not rows:
            return pa.table({})
        found = RowFinder(indexed(self._all, split)).find(rows)
        if self.record == "raw":
            return pa.table({RECORD: parse_rows(found, [], "records")[RECORD].cut(0, len(rows))})
        features = self._to_read(Wishes(), "numpy")
        lists = parse_lists(found, features, {})
        return pa.table({feature.name: lists[feature.name] for feature in features})

    def to_pandas(self, n: int = 1000, split: str | None = None) -> pd.DataFrame:
        """Returns the first examples of a split as a ``pandas.DataFrame``.

        A feature with exactly one value in each of these examples is a plain column; any other is a
        column of lists, with ``None`` where it is missing. Features from text columns are ``str``,
        other binary ones ``bytes``. See ``head`` for arguments and errors.

        Raises:
          ImportError: pandas is not installed.
        """
        texts = {name for name, type_ in self._first.fields.columns.items() if type_ == "text"}
        return to_pandas(self.head(n, split), texts)

    @overload
    def batches(
        self,
        split: str | None = ...,
        batch_size: int = ...,
        *,
        as_: Literal["numpy", "torch", "jax", "arrow", "records"] = ...,
        **options: Unpack[BatchOptions],
    ) -> Reader: ...

    @overload
    def batches(
        self,
        split: str | None = ...,
        batch_size: int = ...,
        *,
        as_: Literal["tf"],
        **options: Unpack[BatchOptions],
    ) -> Any: ...

    def batches(
        self,
        split: str | None = None,
        batch_size: int = 512,
        *,
        as_: Literal["numpy", "torch", "jax", "arrow", "tf", "records"] = "numpy",
        **options: Unpack[BatchOptions],
    ) -> Any:
        r"""Returns a reader of a split's batches: dictionaries of feature -> values.

        For PyTorch, JAX and numpy: imports neither TensorFlow nor Beam. Global batches, those of
        all ranks together, depend on seed, epoch and ``batch_size * world_size`` alone.

        A feature that the schema never lacks and gives a shape is an array [batch] or
        [batch, \*shape], int64 or float32, which may be written to. Any other is a ``Ragged`` of
        values, offsets and presence. Texts are Arrow arrays of bytes, which ``torch`` and ``jax``
        do not have. Arrow arrays are dense, fixed-size lists, or lists with nulls.

        A feature list of tf.SequenceExamples is a ``Ragged`` of its steps. If steps may have other
        than one value, its ``values`` are a ``Ragged`` of the steps' values.

        Args:
          split: default: the first.
          batch_size: rows of a rank's batch.
          columns: names of the features to parse; default: all. Others cost little.
          fill: feature -> value of rows without one; the feature is then dense.
          types: feature -> narrower type of its numbers: int32, int16, int8 or uint8 of integers,
            float16 of floats, rounded to the nearest.
          padding: number that makes lists and feature lists dense: they are padded to the longest
            of a batch, texts with empty ones. A feature with at most one value takes ``fill``.
          images: feature -> how its compressed images become pixels, uint8
            [batch, height, width, channels].
          lookup: feature -> how its texts become ids, int64: the number of buckets to hash them
            into, or a ``Lookup``. They are those of the encodings ``hash_bucket`` and
            ``vocabulary``. ``fill`` of such a feature is an id.
          lengths: feature -> most values, or steps, of a row; others are cut off. With ``padding``
            every row has so many.
          keyed: name -> features whose values come together, as a ``Keyed`` of this name.
          as_: ``numpy``, ``torch`` (without a copy of numbers), ``jax`` (int32, unless JAX is set
            to 64 bits), ``arrow``; ``records``: the serialized records, named ``record``;
            or ``tf``: a ``tf.data.Dataset`` of the tensors that ``bp.load`` gives.
          sharding: a ``jax.sharding.Sharding`` of global batches, whose local part is the rank's.
          device: ``cuda`` or ``cuda:1``: where batches of ``torch`` or ``jax`` are. Another process
            reads into pinned memory, from where they are copied ahead. Needs PyTorch.
          shuffle: whether rows have another order in every epoch, which is the default; else that
            of the shards.
          seed: of the order and of random crops, 0 or more; default: 1.
          epochs: in one pass over the reader; default: 1.
          remainder: of a last global batch that is not full. ``short``, the default: the ranks
            divide its rows evenly, and a rank may get none; ``drop``: it is left out; ``pad``: it
            begins earlier, and has rows of the batch before it again. Every rank has equally many
            batches.
          rank, world_size: the part of each global batch to read. Default: those of
            ``torch.distributed`` or ``jax.distributed`` once it is initialized, else of the
            environment of torchrun (``RANK``, ``WORLD_SIZE``), else 0 and 1.

        Raises:
          DataError: the dataset has raw records; the split has no rows or no index of parts; a
            shard is missing or of another size than the manifest says, which is found while reading
            if it is remote.
            While reading: a shard is damaged, or contradicts the index, the schema or an argument:
            a number does not fit in its type, an image cannot be decoded.
          ValueError: an argument is wrong, or a package is not installed.
        """
        split = self._split_name(split)
        found = indexed(self._all, split)
        kind = "records" if as_ == "tf" and self.record == "raw" else as_
        wishes, read = options_of(batch_size, "numpy" if kind == "tf" else kind, options)
        features = self._to_read(wishes, kind)
        if features:
            found = found.with_columns([feature.name for feature in features])
        stream = Stream(found, options.get("seed", 1), options.get("shuffle", True))
        make_reader = functools.partial(Reader, [stream], [1], features, read)
        if as_ != "tf":
            return make_reader()
        module = full_package.import_module("dataset.tensorflow_batches", "as_='tf'")
        schema = self.schema if features else None
        rows = None if read.remainder == "short" else batch_size
        return module.as_tensorflow(make_reader, features, schema, rows, read.epochs)

    def _to_read(self, wishes: Wishes, as_: str) -> list[ReadFeature]:
        """Returns the features of batches; of serialized records none."""
        if as_ == "records":
            for argument, given in wishes.items():
                if given is not None:
                    raise ValueError(
                        f"{argument}: found it with as_='records', whose batches are serialized "
                        "records, expected another kind. Leave it out."
                    )
            return []
        if self.record == "raw":
            raise DataError(
                f"{self.folder}: found raw records, expected tf.Examples or tf.SequenceExamples. "
                "Give as_='records', and parse them."
            )
        check_installed(as_)
        several = names_of_lists_of_lists(self._first.fields.columns)
        features = wanted_features(mask(self.folder), self.schema, several, wishes, as_)
        return without_int64(features, wishes.get("types") or ()) if as_ == "jax" else features

    def encoder(self, columns: Iterable[str] | None = None) -> Encoder:
        """Returns the dataset's ``derive`` and encodings as a function of raw rows.

        For a model that serves: the features that the shards would have, by the code that writes
        shards. Imports neither TensorFlow nor Beam; derived columns need DuckDB. See ``Encoder``.

        Args:
          columns: names of the features to make; default: all but the label.

        Raises:
          DataError: the dataset has no tf.Examples, or a ``preprocessing_fn``, which needs
            TensorFlow; a file is missing or damaged; or DuckDB is needed and not installed.
          ValueError: there is no such feature.
        """
        from beam_pipelines.reader.encodings.encoder import Encoder, read_plan

        return Encoder(*read_plan(self._first, self.schema, columns))

    def _split_name(self, split: str | None) -> str:
        split = next(iter(self.splits)) if split is None else split
        if not isinstance(split, str) or split not in self.splits:
            raise ValueError(
                f"{self.shown}: found no split '{split}', expected one of "
                f"{', '.join(self.splits)}.{nearest(split, self.splits)}"
            )
        return split

    def __repr__(self) -> str:
        rows = ", ".join(f"{name}: {count:,} rows" for name, count in self.splits.items())
        return f"Dataset({self.shown!r}, {rows})"

    @property
    def shown(self) -> str:
        """The folder, and how many more there are, without secrets."""
        more = len(self.folders) - 1
        return mask(self.folder) + (f" and {more:,} more" if more else "")


def open(  # noqa: A001 - as ``bp.open``
    folder: Folders,
    *,
    cache: str | os.PathLike[str] | None = None,
    cache_bytes: int = CACHE_BYTES,
) -> Dataset:
    """Opens a dataset, or several as one; see ``Dataset``."""
    return Dataset(folder, cache=cache, cache_bytes=cache_bytes)
