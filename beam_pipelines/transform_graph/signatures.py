"""The signatures of the serving graph: from serialized examples, and from one tensor for each raw column.

A signature takes and gives dense tensors only, as TensorFlow Serving and clients in other languages need them. What a feature spec
parses into a sparse tensor therefore becomes two: the values [batch, longest row], padded at the end of each row, and the number of
values of each row, int64 [batch], with ``_row_lengths`` behind the name. A null is a row of no values.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import tensorflow as tf

    AnyTensor: TypeAlias = tf.Tensor | tf.SparseTensor | tf.RaggedTensor
    # A function of tensors by name, of those that a feature spec parses into.
    Transform: TypeAlias = Callable[[Mapping[str, AnyTensor]], Mapping[str, AnyTensor]]

FROM_EXAMPLES = "serving_default"
FROM_TENSORS = "from_tensors"
ROW_LENGTHS = "_row_lengths"


def make_signatures(
    transform: Transform, feature_spec: Mapping[str, Any], type_specs: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the signatures by name, as ``tf.saved_model.save`` takes them.

    Args:
      transform: the graph.
      feature_spec: of the raw columns that it takes.
      type_specs: ``tf.TypeSpec`` of the same.
    """
    return {
        FROM_EXAMPLES: _from_examples(transform, feature_spec),
        FROM_TENSORS: _from_tensors(transform, type_specs),
    }


def _from_examples(transform: Transform, feature_spec: Mapping[str, Any]) -> Any:
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")], autograph=False)
    def from_examples(examples: tf.Tensor) -> dict[str, tf.Tensor]:
        return to_dense(transform(tf.io.parse_example(examples, feature_spec)))

    return from_examples


def _from_tensors(transform: Transform, type_specs: Mapping[str, Any]) -> Any:
    import tensorflow as tf

    arguments = dense_arguments(type_specs)
    names = argument_names(arguments)

    @tf.function(autograph=False)
    def from_tensors(**tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        raw: dict[str, AnyTensor] = {}
        for name, spec in type_specs.items():
            values = tensors[names[name]]
            if isinstance(spec, tf.TensorSpec):
                raw[name] = values
                continue
            lengths = tensors[names[name + ROW_LENGTHS]]
            ragged = tf.RaggedTensor.from_tensor(values, lengths)
            raw[name] = ragged.to_sparse() if isinstance(spec, tf.SparseTensorSpec) else _as(ragged, spec)
        return to_dense(transform(raw))

    return from_tensors.get_concrete_function(
        **{names[name]: tf.TensorSpec(spec.shape, spec.dtype, names[name]) for name, spec in arguments.items()}
    )


def _as(ragged: tf.RaggedTensor, spec: tf.RaggedTensorSpec) -> tf.RaggedTensor:
    return ragged.with_row_splits_dtype(spec.row_splits_dtype)


def dense_arguments(type_specs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the dense tensors that stand for tensors of any kind, as ``tf.TensorSpec`` by name."""
    import tensorflow as tf

    arguments: dict[str, Any] = {}
    for name, spec in type_specs.items():
        if isinstance(spec, tf.TensorSpec):
            arguments[name] = spec
        else:
            arguments[name] = tf.TensorSpec([None, None], spec.dtype)
            arguments[name + ROW_LENGTHS] = tf.TensorSpec([None], tf.int64)
    return arguments


def to_dense(features: Mapping[str, AnyTensor]) -> dict[str, tf.Tensor]:
    """Returns dense tensors only: of a sparse or ragged one, its padded values and the lengths of its rows."""
    import tensorflow as tf

    dense: dict[str, tf.Tensor] = {}
    for name, tensor in features.items():
        if isinstance(tensor, tf.Tensor):
            dense[name] = tensor
            continue
        ragged = tf.RaggedTensor.from_sparse(tensor) if isinstance(tensor, tf.SparseTensor) else tensor
        dense[name] = ragged.to_tensor()
        if ragged.ragged_rank == 1:
            dense[name + ROW_LENGTHS] = tf.cast(ragged.row_lengths(), tf.int64)
    return dense


def argument_names(names: Iterable[str]) -> dict[str, str]:
    """Returns names that a signature can have, as TensorFlow would change them, and each once.

    What is neither a letter nor a digit nor ``_`` becomes ``_``; a name that then begins with no letter, or is a word of Python's, gets
    ``arg_`` before it, and one that is taken a number behind it.
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
