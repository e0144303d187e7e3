"""ONNX models give what arrays give, by onnxruntime.

The examples are those of test_equal_serving.py, of every kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from beam_pipelines.core.arrow.binary_arrays import is_valid
from beam_pipelines.encodings import Feature
from beam_pipelines_plugins.onnx.faces import to_onnx
from beam_pipelines_plugins.onnx.onnx_graph import Builder, InexpressibleError, OnnxColumn
from tests.encodings.test_equal_serving import (
    EXAMPLES,
    Example,
    assert_same,
    batches,
    item_type,
    training_arrays,
)
from tests.support.encoding_chains import apply_chain, fit_chain

DTYPES = {
    pa.int64(): "int64",
    pa.float32(): "float32",
    pa.float64(): "float64",
    pa.string(): "str",
}
# ONNX has no bytes, and no lists of several lengths.
TRIED = [
    *(example for example in EXAMPLES if all(type_ in DTYPES for type_ in example.types)),
    Example("vocabulary, one id for others", [{"vocabulary": {"num_oov": 1}}], (pa.string(),)),
    Example(
        "vocabulary of integers, one id for others", [{"vocabulary": {"num_oov": 1}}], (pa.int64(),)
    ),
    Example("boundaries of integers", [{"boundaries": [0, 2**53 - 1]}], (pa.int64(),)),
]
# Why some are not expressible, by a part of their names.
INEXPRESSIBLE = {
    "tokenize": "any number of texts",
    "hash_bucket": "to hash it",
    "text to integers": "does not parse texts",
    "text to floats": "does not parse texts",
    "cast, fill, quantile_normal": "does not parse texts",
    "as bytes": "makes bytes of numbers",
    "vocabulary of integers": "num_oov is 2",
    "vocabulary, one_hot": "num_oov is 2",
}
SILENT = onnxruntime.SessionOptions()
SILENT.log_severity_level = 4


def session(fitted: list[Any], features: list[Feature]) -> tuple[Any, bool]:
    """Returns a chain's session, and whether its output may be null."""
    builder = Builder()
    columns = tuple(
        OnnxColumn(
            builder.input(f"x{number}", DTYPES[feature.type], []),
            builder.input(f"p{number}", "bool", []),
            feature,
        )
        for number, feature in enumerate(features)
    )
    for encoding in fitted:
        feature = encoding.output(*(column.feature for column in columns))
        values = to_onnx(encoding, *columns)
        is_present = None if feature.required else columns[0].is_present
        columns = (OnnxColumn(values, is_present, feature).with_values(values),)
    (column,) = columns
    builder.output("y", column.values, [column.feature.length] if column.feature.is_list else [])
    if column.is_present is not None:
        builder.output("present", column.is_present, [])
    model = builder.model("chain", "")
    return onnxruntime.InferenceSession(model.SerializeToString(), SILENT), (
        column.is_present is not None
    )


def fed(arrays: list[pa.Array], names: set[str]) -> dict[str, Any]:
    """Returns the inputs of a session."""
    fills = {pa.int64(): 0, pa.float32(): 0.0, pa.float64(): 0.0, pa.string(): ""}
    feeds: dict[str, Any] = {}
    for number, array in enumerate(arrays):
        values = array.fill_null(fills[array.type]).to_numpy(zero_copy_only=False)
        feeds |= {f"x{number}": values, f"p{number}": is_valid(array)}
    return {name: values for name, values in feeds.items() if name in names}


@pytest.mark.parametrize("example", TRIED, ids=[example.name for example in TRIED])
def test_arrays_and_onnx_give_the_same(example: Example) -> None:
    """Integers and texts are equal, floats within one last place."""
    features = [Feature(type_, unit=example.unit) for type_ in example.types]
    fitted, feature = fit_chain(
        example.chain, features, training_arrays(example), part=example.part
    )
    reasons = [
        reason
        for part, reason in INEXPRESSIBLE.items()
        if part in example.name and "one id" not in example.name
    ]
    if reasons:
        with pytest.raises(InexpressibleError, match=reasons[0]):
            session(fitted, features)
        return
    run, is_nullable = session(fitted, features)
    names = {item.name for item in run.get_inputs()}

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(batches(example))
    def check(arrays: list[pa.Array]) -> None:
        try:
            expected = apply_chain(fitted, *arrays)
        except pa.ArrowInvalid:
            with pytest.raises(Exception, match="Name:"):
                run.run(None, fed(arrays, names))
            return
        found = dict(
            zip(
                [item.name for item in run.get_outputs()],
                run.run(None, fed(arrays, names)),
                strict=True,
            )
        )
        present = found["present"] if is_nullable else np.ones(len(expected), bool)
        assert present.tolist() == is_valid(expected).tolist()
        assert len(found["y"]) == len(expected)
        flat = expected.flatten() if feature.is_list else expected.drop_null()
        got = found["y"][present].reshape(-1)
        if got.dtype == object:
            got = np.array([text.encode() for text in got], object)
        assert_same(got, flat.to_pylist(), feature.type)
        assert item_type(expected.type) == item_type(feature.type)

    check()
