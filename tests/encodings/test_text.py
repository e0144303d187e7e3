"""Encodings of categories and texts equal their documentation and TensorFlow.

Expected values are also computed in plain Python. ``test_equal_serving.py`` compares both faces of
each; here is the value itself.
"""

from __future__ import annotations

import collections
import os
import re
import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core import _native
from beam_pipelines.encodings import ENCODING_FOR_KIND, Feature, tokens, vocabulary_asset
from beam_pipelines.encodings.kinds.ids import FittedVocabulary
from beam_pipelines.encodings.kinds.tokenize import lower, tensor_lower
from beam_pipelines.encodings.tokens import find_tokens
from beam_pipelines.transforms import encode
from tests.support.encoding_chains import Step, declared, fit_chain
from tests.support.kernels import without_kernels

TEXT, BYTES, INT = pa.string(), pa.binary(), pa.int64()
TEXTS = pa.list_(TEXT)


def fitted(
    step: Step, values: Sequence[Any], type_: pa.DataType = TEXT, **given_values: Any
) -> Any:
    """The encoding fitted on values, which come in two batches."""
    array = pa.array(values, type_)
    return fit_chain([step], [Feature(type_)], [array], **given_values)[0][0]


def ids(
    step: Step, training: Sequence[Any], values: Sequence[Any], type_: pa.DataType = TEXT
) -> list[Any]:
    """Values encoded by the encoding fitted to ``training``."""
    result: list[Any] = fitted(step, training, type_).apply(pa.array(values, type_)).to_pylist()
    return result


# --- fingerprints and hash buckets ---


def tensorflow_buckets(values: Sequence[bytes], buckets: int) -> list[int]:
    """``tf.strings.to_hash_bucket_fast``."""
    import tensorflow as tf

    tensor = tf.constant(np.array([*values, b"end"], object), tf.string)
    result: list[int] = tf.strings.to_hash_bucket_fast(tensor, buckets).numpy()[:-1].tolist()
    return result


@pytest.mark.parametrize(
    ("text", "fingerprint"),
    [("", 0x9AE16A3B2F90404F), ("a", 12917804110809363939), ("hello", 13009744463427800296)],
)
def test_fingerprints_never_change(text: str, fingerprint: int) -> None:
    """Fingerprints are FarmHash's for every version of the library."""
    assert _native.fingerprints(pa.array([text])).tolist() == [fingerprint]


def test_fingerprints_of_every_length() -> None:
    """Texts of any length have TensorFlow's fingerprint.

    They have 0 to 300 bytes and more, and are alone or together.
    """
    random = np.random.default_rng(1)
    values = [random.bytes(length) for length in [*range(301), 1000, 4096, 65537] for _ in range(3)]
    random.shuffle(values)
    largest = 2**63 - 1
    expected = tensorflow_buckets(values, largest)
    assert (_native.fingerprints(pa.array(values, BYTES)) % np.uint64(largest)).tolist() == expected
    assert [
        int(_native.fingerprints(pa.array([value], BYTES))[0]) % largest for value in values
    ] == expected


@given(
    st.lists(st.none() | st.binary(max_size=80), max_size=20),
    st.integers(0, 5),
    st.integers(1, 2**63 - 1),
)
def test_hash_buckets_are_those_of_tensorflow(
    values: list[bytes | None], skipped: int, buckets: int
) -> None:
    """Buckets of any bytes are ``tf.strings.to_hash_bucket_fast``'s; null stays null."""
    encoding = ENCODING_FOR_KIND["hash_bucket"].of({"value": buckets})
    got = encoding.apply(pa.array(values, BYTES).slice(skipped)).to_pylist()  # type: ignore[attr-defined]
    assert [value is None for value in got] == [value is None for value in values[skipped:]]
    filled = [value for value in values[skipped:] if value is not None]
    assert [value for value in got if value is not None] == tensorflow_buckets(filled, buckets)


def test_hash_buckets_of_integers_are_those_of_their_decimal_text() -> None:
    """-7 and "-7" have one bucket."""
    numbers = [-7, 0, 2**63 - 1, -(2**63), None]
    as_text = [None if number is None else str(number) for number in numbers]
    assert ids({"hash_bucket": 997}, [], numbers, INT) == ids({"hash_bucket": 997}, [], as_text)


@given(
    st.lists(
        st.tuples(st.none() | st.text(max_size=5), st.none() | st.integers(-(2**63), 2**63 - 1)),
        max_size=8,
    )
)
def test_cross_hashes_the_joined_texts(rows: list[tuple[str | None, int | None]]) -> None:
    """Crossed parts are joined by ``_X_`` and hashed.

    Null is the empty text, so all rows have ids.
    """
    cross = ENCODING_FOR_KIND["cross"].of({"columns": ["a", "b"], "buckets": 10**6})
    arrays = pa.array([a for a, _ in rows], TEXT), pa.array([b for _, b in rows], INT)
    joined = [f"{a or ''}_X_{'' if b is None else b}".encode() for a, b in rows]
    assert cross.apply(*arrays).to_pylist() == tensorflow_buckets(joined, 10**6)  # type: ignore[attr-defined]


# --- vocabularies ---

WORDS = ["b", "a", "b", None, "c", "a", "b", "", "two\nlines", "two\rlines", "d"]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("vocabulary", [b"b", b"a", b"d", b"c"]),
        ({"vocabulary": 2}, [b"b", b"a"]),
        ({"vocabulary": 100}, [b"b", b"a", b"d", b"c"]),
        ({"vocabulary": {"min_count": 2}}, [b"b", b"a"]),
        ({"vocabulary": {"reserved": ["?", "a"]}}, [b"?", b"a", b"b", b"d", b"c"]),
        ({"vocabulary": {"reserved": ["b"], "top_k": 1}}, [b"b", b"a"]),
    ],
)
def test_a_vocabulary_is_ordered_by_count_then_by_bytes(step: Step, expected: list[bytes]) -> None:
    """Tokens descend by count and bytes, after reserved ones, which ``top_k`` ignores.

    A file cannot hold the other texts.
    """
    assert fitted(step, WORDS).tokens.to_pylist() == expected


@pytest.mark.parametrize(
    ("type_", "training", "values", "expected"),
    [
        (TEXT, ["a", "b", "b"], ["a", "b", None, "c", ""], [1, 0, None, -1, -1]),
        (BYTES, [b"\xff", b"a", b"a"], [b"\xff", b"a", None, b"\xfe"], [1, 0, None, -1]),
        (INT, [9, 10, -5, -5], [-5, 9, 10, 11, None], [0, 1, 2, -1, None]),
        (TEXTS, [["a", "b"], None, [], ["b"]], [["b", "x", "a"], [], None], [[0, -1, 1], [], None]),
    ],
)
def test_ids_of_each_type(
    type_: pa.DataType, training: list[Any], values: list[Any], expected: list[Any]
) -> None:
    """Each type's values have the right ids.

    Unseen values are -1, null stays null, lists stay lists. Integers tie as texts: "9" comes before
    "10".
    """
    assert ids("vocabulary", training, values, type_) == expected


@given(
    training=st.lists(st.none() | st.text("abc\n", max_size=3), max_size=30),
    values=st.lists(st.none() | st.text("abc\n", max_size=3), max_size=30),
    top_k=st.integers(1, 9),
    min_count=st.integers(0, 3),
)
def test_vocabulary_equals_plain_python(
    training: list[str | None], values: list[str | None], top_k: int, min_count: int
) -> None:
    """A vocabulary equals that of a few lines of Python.

    It counts, cuts, orders and looks up any values.
    """
    counts = collections.Counter(value for value in training if value and "\n" not in value)
    ordered = sorted(
        (value for value in counts if counts[value] >= min_count),
        key=lambda value: (counts[value], value),
    )
    expected = ordered[::-1][:top_k]
    step = {"vocabulary": {"top_k": top_k, "min_count": min_count}}
    if not expected:
        with pytest.raises(ValueError, match="no value to make a vocabulary of"):
            fitted(step, training)
        return
    encoding = fitted(step, training)
    assert encoding.tokens.to_pylist() == [value.encode() for value in expected]
    place = {value: number for number, value in enumerate(expected)}
    got = encoding.apply(pa.array(values, TEXT)).to_pylist()
    assert got == [None if value is None else place.get(value, -1) for value in values]


@given(st.lists(st.none() | st.binary(max_size=70), max_size=20), st.integers(1, 9))
def test_other_values_get_ids_as_a_static_vocabulary_table_gives_them(
    values: list[bytes | None], num_oov: int
) -> None:
    """After the vocabulary, by fingerprint: the ids of ``tf.lookup.StaticVocabularyTable``."""
    import tensorflow as tf

    known = [b"a", b"", b"\xff"]
    filled = [value for value in values if value is not None]
    got = (
        FittedVocabulary(pa.array(known, BYTES), num_oov).apply(pa.array(values, BYTES)).to_pylist()
    )
    places = tf.lookup.KeyValueTensorInitializer(known, tf.range(3, dtype=tf.int64))
    table = tf.lookup.StaticVocabularyTable(places, num_oov)
    expected = (
        table.lookup(tf.constant(np.array([*filled, b"end"], object), tf.string))
        .numpy()[:-1]
        .tolist()
    )
    assert [value for value in got if value is not None] == expected


@given(
    st.lists(st.binary(max_size=3) | st.binary(max_size=70), unique=True, max_size=90),
    st.lists(st.none() | st.binary(max_size=3) | st.binary(max_size=70), max_size=90),
    st.sampled_from([0, 1, 2, 3, 1000, 1 << 62]),
)
def test_tokens_are_found_in_a_vocabulary(
    known: list[bytes], values: list[bytes | None], num_oov: int
) -> None:
    """The index finds the places that a dictionary has."""
    vocabulary, array = pa.array(known, BYTES), pa.array(values, BYTES)
    place = {value: number for number, value in enumerate(known)}
    others = _native.fingerprints(array) % np.uint64(num_oov or 1) + np.uint64(len(known))
    expected = [
        -1 if value is None else place.get(value, int(other) if num_oov else -1)
        for value, other in zip(values, others, strict=True)
    ]
    assert find_tokens(vocabulary, array, num_oov).tolist() == expected
    with without_kernels():
        assert find_tokens(pa.array(known, BYTES), array, num_oov).tolist() == expected


def test_an_index_is_built_once_and_dies_with_its_vocabulary(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The second batch finds the index of the first.

    Without the array there is none.
    """
    vocabulary = pa.array([b"x", b"y"], BYTES)
    built = []
    build = _native.index_texts
    monkeypatch.setattr(_native, "index_texts", lambda known: built.append(1) or build(known))
    before = len(tokens._indexes)
    for _ in range(3):
        find_tokens(vocabulary, pa.array(["y"]))
    assert (len(built), len(tokens._indexes)) == (1, before + 1)
    del vocabulary
    assert len(tokens._indexes) == before


def test_size_counts_the_vocabulary_and_the_ids_of_others() -> None:
    """Ids are below ``size``."""
    encoding = fitted({"vocabulary": {"reserved": ["?"], "num_oov": 3}}, ["a", "b"])
    assert encoding.output(Feature(TEXT)).size == 6


# --- the vocabulary's file ---


@pytest.mark.parametrize(
    ("name", "file_name"),
    [
        ("carrier", "carrier"),
        ("car rier", "car-rier"),
        ("a.b/c", "a_b_c"),
        ("x--y  z", "x-y-z"),
        ("größe", "größe"),
    ],
)
def test_the_file_is_named_and_written_as_tft_does(
    tmp_path: Any, name: str, file_name: str
) -> None:
    """The file has one token a line, by id, under its ``sanitized_vocab_filename``."""
    with vocabulary_asset.named(str(tmp_path), name):
        vocabulary_asset.token_table(pa.array([b"b", b"a", b"\xff x"], BYTES))
        vocabulary_asset.token_table(pa.array([b"b", b"a", b"\xff x"], BYTES), 5)
    (path,) = tmp_path.glob("*/*")
    assert path.name == file_name
    assert path.read_bytes() == b"b\na\n\xff x\n"


def test_a_saved_graph_keeps_its_own_copy(tmp_path: Any) -> None:
    """A saved graph keeps its own copy of a vocabulary.

    It is in the assets, and answers when the first file is gone.
    """
    import tensorflow as tf

    class Module(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def ids(self, values: tf.Tensor) -> tf.Tensor:
            self.table = vocabulary_asset.token_table(pa.array([b"b", b"a"], BYTES), 1)
            return self.table.lookup(values)

    with vocabulary_asset.named(str(tmp_path / "files"), "carrier"):
        tf.saved_model.save(Module(), str(tmp_path / "model"))
    shutil.rmtree(tmp_path / "files")
    assert os.listdir(tmp_path / "model" / "assets") == ["carrier"]
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    assert loaded.ids(tf.constant(["a", "?", "b"])).numpy().tolist() == [1, 2, 0]


# --- tokens ---


@pytest.mark.parametrize(
    ("parameters", "text", "expected"),
    [
        ({}, "  to be  or\tnot\nto be ", ["to", "be", "or", "not", "to", "be"]),
        ({}, "no\u00a0break", ["no\u00a0break"]),
        ({}, "", []),
        ({}, None, []),
        ({"lower": True}, "ÉTÉ ΣΟΦΟΣ İ ẞ", ["été", "σοφοσ", "i", "ß"]),
        ({"split": ", *"}, "a, b,,c d", ["a", "b", "c d"]),
        ({"split": r"\W+"}, "it's, 2 words", ["it", "s", "2", "words"]),
        ({"split": ","}, "a\x1fb", ["a", "b"]),
    ],
)
def test_tokens_of_a_text(
    parameters: dict[str, Any], text: str | None, expected: list[str]
) -> None:
    """One text among others has the documented tokens."""
    encoding = ENCODING_FOR_KIND["tokenize"].of(parameters)
    got = encoding.apply(pa.array(["x", text, None, ""]).slice(1)).to_pylist()  # type: ignore[attr-defined]
    assert got == [expected, [], []]


@given(
    st.lists(
        st.none() | st.lists(st.text("aB \t\n,Ééß\u2003", max_size=9), max_size=4), max_size=5
    ),
    st.sampled_from([r"[ ,]", r",+", r"(a|é)", r"[\t\n]"]) | st.none(),
    st.booleans(),
)
def test_tokenize_equals_plain_python(
    rows: list[list[str] | None], split: str | None, is_lower: bool
) -> None:
    """Tokens equal those of a few lines of Python.

    Any lists of texts are split and put in lower case.
    """
    parameters = {"lower": is_lower, **({"split": split} if split else {})}
    expected = []
    for row in rows:
        words = []
        for text in row or []:
            text = text.lower() if is_lower else text  # noqa: PLW2901
            words += [
                word
                for word in re.split(re.sub(r"\(", "(?:", split or r"[ \t\n\v\f\r]"), text)
                if word
            ]
        expected.append(words)
    encoding = ENCODING_FOR_KIND["tokenize"].of(parameters)
    assert encoding.apply(pa.array(rows, TEXTS)).to_pylist() == expected  # type: ignore[attr-defined]


def test_lower_case_of_every_character() -> None:
    """Arrays, graphs and Python agree on each code point's lower case.

    The exception is İ: Python writes its lower case as two code points.
    """
    import tensorflow as tf

    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    array = lower(pa.array(characters)).to_pylist()
    tensor = tensor_lower(
        tf.constant(np.array([text.encode() for text in characters], object), tf.string)
    ).numpy()
    assert array == [text.decode() for text in tensor]
    assert {text for text, got in zip(characters, array, strict=True) if got != text.lower()} == {
        "İ"
    }


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=9), max_size=9), st.integers(0, 3))
def test_lower_case_of_any_texts(texts: list[str], skipped: int) -> None:
    """Texts keep their bounds when lower case changes their length.

    They may be in a slice.
    """
    expected = ["".join(character.lower()[0] for character in text) for text in texts[skipped:]]
    assert lower(pa.array(texts, TEXT).slice(skipped)).to_pylist() == expected


# --- vectors of words ---

DOCUMENTS = [["a", "b", "a"], ["b"], [], None, ["c", "b", ""], ["two\nlines", "b"]]


def test_bag_of_words_counts() -> None:
    """A bag of words has counts in the order of the vocabulary.

    Other words are not counted, and null and empty rows are all 0.
    """
    encoding = fitted({"bag_of_words": 2}, DOCUMENTS, TEXTS)
    assert encoding.tokens.to_pylist() == [b"b", b"a"]
    values = [["a", "b", "a", "?"], None, [], ["?"]]
    assert encoding.apply(pa.array(values, TEXTS)).to_pylist() == [[1, 2], [0, 0], [0, 0], [0, 0]]
    feature = encoding.output(Feature(TEXTS))
    assert (feature.type, feature.required, feature.length) == (pa.list_(pa.float32()), True, 2)


def test_bag_of_words_of_one_word_a_row() -> None:
    """A text is a list of one."""
    assert ids({"bag_of_words": 2}, ["a", "a", "b"], ["b", None, "a"]) == [[0, 1], [0, 0], [1, 0]]


@given(
    documents=st.lists(
        st.none() | st.lists(st.sampled_from("abcd"), max_size=5), min_size=1, max_size=12
    )
)
def test_bag_of_words_equals_plain_python(documents: list[list[str] | None]) -> None:
    """The most frequent words of any corpus are counted."""
    counts = collections.Counter(word for document in documents for word in document or [])
    vocabulary = sorted(counts, key=lambda word: (counts[word], word), reverse=True)[:3]
    if not vocabulary:
        return
    encoding = fitted({"bag_of_words": 3}, documents, TEXTS)
    expected = [[(document or []).count(word) for word in vocabulary] for document in documents]
    assert encoding.apply(pa.array(documents, TEXTS)).to_pylist() == expected


# --- all of them ---


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("vocabulary", {"top_k": 0}, "found 0, expected how many values at most"),
        ("vocabulary", {"value": "x"}, "found 'x', expected how many values at most"),
        ("vocabulary", {"min_count": -1}, "found -1, expected a least count"),
        ("vocabulary", {"num_oov": True}, "found True, expected a number of ids"),
        (
            "vocabulary",
            {"reserved": ["a", "a"]},
            r"found reserved \['a', 'a'\], expected a list of distinct texts",
        ),
        ("vocabulary", {"reserved": [""]}, "expected a list of distinct texts"),
        ("vocabulary", {"reserved": "abc"}, "expected a list of distinct texts"),
        ("vocabulary", {"topk": 3}, "found parameter 'topk'.*Did you mean 'top_k'"),
        ("hash_bucket", {}, "found None, expected a number of buckets"),
        ("cross", {"columns": ["a"], "buckets": 3}, "expected two columns or more"),
        ("cross", {"columns": ["a", "b"]}, "found None, expected a number of buckets"),
        ("tokenize", {"split": "("}, r"found '\(' .*expected a regular expression"),
        ("tokenize", {"lower": 1}, "found lower 1, expected true or false"),
        ("tokenize", {"ngrams": 2}, "found parameter 'ngrams'"),
        ("bag_of_words", {}, "found None, expected a vector.s length"),
        (
            "bag_of_words",
            {"value": 10**6},
            "found 1000000, expected a vector.s length, at most 16384",
        ),
    ],
)
def test_wrong_parameters_say_what_is_expected(
    kind: str, parameters: dict[str, Any], message: str
) -> None:
    """Errors say what was found and what was expected."""
    with pytest.raises(ValueError, match=message):
        ENCODING_FOR_KIND[kind].of(parameters)


@pytest.mark.parametrize(
    ("step", "types", "message"),
    [
        ("vocabulary", [pa.float32()], "found float32, expected text, bytes or whole numbers"),
        ({"hash_bucket": 3}, [pa.list_(pa.float32())], "expected text, bytes or whole numbers"),
        ({"bag_of_words": 3}, [pa.float32()], "expected text, bytes or whole numbers"),
        (
            {"cross": {"columns": ["a", "b"], "buckets": 3}},
            [TEXT, TEXTS],
            "found list<text> in 'b', expected one value",
        ),
        ("tokenize", [BYTES], "found bytes, expected text"),
    ],
)
def test_types_that_cannot_be_encoded(step: Step, types: list[pa.DataType], message: str) -> None:
    """Found at planning, from the type alone."""
    with pytest.raises(ValueError, match=message):
        declared(step).output(*(Feature(type_) for type_ in types))


@pytest.mark.parametrize(
    ("step", "training"),
    [
        ({"vocabulary": {"num_oov": 2}}, ["b", "a"]),
        ({"bag_of_words": 3}, ["b", "a"]),
        ({"tokenize": {"split": ","}}, ["b", "a"]),
        ({"cross": {"columns": ["a", "b"], "buckets": 3}}, None),
    ],
)
def test_a_fitted_encoding_is_kept_as_it_was(
    tmp_path: Any, step: Any, training: list[str] | None
) -> None:
    """Stored and read back, it equals itself."""
    kind = next(iter(step))
    encoding: Any = declared(step) if training is None else fitted(step, training)
    loaded = encode.load_encodings(encode.save_encodings(str(tmp_path), {(0, 0): (kind, encoding)}))
    assert loaded == {(0, 0): (kind, encoding)}


@pytest.mark.slow
def test_tensorflow_transform_fits_the_same(tmp_path: Any) -> None:
    """TensorFlow Transform's analysis gives the same results.

    They are vocabulary and ids of the same rows.
    """
    import apache_beam as beam
    import tensorflow as tf
    import tensorflow_transform as tft
    import tensorflow_transform.beam as tft_beam

    random = np.random.default_rng(3)
    words = ["a", "b", "B", "é", "\xff", "zebra", "a b", "", "two\nlines", "1", "10", "9"]
    rows = [random.choice(words, random.integers(1, 6)).tolist() for _ in range(40)]

    def preprocess(inputs: dict[str, tf.SparseTensor]) -> dict[str, tf.Tensor]:
        known = {"top_k": 7, "num_oov_buckets": 3, "vocab_filename": "word"}
        places = tft.compute_and_apply_vocabulary(inputs["word"], **known)
        return {"word": places}

    data = [{"word": word} for word in rows]
    spec = {"word": tf.io.VarLenFeature(tf.string)}
    with (
        beam.Pipeline(runner="FnApiRunner") as pipeline,
        tft_beam.Context(temp_dir=str(tmp_path / "temp")),
    ):
        dataset = (
            pipeline | beam.Create([data]) | beam.FlatMap(iter),
            tft.DatasetMetadata.from_feature_spec(spec),
        )
        _, function = dataset | tft_beam.AnalyzeAndTransformDataset(preprocess)
        _ = function | tft_beam.WriteTransformFn(str(tmp_path / "graph"))
    output = tft.TFTransformOutput(str(tmp_path / "graph"))
    examples = {name: tf.ragged.constant([row[name] for row in data]).to_sparse() for name in spec}
    expected = output.transform_raw_features(examples)

    vocabulary = fitted({"vocabulary": {"top_k": 7, "num_oov": 3}}, rows, TEXTS)
    assert vocabulary.tokens.to_pylist() == output.vocabulary_by_name("word")
    assert (
        vocabulary.apply(pa.array(rows, TEXTS)).flatten().to_pylist()
        == expected["word"].values.numpy().tolist()
    )
