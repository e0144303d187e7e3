"""Signatures of the serving graph: from serialized examples, and from raw columns.

A signature takes and gives dense tensors only, for TensorFlow Serving and clients in other
languages. So what a feature spec parses into a sparse tensor becomes two: the values [batch,
longest row], padded at the end of each row, and the number of values of each row, int64 [batch],
whose name ends in ``_row_lengths``. A null is a row without values.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from beam_pipelines.encodings.ragged import to_matrix
from beam_pipelines.serving.ragged import to_ragged

if TYPE_CHECKING:
    import tensorflow as tf

    AnyTensor: TypeAlias = tf.Tensor | tf.SparseTensor | tf.RaggedTensor

FROM_EXAMPLES = "serving_default"
FROM_TENSORS = "from_tensors"
ROW_LENGTHS = "_row_lengths"


def make_signatures(transform: Any, feature_spec: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the signatures by name, for ``tf.saved_model.save``.

    Args:
      transform: a concrete function from a dict of the raw columns, dense or ragged tensors, to a
        dict of dense tensors.
      feature_spec: of these columns; it parses dense and ragged tensors.
    """
    return {
        FROM_EXAMPLES: _from_examples(transform, feature_spec),
        FROM_TENSORS: _from_tensors(transform, feature_spec),
    }


def _from_examples(transform: Any, feature_spec: Mapping[str, Any]) -> Any:
    import tensorflow as tf

    @tf.function(
        input_signature=[tf.TensorSpec([None], tf.string, name="examples")], autograph=False
    )
    def from_examples(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        result: dict[str, tf.Tensor] = transform(tf.io.parse_example(examples, feature_spec))
        return result

    return from_examples.get_concrete_function()


def _from_tensors(transform: Any, feature_spec: Mapping[str, Any]) -> Any:
    import tensorflow as tf

    arguments = _dense_arguments(feature_spec)
    names = argument_names(arguments)

    @tf.function(autograph=False)
    def from_tensors(**tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        given = {name: tensors[names[name]] for name in arguments}
        padded = {name: given[name] for name in feature_spec if name + ROW_LENGTHS in given}
        ragged = _without_padding(padded, {name: given[name + ROW_LENGTHS] for name in padded})
        raw = {name: ragged[name] if name in ragged else given[name] for name in feature_spec}
        for name, tensor in ragged.items():
            raw[name] = tensor.with_row_splits_dtype(feature_spec[name].row_splits_dtype)
        result: dict[str, tf.Tensor] = transform(raw)
        return result

    return from_tensors.get_concrete_function(
        **{
            names[name]: tf.TensorSpec(spec.shape, spec.dtype, names[name])
            for name, spec in arguments.items()
        }
    )


def _dense_arguments(feature_spec: Mapping[str, Any]) -> dict[str, Any]:
    """Returns dense ``tf.TensorSpec`` by name for arguments of any kind."""
    import tensorflow as tf

    arguments: dict[str, Any] = {}
    for name, spec in feature_spec.items():
        if isinstance(spec, tf.io.FixedLenFeature):
            arguments[name] = tf.TensorSpec([None, *spec.shape], spec.dtype)
        else:
            arguments[name] = tf.TensorSpec([None, None], spec.dtype)
            arguments[name + ROW_LENGTHS] = tf.TensorSpec([None], tf.int64)
    return arguments


def _without_padding(
    padded: Mapping[str, tf.Tensor], lengths: Mapping[str, tf.Tensor]
) -> dict[str, tf.RaggedTensor]:
    """Returns matrices [batch, …] as ragged tensors of their rows' first values.

    A length beyond a matrix's width counts as the width. One computation serves all matrices where
    possible: an operation per feature costs more to build than to run.
    """
    import tensorflow as tf

    if not padded:
        return {}
    widths = [tf.shape(values, tf.int64)[1] for values in padded.values()]
    known = tf.clip_by_value(
        tf.stack([lengths[name] for name in padded]), 0, tf.stack(widths)[:, tf.newaxis]
    )
    splits = tf.unstack(tf.pad(tf.cumsum(known, axis=1), [[0, 0], [1, 0]]), len(padded))
    ragged = {}
    for (name, values), width, row_lengths, row_splits in zip(
        padded.items(),
        widths,
        tf.unstack(known[:, :, tf.newaxis], len(padded)),
        splits,
        strict=True,
    ):
        # The reshape fails if the lengths are of another number of rows.
        is_known = tf.reshape(tf.range(width) < row_lengths, tf.shape(values))
        flat = tf.gather_nd(values, tf.where(is_known))
        ragged[name] = tf.RaggedTensor.from_row_splits(flat, row_splits, validate=False)
    return ragged


def to_dense(features: Mapping[str, AnyTensor]) -> dict[str, tf.Tensor]:
    """Returns features as dense tensors.

    A sparse or ragged one becomes padded values and row lengths.
    """
    import tensorflow as tf

    dense: dict[str, tf.Tensor] = {}
    splits: dict[str, tf.Tensor] = {}
    for name, tensor in features.items():
        if isinstance(tensor, tf.Tensor):
            dense[name] = tensor
            continue
        is_sparse = isinstance(tensor, tf.SparseTensor)
        ragged = to_ragged(tensor) if is_sparse else tensor
        is_flat = is_sparse or ragged.shape.rank == 2
        dense[name] = (
            to_matrix(ragged, tf.zeros([], ragged.dtype)) if is_flat else ragged.to_tensor()
        )
        if ragged.ragged_rank == 1:
            splits[name] = tf.cast(ragged.row_splits, tf.int64)
    return dense | _lengths(splits)


def _lengths(splits: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns the lengths of rows from their row splits.

    Lengths are int64 [batch], and row splits are [batch + 1].
    """
    import tensorflow as tf

    if not splits:
        return {}
    together = tf.stack(list(splits.values()))
    lengths = tf.unstack(together[:, 1:] - together[:, :-1], len(splits))
    return {name + ROW_LENGTHS: tensor for name, tensor in zip(splits, lengths, strict=True)}


def argument_names(names: Iterable[str]) -> dict[str, str]:
    """Returns valid, distinct names for a signature, as TensorFlow changes them.

    Characters other than letters, digits and ``_`` become ``_``. A name that then does not begin
    with a letter, or is a word of Python's, gets the prefix ``arg_``; a taken one gets a number as
    suffix.
    """
    result: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        plain = "".join(letter if letter.isalnum() else "_" for letter in name)
        plain = plain if plain[:1].isalpha() and not keyword.iskeyword(plain) else f"arg_{plain}"
        free = plain
        number = 2
        while free in taken:
            free, number = f"{plain}_{number}", number + 1
        taken.add(free)
        result[name] = free
    return result
