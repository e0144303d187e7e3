"""Every encoding gives equal examples in shards and serving graph.

Each encoding has two faces: ``apply``, which encodes Arrow arrays for the shards, and
``to_tensorflow``, which builds the same for the serving graph. For every row below, and for any
batch, both give the same rows of values: integers and bytes bit for bit, floats within one unit in
the last place of float32 (numbers too small for a normal float32, below 1.2e-38, count as 0, as in
TensorFlow's kernels). Where one face refuses a value, the other does.
"""

from __future__ import annotations

import functools
import pathlib
import re
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beam_pipelines.encodings import ENCODING_FOR_KIND, Feature, Fitted
from beam_pipelines.transforms.encode import load_encodings, save_encodings
from tests.support.encoding_chains import Step, apply_chain, declared, fit_chain, graph_of, parsed

pytestmark = pytest.mark.end_to_end

INT, FLOAT, TEXT, BYTES = pa.int64(), pa.float32(), pa.string(), pa.binary()
INTS, FLOATS, TEXTS, BYTES_LISTS = pa.list_(INT), pa.list_(FLOAT), pa.list_(TEXT), pa.list_(BYTES)
DOUBLE, DOUBLES = pa.float64(), pa.list_(pa.float64())

# Values of each type: usual and extreme ones.
EDGES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    INT: st.one_of(
        st.integers(-5, 30),
        st.sampled_from([-(2**63), 2**63 - 1, 2**53 + 1, 2**24 + 1, 0]),
        st.integers(-(2**63), 2**63 - 1),
    ),
    FLOAT: st.one_of(
        st.sampled_from(
            [
                float("nan"),
                float("inf"),
                float("-inf"),
                -0.0,
                0.0,
                1e-40,
                3.4028235e38,
                0.5,
                1.0,
                -1.0,
                2.0,
            ]
        ),
        st.floats(-10, 30, width=32),
        st.floats(width=32),
    ),
    DOUBLE: st.one_of(
        st.sampled_from([float("nan"), float("inf"), -0.0, 1e-310, 1e-40, 0.7, 2.5, 3.4028236e38]),
        st.sampled_from([1700000000.25, 1700000000.5, 17031000001.0, 17031000002.0, 2.0**53]),
        st.floats(-10, 30),
        st.floats(1699999990, 1700000010),
        st.floats(),
    ),
    TEXT: st.one_of(
        st.sampled_from(
            ["", "a", "b", "\ufeff\x00\uffff", "A b", "new\nline", "0", "-7", "1e3", "nan"]
        ),
        st.text(st.characters(codec="utf-8"), max_size=8),
    ),
    BYTES: st.one_of(
        st.sampled_from([b"", b"a", b"b", b"\xff\xfe", b"\x00", "é".encode()]),
        st.binary(max_size=8),
    ),
}
# Values to fit to, besides nulls.
TRAINING: dict[pa.DataType, list[Any]] = {
    DOUBLE: [1700000000.25, 1700000000.5, 1699999999.9, 1700000003.0, 0.7, 1700000000.25, 0.1],
    INT: [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, -8, 20, 7, 0],
    FLOAT: [
        0.5,
        0.1,
        2.25,
        -1.5,
        7.0,
        0.0,
        0.5,
        0.5,
        30.0,
        3.0,
        1.0,
        float("nan"),
        12.5,
        float("inf"),
    ],
    TEXT: ["a", "b", "a", "A b", "", "zebra", "a b c", "é", "b", "a", "-7", "b c"],
    BYTES: [b"a", b"b", b"a", b"\xff\xfe", b"", b"zebra", b"\x00", b"b", b"a"],
}

WORDS = st.lists(
    st.sampled_from([*"abBÉéΣßİ ,\t\n\x0b\x1f\u00a0\u2003\x00", "zebra", "  "])
    | st.characters(codec="utf-8"),
    max_size=12,
).map("".join)


class Example(NamedTuple):
    """A chain to hold to the promise.

    Attributes:
      name: of the test.
      chain: the steps, as a recipe has them.
      types: of the features it begins with, one unless the first step takes several.
      values: strategies of one value of each, where not any value of the type will do.
      training: values to fit on, in the place of ``TRAINING``'s and a null; of lists whole rows
        will do, too.
      rows: strategies of the content of a row that is not null, instead of ``values``.
      unit: of dates and timestamps.
      part: suffix of the feature to look at, where a step makes several.
    """

    name: str
    chain: Sequence[Step]
    types: tuple[pa.DataType, ...]
    values: tuple[st.SearchStrategy[Any], ...] | None = None
    training: tuple[list[Any], ...] | None = None
    unit: str = ""
    part: str = ""
    rows: tuple[st.SearchStrategy[Any], ...] | None = None


DAYS = st.integers(-(2**31), 2**31 - 1) | st.integers(-800_000, 100_000)
MICROSECONDS = st.integers(-(2**63), 2**63 - 1) | st.integers(-(10**15), 2 * 10**15)
SMALL_IDS = st.integers(-2, 9)
LISTS_OF_3 = (
    st.lists(st.floats(width=32), min_size=3, max_size=3)
    | st.just([1.5, float("nan"), -0.0])
    | st.just([1.0])
)

EXAMPLES: list[Example] = [
    # Numbers.
    Example("z_score of floats", ["z_score"], (FLOAT,)),
    Example("z_score of integers", ["z_score"], (INT,)),
    Example("z_score of lists", ["z_score"], (FLOATS,)),
    Example("min_max of floats", ["min_max"], (FLOAT,)),
    Example("min_max to a range, of lists of integers", [{"min_max": [-1, 1]}], (INTS,)),
    Example("log1p of floats", ["log1p"], (FLOAT,)),
    Example("log1p of lists of integers", ["log1p"], (INTS,)),
    Example("clip of floats", [{"clip": [-1, 2.5]}], (FLOAT,)),
    Example("clip of integers, above", [{"clip": [None, 7]}], (INT,)),
    Example("clip of lists, below", [{"clip": [0, None]}], (FLOATS,)),
    Example("quantile_normal of floats", ["quantile_normal"], (FLOAT,)),
    Example("quantile_normal of few quantiles, of integers", [{"quantile_normal": 4}], (INT,)),
    Example("quantile_normal of lists", [{"quantile_normal": 10}], (FLOATS,)),
    Example("bucketize of floats", [{"bucketize": 4}], (FLOAT,)),
    Example("bucketize of integers", [{"bucketize": 100}], (INT,)),
    Example("bucketize of lists", [{"bucketize": 3}], (INTS,)),
    Example("boundaries of floats", [{"boundaries": [-1, 0, 0.7]}], (FLOAT,)),
    Example("boundaries of lists of integers", [{"boundaries": [0, 2**53 - 1]}], (INTS,)),
    # Nulls.
    Example("fill floats with a value", [{"fill": 0.1}], (FLOAT,)),
    Example("fill integers with a value", [{"fill": -(2**63)}], (INT,)),
    Example("fill text with a value", [{"fill": "é"}], (TEXT,)),
    Example("fill bytes with a value", [{"fill": "é"}], (BYTES,)),
    Example("fill floats with the mean", [{"fill": "mean"}], (FLOAT,)),
    Example("fill integers with the mean", [{"fill": "mean"}], (INT,)),
    Example("fill floats with the median", [{"fill": "median"}], (FLOAT,)),
    Example("fill integers with the median", [{"fill": "median"}], (INT,)),
    Example("fill with the most frequent float", [{"fill": "most_frequent"}], (FLOAT,)),
    Example("fill with the most frequent integer", [{"fill": "most_frequent"}], (INT,)),
    Example("fill with the most frequent text", [{"fill": "most_frequent"}], (TEXT,)),
    Example("fill with the most frequent bytes", [{"fill": "most_frequent"}], (BYTES,)),
    Example("what was missing of floats", [{"fill": {"value": 0, "missing": True}}], (FLOAT,), part="_missing"),
    Example("what was missing of integers", [{"fill": {"value": "mean", "missing": True}}], (INT,), part="_missing"),
    Example("what was missing of text", [{"fill": {"value": "", "missing": True}}], (TEXT,), part="_missing"),
    # Types.
    Example("cast floats to integers", [{"cast": "int64"}], (FLOAT,), training=([1.0],)),
    Example("cast whole floats to small integers", [{"cast": "int8"}], (FLOAT,), (st.integers(-130, 130).map(float),), ([1.0],)),
    Example("cast integers to floats", [{"cast": "float32"}], (INT,)),
    Example("cast integers to unsigned ones", [{"cast": "uint32"}], (INTS,), training=([1],)),
    Example("cast integers to bool", [{"cast": "bool"}], (INT,)),
    Example("cast floats to bool", [{"cast": "bool"}], (FLOATS,)),
    Example("cast integers to text", [{"cast": "text"}], (INT,)),
    Example("cast text to bytes", [{"cast": "bytes"}], (TEXT,)),
    Example("cast bytes to text", [{"cast": "text"}], (BYTES,), training=([b"a"],)),
    Example("cast text to bytes and back", [{"cast": "bytes"}, {"cast": "text"}], (TEXTS,)),
    Example("cast any text to integers", [{"cast": "int64"}], (TEXT,), training=(["1"],)),
    Example("cast integers as text", [{"cast": "int64"}], (TEXTS,), (st.integers(-(2**63) - 1, 2**63).map(str),), (["1"],)),
    Example("cast any text to floats", [{"cast": "float32"}], (TEXT,), training=(["1"],)),
    Example(
        "cast numbers as text to floats",
        [{"cast": "float32"}],
        (TEXT,),
        (st.from_regex(r"\A[+-]?([0-9]{1,25}\.?[0-9]{0,9}|\.[0-9]{1,9})([eE][+-]?[0-9]{1,3})?\Z"),),
        (["1"],),
    ),
    # Vectors.
    Example("one_hot of given size", [{"one_hot": 7}], (INT,)),
    Example("one_hot of buckets", [{"bucketize": 4}, "one_hot"], (FLOAT,)),
    Example("multi_hot of given size", [{"multi_hot": 7}], (INTS,), (SMALL_IDS,)),
    Example("one_hot of lists", [{"one_hot": 7}], (INTS,), (SMALL_IDS,)),
    Example("multi_hot of one id", [{"multi_hot": 7}], (INT,)),
    Example("multi_hot of any integers", [{"multi_hot": 3}], (INTS,)),
    Example("multi_hot of buckets", [{"boundaries": [0, 1]}, "multi_hot"], (FLOATS,)),
    Example("cyclic of integers", [{"cyclic": 24}], (INT,), (st.integers(-100, 100),)),
    Example("cyclic of any integers", [{"cyclic": {"period": 7, "offset": 1}}], (INT,)),
    Example("cyclic of floats", [{"cyclic": {"period": 0.5}}], (FLOAT,)),
    Example("vector of floats and integers", [{"vector": ["a", "b"]}], (FLOAT, INT), training=([0.5], [1])),
    Example("vector of integers", [{"vector": {"columns": ["a", "b", "c"]}}], (INT, INT, INT), training=([1], [2], [3])),
    Example(
        "vector with a list",
        [{"vector": {"columns": ["a", "b"], "lengths": {"b": 3}}}],
        (INT, FLOATS),
        rows=(st.integers(-5, 5), LISTS_OF_3),
        training=([1, 2], [[1, 2, 3], [4, 5, 6]]),
    ),
    Example(
        "vector as bytes",
        [{"vector": {"columns": ["a", "b"], "lengths": {"b": 3}, "as": "bytes"}}],
        (INT, FLOATS),
        rows=(st.integers(-5, 5), LISTS_OF_3),
        training=([1, 2], [[1, 2, 3], [4, 5, 6]]),
    ),
    Example("vector of integers as bytes", [{"vector": {"columns": ["a", "b"], "as": "bytes"}}], (INT, INT), training=([1], [2])),
    # Dates.
    *(
        Example(f"{part} of dates", [{"date_parts": part}], (INT,), (DAYS,), unit="days")
        for part in ("year", "quarter", "month", "week", "day_of_year", "day", "weekday")
    ),
    *(
        Example(f"{part} of timestamps", [{"date_parts": part}], (INT,), (MICROSECONDS,), unit="microseconds")
        for part in ("year", "week", "day_of_year", "weekday", "hour", "minute", "second")
    ),
    Example("day, of several parts, of lists", [{"date_parts": ["day", "hour"]}], (INTS,), (MICROSECONDS,), None, "microseconds", "_day"),
    # Categories.
    Example("vocabulary of text", ["vocabulary"], (TEXT,)),
    Example("vocabulary of bytes", [{"vocabulary": {"num_oov": 3}}], (BYTES,)),
    Example("vocabulary of integers", [{"vocabulary": {"top_k": 4, "num_oov": 2}}], (INT,)),
    Example("vocabulary of lists", [{"vocabulary": {"min_count": 2, "reserved": ["?", "b"], "num_oov": 1}}], (TEXTS,)),
    Example("vocabulary of lists of integers", [{"vocabulary": {"reserved": ["?"]}}], (INTS,)),
    Example("vocabulary, one_hot", [{"vocabulary": {"num_oov": 2}}, "one_hot"], (TEXT,)),
    Example("vocabulary without others, one_hot", ["vocabulary", "one_hot"], (TEXT,)),
    Example("hash_bucket of text", [{"hash_bucket": 1000003}], (TEXT,)),
    Example("hash_bucket of bytes", [{"hash_bucket": 7}], (BYTES_LISTS,)),
    Example("hash_bucket of integers", [{"hash_bucket": 2**63 - 1}], (INT,)),
    Example("cross of text, integers and bytes", [{"cross": {"columns": ["a", "b", "c"], "buckets": 10**9}}], (TEXT, INT, BYTES)),
    # Text.
    Example("tokenize at white space", ["tokenize"], (TEXT,), (WORDS,)),
    Example("tokenize at any character", [{"tokenize": {"split": "[^a-zé]", "lower": True}}], (TEXT,), (WORDS,)),
    Example("tokenize at expressions that may be empty", [{"tokenize": {"split": "b*"}}], (TEXT,), (WORDS,)),
    Example("tokenize lists", ["tokenize"], (TEXTS,), (WORDS,)),
    Example("tokenize any text in lower case", [{"tokenize": {"lower": True}}], (TEXT,)),
    Example("tokenize, vocabulary", ["tokenize", {"vocabulary": {"num_oov": 5}}], (TEXT,), (WORDS,)),
    Example("tokenize, hash_bucket", ["tokenize", {"hash_bucket": 99}], (TEXT,), (WORDS,)),
    Example("tokenize, bag_of_words", ["tokenize", {"bag_of_words": 3}], (TEXT,), (WORDS,)),
    Example("bag_of_words of integers", [{"bag_of_words": {"top_k": 100, "min_count": 2}}], (INTS,)),
    Example("bag_of_words of bytes", [{"bag_of_words": 4}], (BYTES,)),
    # Chains.
    Example("fill, log1p, z_score", [{"fill": 0}, "log1p", "z_score"], (FLOAT,)),
    Example("fill the mean, clip, min_max", [{"fill": "mean"}, {"clip": [0, 20]}, "min_max"], (INT,)),
    Example("clip, bucketize, one_hot", [{"clip": [-1, 9]}, {"bucketize": 5}, "one_hot"], (FLOAT,)),
    Example("cast, fill, quantile_normal, boundaries", [
        {"cast": "float32"}, {"fill": "median"}, "quantile_normal", {"boundaries": [-1, 0, 1]}],
        (TEXT,), training=(["1", "2", "9", None],)),
    Example("month on a circle", [{"date_parts": "month"}, {"cyclic": {"period": 12, "offset": 1}}], (INT,), (DAYS,), unit="days"),
    Example("hour as a vector", [{"date_parts": "hour"}, "one_hot"], (INT,), (MICROSECONDS,), unit="microseconds"),
    Example("most frequent id, one_hot", [{"boundaries": [0, 1]}, {"fill": "most_frequent"}, "one_hot"], (FLOAT,)),
]  # fmt: skip
# Each chain that takes floats takes float64 as well.
_WIDE = {FLOAT: DOUBLE, FLOATS: DOUBLES}
EXAMPLES += [
    example._replace(
        name=f"{example.name}, float64",
        types=tuple(_WIDE.get(type_, type_) for type_ in example.types),
    )
    for example in EXAMPLES
    if any(type_ in _WIDE for type_ in example.types)
]


def item_type(type_: pa.DataType) -> pa.DataType:
    """Type of one value."""
    return type_.value_type if pa.types.is_list(type_) else type_


def training_arrays(example: Example) -> list[pa.Array]:
    """Returns as many rows of each feature.

    They have values of the table, one or two a row in lists, and a null.
    """
    given_values = example.training or tuple(TRAINING[item_type(type_)] for type_ in example.types)
    rows = [
        [values[index : index + 1 + index % 2] for index in range(len(values))]
        if pa.types.is_list(type_) and not isinstance(values[0], list)
        else values
        for type_, values in zip(example.types, given_values, strict=True)
    ]
    length = min(len(column) for column in rows)
    return [
        pa.array([*column[:length], *([None] if example.training is None else [])], type_)
        for column, type_ in zip(rows, example.types, strict=True)
    ]


def stored(step: Step, encoding: Fitted) -> Fitted:
    """Returns a fitted encoding in the form in which workers get it.

    It is stored and loaded, if it has an analyzer.
    """
    if declared(step).analyzer is None:
        return encoding
    kind = step if isinstance(step, str) else next(iter(step))
    with tempfile.TemporaryDirectory() as folder:
        return load_encodings(save_encodings(folder, {(0, 0): (kind, encoding)}))[0, 0][1]


@functools.cache
def both_faces(index: int) -> tuple[Callable[..., pa.Array], Callable[..., Any], pa.DataType]:
    """Returns an example's fitted Arrow face, traced graph and output type."""
    example = EXAMPLES[index]
    features = [Feature(type_, unit=example.unit) for type_ in example.types]
    fitted, feature = fit_chain(
        example.chain, features, training_arrays(example), part=example.part
    )
    fitted = [stored(step, encoding) for step, encoding in zip(example.chain, fitted, strict=False)]
    return functools.partial(apply_chain, fitted), graph_of(fitted, example.types), feature.type


@st.composite
def batches(draw: st.DrawFn, example: Example) -> list[pa.Array]:
    """Draws arrays of as many rows.

    They have nulls, empty lists, and now and then an offset.
    """
    number, skipped = draw(st.integers(0, 8)), draw(st.integers(0, 1))
    values = example.values or tuple(EDGES[item_type(type_)] for type_ in example.types)
    lists = [
        st.lists(value, max_size=4) if pa.types.is_list(type_) else value
        for type_, value in zip(example.types, values, strict=True)
    ]
    arrays = []
    for type_, row in zip(example.types, example.rows or lists, strict=True):
        rows = draw(
            st.lists(st.none() | row | row, min_size=number + skipped, max_size=number + skipped)
        )
        arrays.append(pa.array(rows, type_).slice(skipped))
    return arrays


def assert_same(got: npt.NDArray[Any], expected: list[Any], type_: pa.DataType) -> None:
    """Compares values: of float32 up to one unit in the last place."""
    if not pa.types.is_floating(item_type(type_)):
        assert got.tolist() == [
            value.encode() if isinstance(value, str) else value for value in expected
        ]
        return
    if pa.types.is_float64(item_type(type_)):  # filled or clipped, not computed
        # TensorFlow's kernels may take subnormal numbers for zero.
        subnormal = np.finfo(np.float64).tiny
        np.testing.assert_allclose(got, np.array(expected, np.float64), rtol=0, atol=subnormal)
        return
    wanted = np.array(expected, np.float32)
    with np.errstate(all="ignore"):
        last_place = np.maximum(np.spacing(np.abs(wanted)), np.finfo(np.float32).tiny)
        is_close = np.abs(got.astype(np.float64) - wanted) <= last_place
    assert (is_close | (got == wanted) | (np.isnan(got) & np.isnan(wanted))).all(), (got, wanted)


@pytest.mark.parametrize("index", range(len(EXAMPLES)), ids=[example.name for example in EXAMPLES])
def test_pipeline_and_serving_graph_give_the_same(index: int) -> None:
    """Shards and serving graph have equal examples, or both refuse the batch."""
    import tensorflow as tf

    apply, graph, type_ = both_faces(index)

    @settings(max_examples=40, suppress_health_check=list(HealthCheck))
    @given(batches(EXAMPLES[index]))
    def check(arrays: list[pa.Array]) -> None:
        try:
            expected = apply(*arrays)
        except pa.ArrowInvalid:
            with pytest.raises(tf.errors.InvalidArgumentError):
                graph(*arrays)
            return
        assert expected.type == type_
        assert len(expected) == len(arrays[0])
        lengths, values = parsed(expected)
        graph_lengths, graph_values = graph(*arrays)
        assert graph_lengths.tolist() == lengths
        assert_same(graph_values, values, type_)

    check()


def test_every_kind_is_held_to_the_promise() -> None:
    """Each kind of the registry is in one of the examples.

    The exceptions are the two that encode nothing.
    """
    tried = {
        step if isinstance(step, str) else next(iter(step))
        for example in EXAMPLES
        for step in example.chain
    }
    assert set(ENCODING_FOR_KIND) - tried == {"drop", "column"} & set(ENCODING_FOR_KIND)


def test_every_kind_is_documented() -> None:
    """The two pages have each kind in a table and a section."""
    docs = pathlib.Path(__file__).parents[2] / "docs"
    text = "".join((docs / name).read_text() for name in ("encodings.md", "categories.md"))
    sections = {
        word for line in text.splitlines() if line.startswith("### ") for word in line.split()[1:]
    }
    for kind in ENCODING_FOR_KIND:
        assert re.search(rf"\[`{kind}`\]\((?:categories\.md)?#", text)
        assert kind in sections
