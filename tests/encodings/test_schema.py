"""encodings/schema.py combines the raw schema with the outputs of encodings."""

from __future__ import annotations

import pyarrow as pa
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.encodings import Feature
from beam_pipelines.encodings.kinds.ids import FittedVocabulary
from beam_pipelines.encodings.kinds.numbers import FittedZScore
from beam_pipelines.encodings.plan import with_fitted
from beam_pipelines.encodings.planner import plan_encode
from beam_pipelines.encodings.schema import encoded_schema, raw_features
from beam_pipelines.pipeline.planning.recipes import parse_recipe

COLUMNS = pa.schema(
    [("a", pa.int64()), ("b", pa.float64()), ("t", pa.string()), ("pair", pa.list_(pa.float32()))]
)
RAW = """
feature { name: "a" type: INT presence { min_fraction: 1.0 min_count: 1 } shape { dim { size: 1 } } int_domain { min: 0 max: 6 } }
feature { name: "b" type: FLOAT presence { min_count: 1 } value_count { min: 1 max: 1 } }
feature { name: "t" type: BYTES presence { min_fraction: 1.0 min_count: 1 } shape { dim { size: 1 } } domain: "t" }
feature { name: "pair" type: FLOAT presence { min_fraction: 1.0 min_count: 1 } shape { dim { size: 2 } } }
string_domain { name: "t" value: "x" value: "y" }
"""


def raw() -> schema_pb2.Schema:
    """Returns the raw schema."""
    return text_format.Parse(RAW, schema_pb2.Schema())


def encoded(
    encode: str, fitted: dict[tuple[int, int], tuple[str, object]] | None = None
) -> dict[str, schema_pb2.Feature]:
    """Returns the encoded features of a recipe's ``encode``."""
    recipe = parse_recipe(f"name: x\nsources: {{rows: rows.csv}}\nencode:\n{encode}", "recipe.yaml")
    plan = with_fitted(plan_encode(recipe, COLUMNS), fitted or {})  # type: ignore[arg-type]
    return {feature.name: feature for feature in encoded_schema(raw(), plan).feature}


def test_what_a_schema_says_of_columns() -> None:
    """The schema has the features' density, length and domain.

    Dense features are required, lists of one length have it, and a domain from 0 is a size.
    """
    assert raw_features(raw(), COLUMNS) == {
        "a": Feature(pa.int64(), required=True, size=7),
        "b": Feature(pa.float64()),
        "t": Feature(pa.string(), required=True),
        "pair": Feature(pa.list_(pa.float32()), required=True, length=2),
    }


def test_untouched_columns_stay_and_changed_ones_say_what_they_are() -> None:
    """A z-score of a nullable column stays sparse.

    A vocabulary's ids have their domain, and the domain of the text is dropped.
    """
    tokens = pa.array([b"x", b"y", b"z"], pa.binary())
    features = encoded(
        "  b: z_score\n  t: vocabulary\n",
        {
            (0, 0): ("z_score", FittedZScore(0.0, 1.0)),
            (1, 0): ("vocabulary", FittedVocabulary(tokens, 0)),
        },
    )
    assert features["a"] == raw().feature[0]
    assert features["pair"] == raw().feature[3]
    assert not features["b"].HasField("shape")
    assert features["b"].type == schema_pb2.FLOAT
    assert features["t"].type == schema_pb2.INT
    assert features["t"].shape.dim[0].size == 1
    assert (features["t"].int_domain.min, features["t"].int_domain.max) == (-1, 2)
    assert features["t"].int_domain.is_categorical
    assert not features["t"].HasField("domain")


def test_vectors_are_dense() -> None:
    """A vector has its length, and what it consumed is gone."""
    features = encoded(
        "  v: {vector: {columns: [a, pair], lengths: {pair: 2}}}\n  o: [{column: a}, {one_hot: "
        "7}]\n"
    )
    assert list(features) == ["b", "t", "v", "o"]
    assert features["v"].shape.dim[0].size == 3
    assert features["o"].shape.dim[0].size == 7
