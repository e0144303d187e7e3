"""Loads datasets in TensorFlow: ``load`` gives the batches of ``Dataset.batches``.

For trainers: imports neither Apache Beam nor a module of ours that needs it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from beam_pipelines.core.errors import DataError, nearest
from beam_pipelines.core.layout.dataset_layout import MANIFEST
from beam_pipelines.core.layout.schema_features import features_of
from beam_pipelines.reader.dataset import Dataset
from beam_pipelines.reader.folders.together import Folders
from beam_pipelines.reader.frameworks import check_installed
from beam_pipelines.reader.images import Image
from beam_pipelines.reader.parse import RECORD
from beam_pipelines.serving.specs import spec_of

if TYPE_CHECKING:
    import tensorflow as tf

_SEEDS = 1 << 32


def load(
    folder: Folders,
    split: str | None = None,
    *,
    batch_size: int = 256,
    features: Iterable[str] | None = None,
    label: bool | str = True,
    images: Mapping[str, Image] | None = None,
    padding: float | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    drop_remainder: bool = False,
    shard: tuple[int, int] = (0, 1),
) -> tf.data.Dataset:
    """Loads a split of a dataset as batches of tensors.

    ``Dataset.batches`` reads and decodes them. One pass over the dataset is one epoch.
    Its length is known (``len(dataset)``).

    Args:
      folder: of the dataset, a path or a URL; or several, as a list or a pattern such as
        ``out/2026-*``, whose rows are read as one dataset's.
      split: default: the first, which is ``train`` in most datasets.
      batch_size: rows of a batch. The last one of an epoch has the rest.
      features: names of those to parse; default: all. A feature that is not parsed costs little.
      label: ``True``: pairs of features and label, if the recipe names a label; ``False``:
        features only, the label among them; or the name of the feature to take as the label.
      images: feature -> how its compressed images are decoded, as ``batches`` takes it: to pixels,
        uint8 [batch, height, width, channels]. Others stay compressed.
      padding: fills lists and feature lists up to the longest of the batch, and steps without a
        value; texts are filled with empty ones. ``None``: they stay sparse or ragged.
      shuffle: whether rows have another order in every epoch; else that of the shards.
      seed: makes the orders of all epochs the same in every program that uses it. Default: a new
        one, or 1 if several machines divide the rows.
      drop_remainder: leaves out a last batch that is not full, so that all shapes are static.
      shard: ``(index, count)``: the part of input pipeline ``index`` of ``count`` machines. Each
        gets as many rows of every global batch of ``count * batch_size`` rows. TensorFlow is told
        not to divide the dataset once more.

    Returns:
      A dataset of dictionaries feature -> tensor, as ``Dataset.feature_spec`` says or decoded, with
      the batch as the first dimension; or of pairs of such a dictionary and the label. Of raw
      records, string tensors [batch].

    Raises:
      DataError: there is no dataset, the split has no rows or no index of parts, or shards are
        missing or of another size than the manifest says.
      ValueError: an argument is wrong.
    """
    check_installed("tf")
    dataset = Dataset(folder)
    if seed is None:  # input pipelines of several machines divide one order
        seed = secrets.randbelow(_SEEDS) if shard[1] == 1 else 1
    options: dict[str, Any] = {
        "shuffle": shuffle,
        "seed": seed,
        "remainder": "drop" if drop_remainder else "short",
        "rank": shard[0],
        "world_size": shard[1],
    }
    label_name = _label_of(dataset, label)
    batches = dataset.batches(
        split,
        batch_size,
        columns=_columns(dataset, features, label_name),
        padding=padding,
        images=images,
        as_="tf",
        **options,
    )
    if dataset.record == "raw":
        return batches.map(lambda batch: batch[RECORD])
    if label_name is None:
        return batches
    return batches.map(lambda batch: (batch, batch.pop(label_name)))


def _label_of(dataset: Dataset, label: bool | str) -> str | None:
    """Returns the name of the label, which is a feature, or ``None``."""
    name = (dataset.label if label else None) if isinstance(label, bool) else label
    known = [one.name for one in features_of(dataset.schema) if dataset.record != "raw"]
    if name is None or name in known:
        return name
    if label is True:
        raise DataError(
            f"{dataset.folder}: {MANIFEST} names the label '{name}', which is no feature of the "
            "schema. Convert again with --overwrite."
        )
    raise ValueError(
        f"{dataset.folder}: found no feature '{name}', expected one of the "
        f"schema's.{nearest(name, known)}"
    )


def _columns(
    dataset: Dataset, features: Iterable[str] | None, label: str | None
) -> list[str] | None:
    """Returns the columns of features; a sparse feature has several."""
    if features is None:
        if dataset.record == "raw":
            return None
        features = spec_of(dataset.schema)
    sparse = {feature.name: feature for feature in dataset.schema.sparse_feature}
    names: dict[str, None] = {}
    for name in (*features, *filter(None, [label])):
        own = [*sparse[name].index_feature, sparse[name].value_feature] if name in sparse else []
        names |= dict.fromkeys([column.name for column in own] or [name])
    return list(names)
