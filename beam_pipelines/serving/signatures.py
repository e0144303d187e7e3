"""Signatures of the serving graph: from serialized examples, and from raw columns.

A signature takes and gives dense tensors only, for TensorFlow Serving and clients in other
languages. So what a feature spec parses into a sparse tensor becomes two: the values [batch,
longest row], padded at the end of each row, and the number of values of each row, int64 [batch],
whose name ends in ``_row_lengths``. A null is a row without values.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from beam_pipelines.encodings.formula import to_matrix
from beam_pipelines.serving.ragged import to_ragged

if TYPE_CHECKING:
    import tensorflow as tf

    AnyTensor: TypeAlias = tf.Tensor | tf.SparseTensor | tf.RaggedTensor

FROM_EXAMPLES = "serving_default"
FROM_TENSORS = "from_tensors"
ROW_LENGTHS = "_row_lengths"


def make_signatures(
    parsed: Any, parsed_spec: Mapping[str, Any], given: Any, given_spec: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the signatures by name, for ``tf.saved_model.save``.

    Args:
      parsed: a concrete function from a dict of the raw columns, dense or ragged tensors, to a dict
        of dense tensors.
      parsed_spec: of these columns; it parses dense and ragged tensors.
      given, given_spec: the same with float64, which no tf.Example has.
    """
    return {
        FROM_EXAMPLES: _from_examples(parsed, parsed_spec),
        FROM_TENSORS: _from_tensors(given, given_spec),
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
    names = dict(zip(arguments, argument_names(map("".join, arguments)), strict=True))

    @tf.function(autograph=False)
    def from_tensors(**tensors: tf.Tensor) -> dict[str, tf.Tensor]:
        given = {key: tensors[name] for key, name in names.items()}
        lengths = {name: given[name, ROW_LENGTHS] for name, part in given if part}
        padded = {name: given[name, ""] for name in lengths}
        ragged = _without_padding(padded, lengths)
        raw = {name: ragged[name] if name in ragged else given[name, ""] for name in feature_spec}
        for name, tensor in ragged.items():
            raw[name] = tensor.with_row_splits_dtype(feature_spec[name].row_splits_dtype)
        result: dict[str, tf.Tensor] = transform(raw)
        return result

    return from_tensors.get_concrete_function(
        **{
            names[key]: tf.TensorSpec(spec.shape, spec.dtype, names[key])
            for key, spec in arguments.items()
        }
    )


def _dense_arguments(feature_spec: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
    """Returns dense ``tf.TensorSpec`` of arguments, for columns of any kind.

    Keys are a column and nothing, or ``ROW_LENGTHS``: a column may have such a name itself.
    """
    import tensorflow as tf

    arguments: dict[tuple[str, str], Any] = {}
    for name, spec in feature_spec.items():
        if isinstance(spec, tf.io.FixedLenFeature):
            arguments[name, ""] = tf.TensorSpec([None, *spec.shape], spec.dtype)
        else:
            arguments[name, ""] = tf.TensorSpec([None, None], spec.dtype)
            arguments[name, ROW_LENGTHS] = tf.TensorSpec([None], tf.int64)
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
    return dense | _lengths(splits, dense)


def _lengths(splits: Mapping[str, tf.Tensor], taken: Collection[str]) -> dict[str, tf.Tensor]:
    """Returns the lengths of rows from their row splits.

    Under names that are not taken.

    Lengths are int64 [batch], and row splits are [batch + 1].
    """
    import tensorflow as tf

    if not splits:
        return {}
    together = tf.stack(list(splits.values()))
    lengths = tf.unstack(together[:, 1:] - together[:, :-1], len(splits))
    names = [*taken, *(name + ROW_LENGTHS for name in splits)]
    return dict(zip(distinct(names)[len(taken) :], lengths, strict=True))


def argument_names(names: Iterable[str]) -> list[str]:
    """Returns valid, distinct names for a signature, as TensorFlow changes them.

    Characters other than ``a`` to ``z``, ``A`` to ``Z``, digits and ``_`` become ``_``: Python has
    more letters, which TensorFlow does not take. A name that then does not begin with a letter, or
    is a word of Python's, gets the prefix ``arg_``; a taken one gets a number as suffix.
    """
    plain = [re.sub(r"\W", "_", name, flags=re.ASCII) for name in names]
    return distinct(
        name if re.match("[A-Za-z]", name) and not keyword.iskeyword(name) else f"arg_{name}"
        for name in plain
    )


def distinct(names: Iterable[str]) -> list[str]:
    """Returns the names; a taken one gets a number as suffix."""
    taken: dict[str, None] = {}
    for name in names:
        free, number = name, 2
        while free in taken:
            free, number = f"{name}_{number}", number + 1
        taken[free] = None
    return list(taken)
