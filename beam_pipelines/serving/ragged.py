"""Converts tensors of feature specs to encodings' ragged tensors, and back."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from beam_pipelines.core.arrow.columns import value_type
from beam_pipelines.encodings import Fitted
from beam_pipelines.encodings.apply import needed
from beam_pipelines.encodings.formula import check, checked, from_matrix, narrowed_tensor
from beam_pipelines.encodings.plan import EncodePlan
from beam_pipelines.encodings.vocabulary_asset import named

if TYPE_CHECKING:
    import tensorflow as tf

    from beam_pipelines.encodings.vocabulary_asset import Tables

    AnyTensor: TypeAlias = tf.Tensor | tf.SparseTensor | tf.RaggedTensor


def encode_tensors(
    plan: EncodePlan,
    raw: Mapping[str, AnyTensor],
    names: Collection[str],
    assets: str,
    asset_names: Mapping[str, str],
    tables: Tables | None = None,
) -> dict[str, tf.RaggedTensor]:
    """Builds a plan's encodings in the graph that is being traced.

    The same as ``apply.encode_batch``.

    Args:
      plan: of encodings, all fitted.
      raw: column -> its tensor, as parsed by the raw feature spec.
      names: of the features to build; nothing else is built but their inputs.
      assets: folder for the files of vocabularies.
      asset_names: feature -> name of its vocabulary's file.
      tables: of vocabularies, see ``vocabulary_asset.named``.

    Returns:
      The features, in the order of ``plan.written``.
    """
    chains, columns = needed(plan, names)
    features = {name: to_ragged(tensor) for name, tensor in raw.items() if name in columns}
    for chain in chains:
        tensors = tuple(features[name] for name in chain.inputs)
        if chain.steps and chain.steps[0].encoding.takes_ids:
            tensors = (_unrounded(plan, chain.inputs[0], tensors[0]),)
        with named(assets, asset_names[chain.name], tables):
            for step in chain.steps:
                if not isinstance(step.encoding, Fitted):
                    raise TypeError(f"feature '{chain.name}', {step.kind}: not fitted")
                tensors = (step.encoding.to_tensorflow(*tensors),)
        features[chain.name] = tensors[0]
    return {
        name: features[name].with_flat_values(narrowed_tensor(features[name].flat_values))
        for name in plan.written
        if name in names
    }


def _unrounded(plan: EncodePlan, name: str, tensor: tf.RaggedTensor) -> tf.RaggedTensor:
    """Checks that float32 of a float64 column were not rounded."""
    import tensorflow as tf

    if name not in plan.columns.names or tensor.dtype != tf.float32:
        return tensor
    if not pa.types.is_float64(value_type(plan.columns.field(name).type)):
        return tensor
    message = (
        f"column '{name}': found a number from 2^24 on, which the float32 of a tf.Example may have "
        "rounded. Give it to 'from_tensors', as float64, or convert again with 'types: "
        f"{{{name}: int64}}' of its source"
    )
    return tensor.with_flat_values(
        checked(tensor.flat_values, ~(tf.abs(tensor.flat_values) > 2.0**24), message)
    )


def to_ragged(tensor: AnyTensor) -> tf.RaggedTensor:
    """Returns each row's values as a ragged tensor [batch, None].

    Row splits are int64.

    Args:
      tensor: dense [batch, …], sparse [batch, None] with rows in order, as parsers give it, or
        ragged [batch, None, …].
    """
    import tensorflow as tf

    if isinstance(tensor, tf.SparseTensor):
        # Row r starts at the first value of any row from r on.
        rows = tf.range(tensor.dense_shape[0] + 1)[tf.newaxis]
        splits = tf.raw_ops.LowerBound(
            sorted_inputs=tensor.indices[tf.newaxis, :, 0], values=rows, out_type=tf.int64
        )
        return tf.RaggedTensor.from_row_splits(
            tensor.values, tf.reshape(splits, [-1]), validate=False
        )
    if isinstance(tensor, tf.RaggedTensor):
        flat = tensor if tensor.shape.rank == 2 else tensor.merge_dims(1, -1)
        return flat.with_row_splits_dtype(tf.int64)
    is_matrix = tensor.shape.rank == 2
    return from_matrix(
        tensor if is_matrix else tf.reshape(tensor, [-1, math.prod(tensor.shape[1:])])
    )


def from_ragged(
    name: str, ragged: tf.RaggedTensor, spec: Any, source: tf.SparseTensor | None = None
) -> AnyTensor:
    """Returns a feature as a parser of examples gives it.

    Args:
      name: of the feature, for the error.
      ragged: the values of each row, [batch, None].
      spec: ``tf.io.FixedLenFeature``, ``VarLenFeature`` or ``RaggedFeature``.
      source: a sparse tensor with as many values in each row, or ``None``.

    Returns:
      Dense [batch, …] of the spec's shape, sparse [batch, None], or ragged [batch, None]. The graph
      fails at a row whose number of values is not that of the dense tensor.
    """
    import tensorflow as tf

    if isinstance(spec, tf.io.RaggedFeature):
        return ragged.with_row_splits_dtype(spec.row_splits_dtype)
    if not isinstance(spec, tf.io.FixedLenFeature):
        source = ragged.to_sparse() if source is None else source
        return tf.SparseTensor(source.indices, ragged.values, source.dense_shape)
    width, length = math.prod(spec.shape), ragged.uniform_row_length
    if length is not None and tf.get_static_value(length) == width:
        return tf.reshape(ragged.values, [-1, *spec.shape])
    promised = check(
        tf.reduce_all(tf.equal(ragged.row_lengths(), width)),
        f"feature '{name}': found a row with another number of values than {width}, which the "
        "schema promises. Fill nulls first.",
    )
    with tf.control_dependencies([promised]):
        return tf.reshape(ragged.values, [-1, *spec.shape])
