"""Tests of transforms/split/split.py against one row at a time in plain Python."""

from __future__ import annotations

import collections
import datetime
import fractions

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import assume, given
from hypothesis import strategies as st

from beam_pipelines.core.chunks import Chunk, ChunkCounts, Rejected
from beam_pipelines.core.errors import DataError, Problem, RecipeProblems
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.splits import Split, TimeSplit
from beam_pipelines.transforms.split import split
from beam_pipelines.transforms.split.bounds import plan_bounds
from tests.core.test_native_hash import G, mix


def expected_row(values, seed):
    """Hashes integers, short texts and nulls as hashing.py defines it."""
    total = mix(seed)
    for value in values:
        if value is None:
            hashed = mix(int.from_bytes(b"nullnull", "big") + seed)
        elif isinstance(value, int):
            hashed = mix(value + G + seed)
        else:
            data = value.encode()
            words = [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]
            keyed = sum(mix(word ^ mix((place + 1) * G + seed)) for place, word in enumerate(words))
            hashed = mix(len(data) + G + seed + keyed)
        total = mix((total ^ hashed) + G)
    return total


def by(column, *parts):
    """A split by the times or values of a column."""
    return Split(fractions={}, time_column=column, times=parts)


def plan_of(schema, split_, **rest):
    return split.plan_split(Recipe("test", {}, "flights", split=split_, **rest), schema)


def chunk_of(batch, path="data/flights.csv"):
    return Chunk(3, 1, batch, {"read": batch.num_rows}, path=path)


def batch_of(rows):
    return pa.record_batch(
        {
            "user": pa.array([row[0] for row in rows], pa.string()),
            "day": pa.array([row[1] for row in rows], pa.int64()),
        }
    )


ROWS = st.lists(
    st.tuples(st.none() | st.text(max_size=3), st.none() | st.integers(-5, 5)), max_size=30
)
SHARES = st.sampled_from(
    [(0.8, 0.2), (0.1, 0.2, 0.7), (1 / 3, 1 / 3, 1 / 3), (0.999, 0.001), (0.5, 0.25, 0.125, 0.125)]
)


@given(ROWS, SHARES, st.sampled_from([(), ("user",), ("day", "user")]), st.integers(0, 30))
def test_fractions_follow_the_hash(rows, shares, by, start):
    """A row's split follows from its hash.

    Plain Python computes it with the exact sums of shares.
    """
    names = [f"split{number}" for number in range(len(shares))]
    batch = batch_of(rows).slice(start)
    plan = plan_of(batch.schema, Split(fractions=dict(zip(names, shares, strict=True)), by=by))
    exact = [fractions.Fraction(repr(share)) for share in shares]
    ends = [sum(exact[: number + 1]) / sum(exact) for number in range(len(shares))]
    expected = []
    for user, day in rows[start:]:
        values = {"user": user, "day": day}
        place = fractions.Fraction(
            expected_row([values[name] for name in by or values], split.SPLIT_SEED), 2**64
        )
        expected.append(next(number for number, end in enumerate(ends) if place < end))
    assert split.assign_split(plan, chunk_of(batch)).tolist() == expected


@given(ROWS, st.lists(st.integers(0, 30), max_size=4))
def test_a_key_never_lands_in_two_splits(rows, cuts):
    """A user is in one split for any chunks.

    Every row is in exactly one split.
    """
    plan = plan_of(
        batch_of([]).schema, Split(fractions={"a": 0.4, "b": 0.3, "c": 0.3}, by=("user",))
    )
    batch = batch_of(rows)
    ends = sorted({min(cut, len(rows)) for cut in cuts} | {len(rows)})
    splits_of_user = collections.defaultdict(set)
    found = collections.Counter()
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        for result in split.split_chunk(plan, chunk_of(batch.slice(start, end - start))):
            if isinstance(result, Chunk):
                for row in result.batch.to_pylist():
                    splits_of_user[row["user"]].add(result.split)
                    found[row["user"], row["day"]] += 1
    assert all(len(splits) == 1 for splits in splits_of_user.values())
    assert found == collections.Counter(rows)


def test_fractions_are_met():
    """Splits of 100,000 users get their shares.

    They are within five standard deviations.
    """
    batch = pa.record_batch({"user": np.arange(100_000)})
    plan = plan_of(
        batch.schema, Split(fractions={"train": 0.8, "eval": 0.15, "test": 0.05}, by=("user",))
    )
    counts = np.bincount(split.assign_split(plan, chunk_of(batch)))
    for count, share in zip(counts, (0.8, 0.15, 0.05), strict=True):
        assert abs(count - share * 1e5) < 5 * (share * (1 - share) * 1e5) ** 0.5


def test_thresholds_are_exact():
    """Thresholds are the shares' decimals, not binary neighbours; 2**64 does not overflow."""
    assert split.fraction_thresholds((0.1, 0.2, 0.7)) == (2**64 // 10, 3 * 2**64 // 10)
    assert split.fraction_thresholds((1.0, 0.0)) == (2**64,)
    plan = plan_of(batch_of([]).schema, Split(fractions={"a": 1.0, "b": 0.0}))
    batch = batch_of([("u", number) for number in range(50)])
    assert split.assign_split(plan, chunk_of(batch)).tolist() == [0] * 50


def moment(text):
    return datetime.datetime.fromisoformat(text)


TIMES = (
    TimeSplit("train", None, "2013-11-01"),
    TimeSplit("eval", "2013-11-01", "2013-12-01T06:30:00+01:00"),
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1960-01-01T00:00:00", 0),
        ("2013-10-31T23:59:59.999999", 0),
        ("2013-11-01T00:00:00", 1),
        ("2013-12-01T05:29:59.999999", 1),
        ("2013-12-01T05:30:00", None),
        (None, None),
    ],
)
def test_times_split_at_their_bounds(value, expected):
    """Lower bounds are included, upper ones are not.

    Offsets apply; other rows are an error.
    """
    batch = pa.record_batch(
        {"at": pa.array([None if value is None else moment(value)], pa.timestamp("us"))}
    )
    plan = plan_of(batch.schema, by("at", *TIMES))
    if expected is not None:
        assert split.assign_split(plan, chunk_of(batch)).tolist() == [expected]
    else:
        found = "null" if value is None else "'2013-12-01 05:30:00'"
        with pytest.raises(
            DataError,
            match=f"data/flights.csv, column 'at': found {found} in 1 of 1 rows.*'filter:",
        ):
            split.assign_split(plan, chunk_of(batch))


@pytest.mark.parametrize(
    ("kind", "bounds", "inside", "outside"),
    [
        (
            pa.date32(),
            ("2013-01-01", "2014-01-01"),
            datetime.date(2013, 12, 31),
            datetime.date(2014, 1, 1),
        ),
        (pa.int64(), ("-5", "9223372036854775807"), 2**63 - 2, 2**63 - 1),
        (pa.float64(), ("0", "1.5"), 1.4999999999999998, 1.5),
        (pa.float64(), ("0", "1.5"), 0.0, float("nan")),
        (pa.float64(), (None, "1.5"), float("-inf"), float("nan")),
        (pa.float32(), ("0.25", None), float("inf"), 0.2),
        (pa.time64("us"), ("06:00", "12:00"), datetime.time(11, 59, 59), datetime.time(5)),
    ],
)
def test_times_split_by_other_types(kind, bounds, inside, outside):
    """Dates, numbers and times of day are compared by value."""
    batch = pa.record_batch({"at": pa.array([inside, outside], kind)})
    plan = plan_of(batch.schema, by("at", TimeSplit("train", *bounds)))
    assert split.assign_split(plan, chunk_of(batch.slice(0, 1))).tolist() == [0]
    with pytest.raises(DataError, match="expected a value in one of the splits"):
        split.assign_split(plan, chunk_of(batch))


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (pa.string(), ["train", "", "é", "1"]),
        (pa.int8(), ["-1", "0", "2", "127"]),
        (pa.bool_(), ["true", "false"]),
        (pa.date32(), ["2013-01-01", "1960-02-29"]),
    ],
)
@given(data=st.data())
def test_values_decide(kind, texts, data):
    """A row is in the split of its value, or an error."""
    owners = [data.draw(st.integers(0, 2)) for _ in texts]  # 2: of no split
    parts = [tuple(t for t, o in zip(texts, owners, strict=True) if o == n) for n in (0, 1)]
    times = tuple(TimeSplit(f"s{n}", values=part) for n, part in enumerate(parts) if part)
    assume(times)
    rows = data.draw(st.lists(st.integers(-1, len(texts) - 1), max_size=9))  # -1: null
    texts_ = pa.array([None if row < 0 else texts[row] for row in rows], pa.string())
    batch = pa.record_batch({"at": texts_.cast(kind)})
    plan = plan_of(batch.schema, by("at", *times))
    if all(row >= 0 and owners[row] < 2 for row in rows):
        expected = [plan.names.index(f"s{owners[row]}") for row in rows]
        assert split.assign_split(plan, chunk_of(batch)).tolist() == expected
    else:
        with pytest.raises(DataError, match="expected a value in one of the splits"):
            split.assign_split(plan, chunk_of(batch))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("data/2012/a.csv", 0),
        ("a-eval.csv", 1),
        ("data/2013/x-eval.csv", 1),
        ("b.csv", None),
        ("2012/a-eval.csv", None),
    ],
)
def test_files_decide(path, expected):
    """A pattern matches the path or its last component.

    Each file has one pattern.
    """
    plan = plan_of(
        batch_of([]).schema, Split(fractions={}, files={"train": "*2012/*", "eval": "?-eval.csv"})
    )
    chunk = chunk_of(batch_of([("a", 1)] * 3), path)
    if expected is not None:
        assert split.assign_split(plan, chunk).tolist() == [expected] * 3
    else:
        with pytest.raises(
            DataError, match=f"{path}: the file matches (no split|splits 'train' and 'eval')"
        ):
            split.assign_split(plan, chunk)


@pytest.mark.parametrize(
    ("split_", "path", "said"),
    [
        (Split(by=("users",)), ("split", "by", 0), "found column 'users'.*Did you mean 'user'"),
        (by("dax", *TIMES), ("split", "column"), "Did you mean 'day'"),
        (by("user", *TIMES), ("split", "column"), "is text, expected a date"),
        (
            by("day", TimeSplit("train", "2013-01-01", None)),
            ("split", "train", "after"),
            "found '2013-01-01', expected an integer, because the column is int64",
        ),
        (by("day", TimeSplit("a", "5", "5")), ("split", "a"), "holds nothing"),
        (
            by("day", TimeSplit("a", "0", "5"), TimeSplit("b", "4", None)),
            ("split", "b"),
            "splits 'a' and 'b' overlap",
        ),
        (
            by("day", TimeSplit("a", None, "5"), TimeSplit("b", None, "4")),
            ("split", "b"),
            "splits 'a' and 'b' overlap",
        ),
        (
            by("day", TimeSplit("a", values=("x",))),
            ("split", "a", "values"),
            "found 'x', expected an integer, because the column is int64",
        ),
        (
            by("day", TimeSplit("a", values=("1",)), TimeSplit("b", values=("01", "2"))),
            ("split", "b"),
            "splits 'a' and 'b' overlap",
        ),
        (Split(fractions={f"s{n}": 1 / 300 for n in range(300)}), ("split",), "found 300 splits"),
    ],
)
def test_plan_split_refuses(split_, path, said):
    """A bad split is reported with its place in the recipe."""
    with pytest.raises(RecipeProblems) as caught:
        plan_of(batch_of([]).schema, split_)
    (problem,) = caught.value.problems
    assert problem.path == path
    with pytest.raises(RecipeProblems, match=said):
        raise caught.value


def test_values_of_lists_are_refused():
    """A row of lists has no single value."""
    schema = pa.schema([("tags", pa.list_(pa.string()))])
    with pytest.raises(RecipeProblems, match="is list<text>, expected one value in a row"):
        plan_of(schema, by("tags", TimeSplit("a", values=("x",))))


def test_a_column_decides_and_is_dropped():
    """A dropped column may decide the split, and is gone afterwards."""
    batch = batch_of([("a", 1), ("b", 2)])
    for rest in ({"drop": ("user",)}, {"keep": ("day",)}):
        plan = plan_of(
            batch.schema, Split(fractions={"train": 0.5, "eval": 0.5}, by=("user",)), **rest
        )
        assert plan.by == ("user",)
        assert plan.schema.names == ["day"]
        chunks = [
            result
            for result in split.split_chunk(plan, chunk_of(batch))
            if isinstance(result, Chunk)
        ]
        assert all(chunk.batch.schema == plan.schema for chunk in chunks)


def test_one_split_needs_no_hash(monkeypatch):
    """A single split passes the batch on unchanged."""
    monkeypatch.setattr(split._native, "hash_rows", None)
    batch = batch_of([("a", 1)])
    counted, chunk = split.split_chunk(plan_of(batch.schema, Split()), chunk_of(batch))
    assert chunk == Chunk(3, 1, batch, {}, path="data/flights.csv", split="train")
    assert counted.rows == {"train": 1}


def test_split_chunks_outputs_counts(tmp_path):
    """Each chunk gives row counts and chunks of its splits.

    In a pipeline, there is a chunk for each split with rows.
    """
    batch = pa.record_batch({"day": [1, 5, 2, 7]})
    times = (
        TimeSplit("train", None, "5"),
        TimeSplit("eval", "5", "7"),
        TimeSplit("test", "7", None),
    )
    plan = plan_of(batch.schema, by("day", *times))
    rejected = (Rejected("flights", "f.csv", "line 3", "day", "found 'x'", "x"),)
    full = Chunk(0, 0, batch, {"read": 4, "filtered": 2}, rejected, 77, "f.csv")
    empty = Chunk(0, 1, batch.slice(0, 0), {"read": 0}, path="f.csv")
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        outputs = pipeline | beam.Create([full, empty]) | split.SplitChunks(plan, str(tmp_path))
        rows = outputs.chunks | beam.Map(
            lambda chunk: (*chunk[:2], chunk.split, chunk.batch["day"].to_pylist(), chunk.counts)
        )
        assert_that(
            rows,
            equal_to(
                [(0, 0, "train", [1, 2], {}), (0, 0, "eval", [5], {}), (0, 0, "test", [7], {})]
            ),
        )
        chunk_counts = [
            ChunkCounts(
                0,
                0,
                full.counts,
                {"train": 2, "eval": 1, "test": 1},
                str(tmp_path / "0_0"),
                77,
                "f.csv",
            ),
            ChunkCounts(0, 1, empty.counts, {}, path="f.csv"),
        ]
        assert_that(outputs.chunk_counts, equal_to(chunk_counts), label="CheckCounts")


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["a/train-1.csv", "a/other.csv", "a/eval.csv"], "matches no split"),
        (["a/train-1.csv"], "no file of the source that matches 'eval"),
    ],
)
def test_files_are_checked_before_they_are_read(paths: list[str], message: str) -> None:
    """Planning finds files without a split and splits without a file."""
    plan = split.SplitPlan(("train", "eval"), pa.schema([]), patterns=("train*", "eval*"))
    with pytest.raises(RecipeProblems, match=message):
        split.check_files(plan, paths)
    split.check_files(plan, ["a/train-1.csv", "a/eval-1.csv"])


@pytest.mark.parametrize(
    ("kind", "bound"),
    [
        (pa.date32(), "soon"),
        (pa.timestamp("us"), "soon"),
        (pa.time64("us"), "25:00"),
        (pa.float64(), "nan"),
        (pa.float64(), "inf"),
    ],
)
def test_bounds_that_are_no_values_of_the_column(kind: pa.DataType, bound: str) -> None:
    """The error shows the bound and the column's type."""
    problems: list[Problem] = []
    plan_bounds(by("t", TimeSplit("train", None, bound)), pa.schema([("t", kind)]), problems)
    [problem] = problems
    assert problem.path == ("split", "train", "before")
    assert problem.message.startswith(f"found '{bound}', expected ")
    assert str(kind) in problem.message
