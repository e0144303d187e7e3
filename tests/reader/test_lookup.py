"""Ids in place of texts, and features whose values come together."""

from __future__ import annotations

import contextlib
import itertools

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from tensorflow_metadata.proto.v0 import schema_pb2

import beam_pipelines as bp
from beam_pipelines.encodings.kinds.ids import FittedVocabulary, HashBucket
from beam_pipelines.reader import columns
from beam_pipelines.reader.features import Wishes, wanted_features
from tests.reader.datasets import write_records
from tests.support.kernels import without_kernels
from tests.support.wire import example, feature, sequence_example

SCHEMA = """
feature { name: "id" type: INT presence { min_fraction: 1 } shape { dim { size: 1 } } }
feature { name: "word" type: BYTES presence { min_fraction: 1 } shape { dim { size: 1 } } domain: "words" }
feature { name: "pair" type: BYTES presence { min_fraction: 1 } shape { dim { size: 2 } } }
feature { name: "maybe" type: BYTES value_count { min: 1 max: 1 } string_domain { value: "w1" } }
feature { name: "tags" type: BYTES }
feature { name: "list" type: INT }
feature { name: "size" type: FLOAT presence { min_fraction: 1 } shape { dim { size: 1 } } }
string_domain { name: "words" value: "w2" value: "w1" }
"""
SEQUENCES = """
feature { name: "tags" type: BYTES }
feature { name: "##SEQUENCE##" type: STRUCT struct_domain {
  feature { name: "words" type: BYTES value_counts { value_count { } value_count { } } }
} }
"""
ROWS = 30
LOOKUP = {
    "word": 1000,
    "pair": 1 << 40,
    "maybe": bp.Lookup("schema"),
    "tags": bp.Lookup([b"w1", "w2"], 3),
}

_texts = st.sampled_from(
    [b"", b"a", b"b", b"\xff\x00", b"a longer text of more than sixteen bytes"]
)
_rows = st.fixed_dictionaries(
    {
        "tags": st.none() | st.lists(_texts, max_size=3),
        "words": st.none() | st.lists(st.lists(_texts, max_size=3), max_size=4),
    }
)
_buckets = st.sampled_from([1, 2, 3, 1000, 1 << 62])


def row(number):
    return {
        "id": ("int64", [number]),
        "word": ("bytes", [b"w%d" % (number % 4)]),
        "pair": ("bytes", [b"w%d" % number, b""]),
        "maybe": ("bytes", [b"w%d" % (number % 3)] if number % 2 else None),
        "tags": ("bytes", [b"w%d" % tag for tag in range(number % 5)] if number % 7 else None),
        "list": ("int64", list(range(number % 4))),
        "size": ("float", [number]),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A dataset of 30 rows, in order."""
    rows = [example(row(number)) for number in range(ROWS)]
    return write_records(tmp_path_factory.mktemp("lookup"), SCHEMA, rows)


def lists_of(value):
    """Returns the rows of a column as lists, or ``None``."""
    if not isinstance(value, bp.Ragged):
        return value.tolist()
    values, edges = lists_of(value.values), itertools.pairwise(value.offsets.tolist())
    rows = zip(value.is_present.tolist(), edges, strict=True)
    return [values[start:end] if is_there else None for is_there, (start, end) in rows]


def by_loop(encoding, value):
    """Applies an encoding to each text of a value."""
    if value is None or isinstance(value, bytes):
        return encoding.apply(pa.array([value], pa.binary()))[0].as_py()
    return [by_loop(encoding, one) for one in value]


@settings(max_examples=25)
@given(st.lists(_rows, min_size=1, max_size=6), st.data(), st.booleans())
def test_ids_are_those_of_the_encodings(tmp_path_factory, rows, data, has_kernels):
    """Ids are those of ``hash_bucket`` and ``vocabulary``; null stays null."""
    records = []
    for own in rows:
        context = {} if own["tags"] is None else {"tags": feature(own["tags"], "bytes")}
        steps = own["words"] and [feature(step, "bytes") for step in own["words"]]
        records.append(
            sequence_example(context, {} if own["words"] is None else {"words": steps or []})
        )
    folder = write_records(
        tmp_path_factory.mktemp("ids"),
        SEQUENCES,
        records,
        record="sequence_example",
        columns={"words": "list<list<text>>"},
    )
    known = data.draw(st.lists(_texts, min_size=1, unique=True))
    num_oov, buckets = data.draw(st.just(0) | _buckets), data.draw(_buckets)
    as_types = data.draw(st.sampled_from([pa.binary(), pa.large_binary(), None]))
    texts = known if as_types is None else pa.array(known, as_types)
    with contextlib.nullcontext() if has_kernels else without_kernels():
        lookup = {"tags": bp.Lookup(texts, num_oov), "words": buckets}
        (batch,) = bp.open(folder).batches("train", 9, shuffle=False, lookup=lookup)
        (arrow,) = bp.open(folder).batches("train", 9, shuffle=False, lookup=lookup, as_="arrow")
    fitted = FittedVocabulary(pa.array(known, pa.binary()), num_oov)
    for name, encoding in (("tags", fitted), ("words", HashBucket(buckets))):
        expected = [by_loop(encoding, own[name]) for own in rows]
        assert lists_of(batch[name]) == arrow[name].to_pylist() == expected


def test_forms_of_ids(folder):
    """Ids take shape, type, fill value and padding as numbers do."""
    (batch,) = bp.open(folder).batches(
        "train",
        ROWS,
        shuffle=False,
        lookup=LOOKUP,
        types={"word": "int16"},
        fill={"maybe": 7},
        padding=-5,
        lengths={"tags": 3},
    )
    assert (batch["word"].dtype, batch["word"].shape) == (np.int16, (ROWS,))
    assert batch["pair"].shape == (ROWS, 2)
    assert batch["maybe"].tolist() == [
        (0 if number % 3 == 1 else -1) if number % 2 else 7 for number in range(ROWS)
    ]
    oov = HashBucket(3).apply(pa.array([b"w0"]))[0].as_py() + 2
    assert batch["tags"].shape == (ROWS, 3)
    tags = [[oov, 0, 1][: number % 5] if number % 7 else [] for number in range(ROWS)]
    assert batch["tags"].tolist() == [own + [-5] * (3 - len(own)) for own in tags]
    (own,) = bp.open(folder).batches(
        "train", ROWS, columns=["word"], lookup={"word": bp.Lookup("schema", 1)}, shuffle=False
    )
    assert own["word"].tolist() == [{1: 1, 2: 0}.get(number % 4, 2) for number in range(ROWS)]


KEYED = {"ids": ["tags", "word", "maybe", "list"], "pairs": ["pair"]}


def rows_of_keyed(batch):
    """Yields the id and the values of each row, feature by feature."""
    count = len(batch["id"])
    found = []
    for key, names in KEYED.items():
        values, lengths = batch[key]
        assert len(lengths) == len(names) * count
        pieces = np.split(values, np.cumsum(lengths)[:-1])
        found += [pieces[place * count : (place + 1) * count] for place in range(len(names))]
    for place, number in enumerate(batch["id"].tolist()):
        yield number, [column[place].tolist() for column in found]


@pytest.fixture(scope="module")
def expected(folder):
    """The values of each row, by the features alone."""
    (batch,) = bp.open(folder).batches("train", ROWS, shuffle=False, lookup=LOOKUP)
    names = [name for names in KEYED.values() for name in names]
    rows = zip(*(lists_of(batch[name]) for name in names), strict=True)
    return [
        [own if isinstance(own, list) else [own] * (own is not None) for own in row] for row in rows
    ]


@pytest.mark.parametrize("read", [0, 1, 3])
def test_keyed_batches_resume(folder, expected, read):
    """Batches have the rows' values, also behind a state."""
    options = {"lookup": LOOKUP, "keyed": KEYED, "seed": 3}
    reader = bp.open(folder).batches("train", 7, **options)
    found = [one for _ in range(read) for one in rows_of_keyed(next(reader))]
    for rank in range(2):
        rest = bp.open(folder).batches("train", 4, rank=rank, world_size=2, **options)
        rest.load_state_dict(reader.state_dict())
        for batch in rest:
            assert list(batch) == ["id", "size", "ids", "pairs"]
            found += rows_of_keyed(batch)
    assert sorted(number for number, _ in found) == list(range(ROWS))
    assert all(values == expected[number] for number, values in found)
    assert list(rows_of_keyed(reader.take([5, 3]))) == [(n, expected[n]) for n in (5, 3)]


def test_keyed_batches_of_several_datasets(folder, expected, tmp_path):
    """Several datasets, as one and in shares, have their rows' values."""
    other = write_records(tmp_path, SCHEMA, [example(row(number)) for number in range(ROWS)])
    options = {"lookup": LOOKUP, "keyed": KEYED, "batch_size": 8}
    both = bp.open([folder, other]).batches("train", **options)
    one, two = (bp.open(path).batches("train", seed=9, **options) for path in (folder, other))
    for reader in (both, bp.mix({one: 1, two: 1})):
        found = [row for batch in reader for row in rows_of_keyed(batch)]
        assert sorted(number for number, _ in found) == sorted([*range(ROWS)] * 2)
        assert all(values == expected[number] for number, values in found)
    with pytest.raises(ValueError, match=r"mix: found word ReadFeature.* in reader 1, expected"):
        bp.mix({one: 1, bp.open(other).batches(**{**options, "lookup": {**LOOKUP, "word": 9}}): 1})


@given(
    st.lists(st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=5, max_size=5), min_size=1),
    st.lists(st.integers(0, 5), max_size=4),
)
def test_keyed_layout_equals_a_loop(features, cuts):
    """A batch has one feature's values after the other."""
    edges = [0, *sorted(cuts), 5]
    made = [
        columns.RaggedColumn(
            columns.DenseColumn(np.array([9, *itertools.chain(*rows)], np.int64)[1:]),
            np.cumsum([0, *map(len, rows)]),
            np.ones(5, np.bool_),
        )
        for rows in features
    ]
    dense = np.arange(10).reshape(5, 2)
    column = columns.KeyedColumn([*made, columns.DenseColumn(dense)], edges)
    for start, end in itertools.pairwise(edges):
        values, lengths = found = column.cut(start, end)
        cells = [own for rows in [*features, dense.tolist()] for own in rows[start:end]]
        assert lengths.tolist() == list(map(len, cells))
        assert values.tolist() == list(itertools.chain(*cells))
        places = [place for place, cell in enumerate(cells) for _ in cell]
        assert found.segments().tolist() == places


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lookup": {"word": 0}}, "lookup: found 0 for feature 'word', expected a number of bucke"),
        ({"lookup": {"word": True}}, "lookup: found True"),
        ({"lookup": {"word": ["a"]}}, r"found \['a'\] .* or bp.Lookup\(texts, num_oov\)"),
        ({"lookup": {"word": bp.Lookup(["a", "a"])}}, "of one or more texts, each once"),
        ({"lookup": {"word": bp.Lookup([])}}, "of one or more texts, each once"),
        ({"lookup": {"word": bp.Lookup(["a", None])}}, "of one or more texts, each once"),
        ({"lookup": {"word": bp.Lookup("a")}}, "of one or more texts, each once"),
        ({"lookup": {"word": bp.Lookup([1])}}, "of one or more texts, each once"),
        ({"lookup": {"word": bp.Lookup(["a"], -1)}}, "expected a number of buckets"),
        ({"lookup": {"tags": bp.Lookup("schema")}}, "Of a feature with a domain in the schema"),
        ({"lookup": {"list": 9}}, "lookup: found numbers in 'list', expected texts"),
        ({"lookup": {"wrd": 9}}, "found no feature 'wrd', .* Did you mean 'word'?"),
        ({"lookup": {"word": 9}, "columns": ["id"]}, "lookup: found 'word', which is not in colum"),
        ({"lookup": {"word": 9}, "images": {"word": bp.Image((2, 2))}}, "images: found 'word'"),
        ({"lookup": {"maybe": 9}, "fill": {"maybe": b"a"}}, "fill: found b'a' .* an integer"),
        ({"lookup": {"word": 9}, "as_": "records"}, "lookup: found it with as_='records'"),
        ({"lengths": {"list": 0}}, "lengths: found 0 for feature 'list', expected a number of val"),
        ({"lengths": {"word": 3}}, "lengths: found 'word', expected a list of any length"),
        ({"lengths": {"maybe": 3}}, "lengths: found 'maybe', expected a list of any length"),
        ({"keyed": {"id": ["list"]}}, "keyed: found 'id' of list, expected a name that no feature"),
        ({"keyed": {"all": []}}, "keyed: found 'all' of , expected .* one or more features"),
        ({"keyed": {"all": ["id"], "more": ["id"]}}, "found 'more' of id, .* each once"),
        ({"keyed": {"all": ["id", "id"]}}, "keyed: found 'all' of id, id"),
        ({"keyed": {"all": ["id", "word"]}}, "keyed: found id: int64, word: object in 'all'"),
        ({"keyed": {"all": ["id", "size"]}}, "found id: int64, size: float32 in 'all', expected"),
        ({"keyed": {"all": ["id"]}, "as_": "arrow"}, "keyed: found it with as_='arrow'"),
    ],
)
def test_wrong_wishes(folder, options, message):
    """Arguments that do not suit a feature are refused."""
    with pytest.raises(ValueError, match=message):
        bp.open(folder).batches("train", **options)


@pytest.mark.parametrize("as_", ["torch", "jax"])
def test_texts_for_frameworks_are_looked_up(as_):
    """Texts without a lookup are refused with the remedy, which works."""
    schema = text_format.Parse(SCHEMA, schema_pb2.Schema())
    with pytest.raises(
        ValueError, match=rf"found texts in word, pair, maybe, tags with as_='{as_}"
    ):
        wanted_features("there", schema, (), Wishes(), as_)
    for wishes in (Wishes(lookup=dict.fromkeys(LOOKUP, 100_000)), Wishes(columns=["id", "list"])):
        assert not any(one.is_text for one in wanted_features("there", schema, (), wishes, as_))
