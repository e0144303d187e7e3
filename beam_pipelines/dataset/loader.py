"""Loads datasets in TensorFlow: ``load`` gives the batches of ``Dataset.batches``.

For trainers: imports neither Apache Beam nor a module of ours that needs it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from beam_pipelines.core.errors import DataError, nearest
from beam_pipelines.core.layout.dataset_layout import MANIFEST
from beam_pipelines.core.layout.schema_features import features_of
from beam_pipelines.reader.dataset import Dataset
from beam_pipelines.reader.folders.together import Folders
from beam_pipelines.reader.frameworks import check_installed
from beam_pipelines.reader.parse import RECORD
from beam_pipelines.serving.specs import spec_of

if TYPE_CHECKING:
    import tensorflow as tf
    from typing_extensions import Unpack

    from beam_pipelines.reader.reader import BatchOptions

_SEEDS = 1 << 32


def load(
    folder: Folders,
    split: str | None = None,
    *,
    batch_size: int = 256,
    features: Iterable[str] | None = None,
    label: bool | str = True,
    **options: Unpack[BatchOptions],
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
      options: other arguments of ``Dataset.batches``, such as ``images``, ``padding``, ``shuffle``
        and ``remainder``. ``seed`` is a new one by default, or 1 if several machines divide the
        rows. ``rank`` and ``world_size`` are 0 and 1 by default: input pipeline ``rank`` of
        ``world_size`` machines gets as many rows of every global batch. TensorFlow is told not to
        divide the dataset once more.

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
    rest: Any = {"rank": 0, "world_size": 1, **options}
    if rest.get("seed") is None:  # input pipelines of several machines divide one order
        rest["seed"] = secrets.randbelow(_SEEDS) if rest["world_size"] == 1 else 1
    label_name = _label_of(dataset, label)
    columns = _columns(dataset, features, label_name)
    batches = dataset.batches(split, batch_size, as_="tf", columns=columns, **rest)
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
