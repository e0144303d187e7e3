"""Between the tensors of a feature spec and the ragged tensors that encodings take and give."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from beam_pipelines.encode_plan import Chain, EncodePlan
from beam_pipelines.encodings import Fitted
from beam_pipelines.encodings.vocabulary_asset import named

if TYPE_CHECKING:
    import tensorflow as tf

    AnyTensor: TypeAlias = tf.Tensor | tf.SparseTensor | tf.RaggedTensor


def encode_tensors(
    plan: EncodePlan,
    raw: Mapping[str, AnyTensor],
    names: Collection[str],
    assets: str,
    asset_names: Mapping[str, str],
) -> dict[str, tf.RaggedTensor]:
    """Builds a plan's encodings in the graph that is being traced, as ``encode.encode_batch`` applies them.

    Args:
      plan: of encodings that are all fitted.
      raw: column -> its tensor, as parsed by the raw feature spec.
      names: of the features to build, and nothing that they do not need.
      assets: folder for the files of vocabularies.
      asset_names: feature -> name of its vocabulary's file.

    Returns:
      The features, in the order of ``plan.written``.
    """
    chains, columns = _needed(plan, names)
    features = {name: to_ragged(tensor) for name, tensor in raw.items() if name in columns}
    for chain in chains:
        tensors = tuple(features[name] for name in chain.inputs)
        with named(assets, asset_names[chain.name]):
            for step in chain.steps:
                if not isinstance(step.encoding, Fitted):
                    raise TypeError(f"feature '{chain.name}', {step.kind}: not fitted")
                tensors = (step.encoding.to_tensorflow(*tensors),)
        features[chain.name] = tensors[0]
    return {name: features[name] for name in plan.written if name in names}


def _needed(plan: EncodePlan, names: Collection[str]) -> tuple[list[Chain], set[str]]:
    """Returns the chains that some features need, in order, and the columns."""
    chains, needed = [], set(names)
    for chain in reversed(plan.chains):
        if chain.name in needed:
            chains.append(chain)
            needed.discard(chain.name)
            needed.update(chain.inputs)
    return chains[::-1], needed


def to_ragged(tensor: AnyTensor) -> tf.RaggedTensor:
    """Returns the values of each row as a ragged tensor [batch, None] with int64 row splits.

    Args:
      tensor: dense [batch, …], sparse [batch, None] with rows in order, or ragged [batch, None, …].
    """
    import tensorflow as tf

    if isinstance(tensor, tf.SparseTensor):
        rows, batch = tensor.indices[:, 0], tensor.dense_shape[0]
        return tf.RaggedTensor.from_value_rowids(tensor.values, rows, batch)
    if isinstance(tensor, tf.RaggedTensor):
        flat = tensor if tensor.shape.rank == 2 else tensor.merge_dims(1, -1)
        return flat.with_row_splits_dtype(tf.int64)
    width = math.prod(tensor.shape[1:])
    return tf.RaggedTensor.from_tensor(tf.reshape(tensor, [-1, width]), row_splits_dtype=tf.int64)


def from_ragged(name: str, ragged: tf.RaggedTensor, spec: Any) -> AnyTensor:
    """Returns a feature as a parser of examples gives it.

    Args:
      name: of the feature, for the error.
      ragged: the values of each row, [batch, None].
      spec: ``tf.io.FixedLenFeature``, ``VarLenFeature`` or ``RaggedFeature``.

    Returns:
      Dense [batch, …] of the spec's shape, sparse [batch, None], or ragged [batch, None]. A row with another number of values than a
      dense tensor has is an error when the graph runs.
    """
    import tensorflow as tf

    if isinstance(spec, tf.io.RaggedFeature):
        return ragged.with_row_splits_dtype(spec.row_splits_dtype)
    if not isinstance(spec, tf.io.FixedLenFeature):
        return ragged.to_sparse()
    width = math.prod(spec.shape)
    check = tf.debugging.Assert(
        tf.reduce_all(tf.equal(ragged.row_lengths(), width)),
        [
            f"feature '{name}': found a row with another number of values than {width}, which the schema promises. Fill nulls first."
        ],
    )
    # Tied to this feature, and not to the others: a graph that is cut to some features has the checks of these.
    with tf.control_dependencies([check]):
        return tf.reshape(ragged.flat_values, [-1, *spec.shape])
