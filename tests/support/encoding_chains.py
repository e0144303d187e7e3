"""Fits chains of encodings to a few rows, without a pipeline.

It runs both of their faces: Arrow and TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.encodings import ENCODING_FOR_KIND, Encoding, Feature, Fitted
from beam_pipelines.encodings.encoding import Fixed

Step = str | Mapping[str, Any]


def declared(step: Step) -> Encoding:
    """Returns the encoding that a step of a recipe declares.

    The step is ``kind``, ``{kind: VALUE}`` or ``{kind: {name: value, …}}``.
    """
    if isinstance(step, str):
        return ENCODING_FOR_KIND[step].of({})
    ((kind, given),) = step.items()
    return ENCODING_FOR_KIND[kind].of(given if isinstance(given, Mapping) else {"value": given})


def analyze(encoding: Encoding, array: pa.Array) -> Any:
    """Returns an encoding's analysis of rows in two batches.

    Keyed sums are merged in two partitions.
    """
    analyzer = encoding.analyzer
    if analyzer is None:
        return None
    cuts = [slice(0, len(array) // 2), slice(len(array) // 2, len(array))]
    if isinstance(analyzer, type):
        return analyzer.merged([analyzer.of(array[cut]) for cut in cuts])
    counted = [analyzer.count(array[cut]) for cut in cuts]
    table = pa.Table.from_batches(counted)
    sums = [name for name in table.schema.names if name != "key"]
    added = table.group_by("key", use_threads=False).aggregate([(name, "sum") for name in sums])
    added = pa.table([added["key"], *(added[f"{name}_sum"] for name in sums)], ["key", *sums])
    parity = np.arange(len(added)) % 2
    selected = [
        analyzer.select(one_batch(added.filter(pa.array(parity == number)))) for number in range(2)
    ]
    return one_batch(pa.Table.from_batches(selected))


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """A table as one batch, of no rows too."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


def fit_chain(
    chain: Sequence[Step],
    features: Sequence[Feature],
    arrays: Sequence[pa.Array],
    *,
    part: str = "",
) -> tuple[list[Fitted], Feature]:
    """Fits a chain's steps, each to the output of those before it.

    Args:
      chain: as a recipe has it.
      features: what is known of the arrays.
      arrays: the rows to fit on.
      part: suffix of the feature to follow, where a step makes several.

    Returns:
      The fitted steps, and what is known of their output.
    """
    fitted: list[Fitted] = []
    known, data = tuple(features), tuple(arrays)
    for step in chain:
        parts = declared(step).parts()
        encoding = parts[part] if part in parts else parts[""]
        if isinstance(encoding, Fixed):
            encoding = encoding.given(*known)
        encoding.output(*known)
        fitted.append(encoding.fit(analyze(encoding, data[0])))
        known = (fitted[-1].output(*known),)
        data = (fitted[-1].apply(*data),)
        assert data[0].type == known[0].type, (
            f"{step}: {data[0].type}, but output says {known[0].type}"
        )
        if part and part in parts:
            break
    return fitted, known[0]


def apply_chain(fitted: Sequence[Fitted], *arrays: pa.Array) -> pa.Array:
    """Runs the Arrow face of a chain."""
    for encoding in fitted:
        arrays = (encoding.apply(*arrays),)
    return arrays[0]


def graph_of(
    fitted: Sequence[Fitted], types: Sequence[pa.DataType]
) -> Callable[..., tuple[npt.NDArray[np.int64], npt.NDArray[Any]]]:
    """Returns the TensorFlow face of a chain, traced once.

    It takes arrays and returns the number of values of each row, and all values.
    """
    import tensorflow as tf

    inputs = [
        (tf.TensorSpec([None], _dtype(type_)), tf.TensorSpec([None], tf.int64)) for type_ in types
    ]

    @tf.function(input_signature=inputs, autograph=False)
    def graph(*pairs: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        features = tuple(
            tf.RaggedTensor.from_row_lengths(flat, lengths, validate=False)
            for flat, lengths in pairs
        )
        for encoding in fitted:
            features = (encoding.to_tensorflow(*features),)
        return features[0].row_lengths(), features[0].flat_values

    traced = graph.get_concrete_function()

    def run(*arrays: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
        tensors = []
        for array, (flat, _) in zip(arrays, inputs, strict=True):
            lengths, values = parsed(array)
            dtype = object if flat.dtype == tf.string else flat.dtype.as_numpy_dtype
            tensors += [
                tf.constant(np.array(values, dtype), flat.dtype),
                tf.constant(lengths, tf.int64),
            ]
        lengths, values = traced(*tensors)
        return lengths.numpy(), values.numpy()

    return run


def _dtype(type_: pa.DataType) -> Any:
    import tensorflow as tf

    value_type = type_.value_type if pa.types.is_list(type_) else type_
    return {"int64": tf.int64, "float": tf.float32, "double": tf.float64}.get(
        str(value_type), tf.string
    )


def parsed(array: pa.Array) -> tuple[list[int], list[Any]]:
    """Returns a feature in the form of an example parser's output.

    This is the number of values of each row, 0 where it is null, and all values.
    """
    rows = [
        [] if row is None else row if isinstance(row, list) else [row] for row in array.to_pylist()
    ]
    return [len(row) for row in rows], [value for row in rows for value in row]
