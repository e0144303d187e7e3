"""Tests joins against a nested loop, and both strategies against each other."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import itertools
import math
import re

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core import _native
from beam_pipelines.core.arrow import key_index
from beam_pipelines.core.arrow.ipc import unpack
from beam_pipelines.core.chunks import Chunk, Rejected
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.files.beam import files
from beam_pipelines.joins.index import build_index, join_batch
from beam_pipelines.recipe.joins import Join
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.plan import FileInfo, SourcePlan
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.transforms import meet, merged_files, read
from beam_pipelines.transforms.exchange import MAX_ELEMENT_BYTES, Received, Sent
from beam_pipelines.transforms.join import hash_join, join
from beam_pipelines.transforms.join import plan as plan_module
from beam_pipelines.transforms.meet import send_counts
from tests.support.crossings import measured
from tests.transforms.test_exchange import pieces_of

NAN = float("nan")
SIDES = ("left", "right")


def same_key(left, right):
    """Returns whether two keys match.

    Nulls do not match; NaN equals NaN, -0.0 equals 0.0.
    """
    return all(
        one is not None
        and other is not None
        and (one == other or (isinstance(one, float) and math.isnan(one) and math.isnan(other)))
        for one, other in zip(left, right, strict=True)
    )


def nested_loop(left, right, keys, how):
    """Joins lists of tuples by comparing every pair of rows.

    The first ``keys`` values of a tuple are the key.
    """
    rows = []
    for row in left:
        matches = [other for other in right if same_key(row[:keys], other[:keys])]
        rows += [row + other[keys:] for other in matches]
        if not matches and how == "left":
            rows.append((*row, None))
    return rows


KEYS_FOR_TYPE = [
    (pa.int64(), st.sampled_from([0, 1, -1, 2**63 - 1])),
    (pa.string(), st.sampled_from(["", "a", "a\0", "ab", "Zürich", "x" * 70])),
    (pa.binary(), st.sampled_from([b"", b"\xff", b"a"])),
    (pa.float64(), st.sampled_from([0.0, -0.0, NAN, 1.5])),
    (pa.float32(), st.sampled_from([0.0, -0.0, NAN, 1.5])),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.sampled_from([datetime.date(1970, 1, 1), datetime.date(2013, 1, 1)])),
    (
        pa.timestamp("us"),
        st.sampled_from(
            [
                datetime.datetime.fromisoformat("1970-01-01"),
                datetime.datetime.fromisoformat("2013-01-01T05:00:00"),
            ]
        ),
    ),
    (pa.time64("us"), st.sampled_from([datetime.time(0), datetime.time(5, 6, 7, 8)])),
]


@st.composite
def two_tables(draw):
    """Draws key types, left rows and right rows.

    Rows are keys and one value.
    """
    kinds = draw(st.lists(st.sampled_from(KEYS_FOR_TYPE), min_size=1, max_size=3))
    key = st.tuples(*(st.none() | values for _, values in kinds))
    rows = st.lists(key, max_size=12).map(
        lambda keys: [(*key, number) for number, key in enumerate(keys)]
    )
    return [kind for kind, _ in kinds], draw(rows), draw(rows)


def batch_of(kinds, rows, value="value"):
    names = [f"k{number}" for number in range(len(kinds))] + [value]
    arrays = [
        pa.array([row[at] for row in rows], kind) for at, kind in enumerate([*kinds, pa.int64()])
    ]
    return pa.RecordBatch.from_arrays(arrays, names)


def rows_of(batch):
    columns = [column.to_pylist() for column in batch.columns]
    return [repr(row) for row in zip(*columns, strict=True)] if columns else []


def step_of(kinds, how, partitions=3, key=(), number=0):
    on = tuple((f"k{at}", f"k{at}") for at in range(len(kinds)))
    schema = batch_of(kinds, []).schema
    source = Source("right", ("right.csv",), key=key)
    plan = SourcePlan(source, "csv", (FileInfo("right.csv", 1),), schema, schema, ())
    result = batch_of(kinds, [], "left").schema.append(pa.field("right", pa.int64()))
    return plan_module.JoinStep(
        number, Join("right", on, how), plan, "hash", 1, partitions, (("value", "right"),), result
    )


@given(two_tables(), st.sampled_from(["left", "inner"]), st.integers(0, 4), st.integers(0, 4))
def test_join_batch_equals_nested_loop(tables, how, left_start, right_start):
    """The indexed join of slices equals a nested loop.

    Rows, order and counts are the same.
    """
    kinds, left, right = tables
    step = step_of(kinds, how)
    right_table = pa.Table.from_batches([batch_of(kinds, right).slice(right_start)])
    index = build_index(right_table, step.join, step.added)
    left, right = left[left_start:], right[right_start:]
    joined, counts = join_batch(batch_of(kinds, left, "left"), index, step.join, step.number)
    expected = nested_loop(left, right, len(kinds), how)
    assert rows_of(joined) == [repr(row) for row in expected]
    assert joined.schema == step.schema
    matched = sum(any(same_key(row[:-1], other[:-1]) for other in right) for row in left)
    other = "unmatched/0" if how == "left" else "dropped/0"
    kept = matched if how == "inner" else len(left)
    assert counts == {
        "matched/0": matched,
        other: len(left) - matched,
        "added/0": len(expected) - kept,
        "null_keys/0": sum(None in row[:-1] for row in left),
    }


def exchange(messages, piece_bytes=None):
    """Groups messages as ``Exchange`` does, without Beam, in pieces."""
    payloads, sent = {}, collections.defaultdict(list)
    for message in messages:
        for partition, payload in message.payloads.items():
            assert (message.order, partition) not in payloads
            payloads[message.order, partition] = payload
            sent[partition].append(Sent(message.order, partition, 0, len(payload)))
    if piece_bytes is not None:
        pieces = [pieces_of(partition, own, piece_bytes) for partition, own in sent.items()]
        sent = {key: own for each in pieces for key, own in each.items()}
    return [
        Received(key, tuple(payloads[each[:2]] for each in own), tuple(each[0] for each in own))
        for key, unordered in sent.items()
        for own in [sorted(unordered)]
    ]


def chunks_of(kinds, rows, cuts, value):
    """Cuts rows into chunks at ``cuts``: two parts a range."""
    ends = sorted({min(cut, len(rows)) for cut in cuts} | {len(rows)})
    starts = [0, *ends[:-1]]
    rejected = (Rejected("left", "left.csv", "line 3", "k0", "found 'ü'", "ü,1"),)
    return [
        Chunk(
            number // 2,
            number % 2,
            batch_of(kinds, rows[start:end], value),
            {"read": end - start, "rejected": number % 2},
            rejected * (number % 2),
            number * 77 if number % 2 else None,
            "left.csv",
        )
        for number, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]


@given(
    two_tables(),
    st.sampled_from(["left", "inner"]),
    st.lists(st.integers(0, 12), max_size=4),
    st.integers(2, 5),
    st.tuples(st.sampled_from([0, 100, 1 << 20]), st.sampled_from([0, 50, 1 << 20])),
    st.sampled_from([1, 1000, 1 << 20]),
    st.randoms(use_true_random=False),
)
def test_hash_partitioned_join_gives_the_broadcast_joins_chunks(
    tables, how, cuts, partitions, limits, piece_bytes, shuffler
):
    """A hash join gives the chunks and counts of the broadcast join.

    This holds for any cuts, partitions, pieces and order.
    """
    kinds, left, right = tables
    step = step_of(kinds, how, partitions)
    index = build_index(pa.Table.from_batches([batch_of(kinds, right)]), step.join, step.added)
    left_chunks = chunks_of(kinds, left, cuts, "left")
    expected = [join.join_chunk(chunk, step, index) for chunk in left_chunks]

    messages = [hash_join.send_left(chunk, step) for chunk in left_chunks]
    messages += [
        hash_join.send_right(chunk, step) for chunk in chunks_of(kinds, right, cuts, "value")
    ]
    shuffler.shuffle(messages)
    returned = [
        message
        for received in exchange(messages, piece_bytes)
        for message in hash_join.join_partition(received, step, *limits)
    ]
    returned += [send_counts(chunk) for chunk in left_chunks]
    shuffler.shuffle(returned)
    restored = [
        chunk
        for received in exchange(returned)
        for chunk in hash_join.restore_range(received, step)
    ]
    restored.sort(key=lambda chunk: chunk[:2])
    assert [chunk._replace(batch=None) for chunk in restored] == [
        chunk._replace(batch=None) for chunk in expected
    ]
    for one, other in zip(restored, expected, strict=True):
        assert rows_of(one.batch) == rows_of(other.batch)
        assert one.batch.schema == other.batch.schema


@pytest.mark.parametrize("bad_seeds", [1, 3])
def test_colliding_hashes_are_told_apart(monkeypatch, bad_seeds):
    """Different keys with one hash do not match.

    The right gets a new seed.
    """
    real = _native.hash_rows

    def weak(arrays, seed=0):
        return real(arrays, seed) % np.uint64(3 if seed < bad_seeds else 1 << 63)

    monkeypatch.setattr(_native, "hash_rows", weak)
    right = pa.table({"k": list(range(50)), "v": list(range(50))})
    index = build_index(right, Join("b", (("k", "k"),)), [("v", "v")])
    assert index.keys.seed == bad_seeds
    monkeypatch.setattr(
        _native, "hash_rows", lambda arrays, _: np.repeat(index.keys.hashes[:1], len(arrays[0]))
    )
    found = key_index.find_keys(index.keys, [pa.array(range(100))])
    assert (found >= 0).sum() == 1


def test_empty_sides():
    """A join with an empty side has the right columns.

    It counts nothing.
    """
    step = step_of([pa.int64()], "left")
    index = build_index(pa.Table.from_batches([], step.source_plan.schema), step.join, step.added)
    for rows in ([], [(1, 10), (None, 20)]):
        joined, counts = join_batch(batch_of([pa.int64()], rows, "left"), index, step.join)
        assert joined.to_pylist() == [
            {"k0": key, "left": value, "right": None} for key, value in rows
        ]
        assert joined.schema == step.schema
        assert counts == {
            "matched/0": 0,
            "unmatched/0": len(rows),
            "added/0": 0,
            "null_keys/0": len(rows) // 2,
        }


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [("N1", 1), ("N2", 1), ("N3", 1), ("N2", 1), ("N3", 1), ("N2", 1)],
            r"planes: found tail='N2', year=1 3 times \(and 1 more keys occur more than once\), expected once",
        ),
        (
            [("N1", 1), ("N1", 1)],
            r"planes: found tail='N1', year=1 2 times, expected once.*key: \[tail, year\]",
        ),
    ],
)
def test_repeated_key_is_an_error_that_shows_it(rows, message):
    """The first repeated key is shown with its number of rows."""
    table = pa.record_batch({"tail": [row[0] for row in rows], "year": [row[1] for row in rows]})
    index = key_index.index_keys(table.columns)
    with pytest.raises(DataError, match=message):
        join.check_unique(index, table, ("tail", "year"), "planes")


def test_unique_keys_pass():
    """Unique keys are counted.

    Rows with a null in a key column may repeat.
    """
    table = pa.record_batch({"tail": ["N1", "N1", None, None], "year": [1, 2, 1, 1]})
    assert (
        join.check_unique(key_index.index_keys(table.columns), table, ("tail", "year"), "planes")
        == 2
    )


def source_plan(
    name, size_bytes=100, format_="csv", compression=None, suffix="csv", key=(), **fields
):
    schema = pa.schema(list(fields.items()))
    file = FileInfo(f"{name}.{suffix}", size_bytes)
    return SourcePlan(
        Source(name, (file.path,), compression=compression, key=key),
        format_,
        (file,),
        schema,
        schema,
        (),
    )


FLIGHTS = source_plan("flights", tail=pa.string(), hour=pa.int64(), origin=pa.string())


def test_plan_join_names_columns_and_chains():
    """Later joins see earlier columns.

    Right keys are not added; a prefix names the rest.
    """
    planes = source_plan("planes", tailnum=pa.string(), model=pa.string(), hour=pa.int64())
    models = source_plan("models", model=pa.string(), seats=pa.int64())
    plan = plan_module.plan_join(
        (
            Join("planes", (("tail", "tailnum"),), prefix="plane_"),
            Join("models", (("plane_model", "model"),), how="inner"),
        ),
        FLIGHTS,
        {"planes": planes, "models": models},
    )
    assert plan.schema.names == ["tail", "hour", "origin", "plane_model", "plane_hour", "seats"]
    assert [step.strategy for step in plan.steps] == ["broadcast", "broadcast"]
    assert plan.steps[0].schema.names == plan.schema.names[:-1]


@pytest.mark.parametrize(
    ("size_bytes", "settings_", "strategy", "expected", "partitions"),
    [
        (64 << 20, {}, "auto", "broadcast", 0),
        ((64 << 20) + 1, {}, "auto", "hash", 16),
        (1 << 30, {}, "auto", "hash", 16),
        (2 << 30, {}, "auto", "hash", 32),
        (1 << 30, {}, "broadcast", "broadcast", 0),
        (1, {}, "hash", "hash", 16),
        (20 << 20, {"suffix": "csv.gz"}, "auto", "hash", 16),
        (20 << 20, {"suffix": "csv.gz", "compression": "none"}, "auto", "broadcast", 0),
        (20 << 20, {"compression": "zstd"}, "auto", "hash", 16),
        (20 << 20, {"format_": "parquet", "suffix": "parquet"}, "auto", "hash", 16),
        (20 << 20, {"format_": "arrow", "suffix": "arrow"}, "auto", "broadcast", 0),
    ],
)
def test_strategy_follows_the_right_sources_size(
    size_bytes, settings_, strategy, expected, partitions
):
    """Small right sources are broadcast, large ones partitioned; the recipe decides first."""
    right = source_plan("planes", size_bytes, tail=pa.string(), seats=pa.int64(), **settings_)
    step = plan_module.plan_join(
        (Join("planes", (("tail", "tail"),), strategy=strategy),), FLIGHTS, {"planes": right}
    ).steps[0]
    assert (step.strategy, step.partitions) == (expected, partitions)


def test_plan_join_reports_all_problems_at_once():
    """Unknown columns, different types, list keys and clashing names are all reported."""
    planes = source_plan("planes", tailnum=pa.string(), hour=pa.float64(), origin=pa.string())
    prices = source_plan("prices", hour=pa.string(), tags=pa.list_(pa.string()))
    with pytest.raises(RecipeProblems) as caught:
        plan_module.plan_join(
            (
                Join("planes", (("tall", "tailnum"), ("hour", "hours"))),
                Join("planes", (("hour", "hour"),), prefix="a_"),
                Join("prices", (("hour", "hour"), ("a_tailnum", "tags"))),
            ),
            FLIGHTS,
            {"planes": planes, "prices": prices},
        )
    problems = caught.value.problems
    assert [problem.path for problem in problems] == [
        ("join", 0, "on"),
        ("join", 0, "on"),
        ("join", 0),
        ("join", 1, "on"),
        ("join", 2, "on"),
        ("join", 2, "on"),
    ]
    for problem, said in zip(
        problems,
        [
            "found 'tall', expected one of the columns so far. Did you mean 'tail'?",
            "found 'hours', expected one of the columns of source 'planes'. Did you mean 'hour'?",
            "adds 'hour', 'origin', which the rows so far have already",
            (
                "'hour' is int64 and 'hour' of source 'planes' is float64, expected the same type. "
                "Add 'derive: {hour_key: \"hour::DOUBLE\"}' to the source on the left"
            ),
            "Add 'derive: {hour_key: \"TRY_CAST(hour AS BIGINT)\"}' to source 'prices'",
            "column 'tags' is a list, expected a scalar to join on",
        ],
        strict=True,
    ):
        assert said in problem.message


def write_csv(folder, name, lines):
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture
def flights(tmp_path):
    """Plans of two tables: flights and planes.

    There are 40 flights in two files, and 10 planes, two of them twice.
    """
    for half in range(2):
        rows = [f"N{number * 7 % 13},{number}" for number in range(half * 20, half * 20 + 20)]
        write_csv(tmp_path, f"flights{half}.csv", ["tail,id", *rows, ",99"])
    planes = [f"N{number},{number * 10}" for number in (0, 1, 2, 3, 4, 5, 6, 7, 3, 5)]
    write_csv(tmp_path, "planes.csv", ["tail,seats", *planes, ",1"])
    return (
        plan_source(Source("flights", ("flights*.csv",)), str(tmp_path)),
        plan_source(Source("planes", ("planes.csv",)), str(tmp_path)),
    )


def describe(chunk):
    return (
        chunk.range_number,
        chunk.part,
        chunk.batch.to_pylist(),
        sorted(chunk.counts.items()),
        chunk.crc32c,
    )


def joined_one_by_one(plan, base):
    """The broadcast join without Beam: every chunk through every step."""
    indexes = [join.load_index(step, reject=False) for step in plan.steps]
    for byte_range in base.ranges:
        for chunk in read.read_range(base, byte_range, {}, reject=False):
            joined = chunk
            for step, index in zip(plan.steps, indexes, strict=True):
                joined = join.join_chunk(joined, step, index)
            yield describe(joined)


@pytest.mark.parametrize("strategies", [("broadcast", "hash"), ("hash", "broadcast")])
def test_strategies_agree_in_a_pipeline(flights, tmp_path, strategies):
    """Broadcast and hash joins give the chunks of the pure functions."""
    base, planes = flights
    joins = (
        Join("planes", (("tail", "tail"),), "left", strategy=strategies[0]),
        Join("planes", (("tail", "tail"),), "inner", prefix="again_", strategy=strategies[1]),
    )
    plan = plan_module.plan_join(joins, base, {"planes": planes})
    expected = list(joined_one_by_one(plan, base))
    # 19 flights of planes that occur once; 3 of each of two planes that occur twice, joined twice:
    # 19 + 2 * 3 * 4.
    assert sum(len(rows) for _, _, rows, *_ in expected) == 43
    folder = str(tmp_path / "exchange")
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        joined = (
            pipeline
            | "Base" >> read.ReadChunks(base, reject=False)
            | join.JoinChunks(plan, folder, reject=False)
        )
        assert_that(joined | beam.Map(describe), equal_to(expected))


JOIN_PARTITION = hash_join.join_partition
LEFT_ROWS: list[int] = []


def join_counted(received, step):
    """Joins a piece of a partition, and notes its left rows."""
    left = (packed.batch for payload in received.payloads(1) for packed in unpack(payload))
    LEFT_ROWS.append(sum(batch.num_rows for batch in left))
    return JOIN_PARTITION(received, step)


@pytest.mark.parametrize("merges", [False, True])
def test_left_rows_of_one_key_are_spread(merges, tmp_path, monkeypatch):
    """No task joins all of them; the result is that of broadcast."""
    monkeypatch.setattr(files, "is_object", lambda path: merges and "exchange" in path)
    monkeypatch.setattr(meet, "PIECE_BYTES", 2_000)
    monkeypatch.setattr(merged_files, "MERGED_BYTES", 3_000)
    monkeypatch.setattr(hash_join, "join_partition", join_counted)
    LEFT_ROWS.clear()
    for number in range(40):
        rows = [
            f"N{row % 9 if row % 3 else 1},{row}" for row in range(number * 50, number * 50 + 50)
        ]
        write_csv(tmp_path, f"left{number:02}.csv", ["tail,id", *rows])
    write_csv(tmp_path, "right.csv", ["tail,seats", "N1,10", "N2,20", "N1,30"])
    base, right = (plan_source(Source(name, (f"{name}*.csv",)), str(tmp_path)) for name in SIDES)
    made = Join("right", (("tail", "tail"),), strategy="hash")
    plan = plan_module.plan_join((made,), base, {"right": right})
    with measured(tmp_path / "sizes") as largest, beam.Pipeline("FnApiRunner") as pipeline:
        chunks = pipeline | read.ReadChunks(base, reject=False)
        joined = chunks | join.JoinChunks(plan, str(tmp_path / "exchange"), reject=False)
        expected = list(joined_one_by_one(plan, base))
        assert_that(joined | beam.Map(describe), equal_to(expected))
    assert sum(LEFT_ROWS) == 40 * 50
    assert max(LEFT_ROWS) < 0.1 * sum(LEFT_ROWS)
    [crossed] = [size for step, size in largest.items() if "MeetInPartitions/Spread" in step]
    assert 0 < crossed <= MAX_ELEMENT_BYTES


READS: list[str] = []


def test_broadcast_reads_each_right_source_once_for_each_join(flights, monkeypatch):
    """A process reads a right source once for each join.

    The number of chunks and threads does not matter.
    """
    base, planes = flights
    joins = (
        Join("planes", (("tail", "tail"),)),
        Join("planes", (("tail", "tail"),), prefix="again_"),
    )
    plan = plan_module.plan_join(joins, base, {"planes": planes})
    real = read.read_table

    def counting(source_plan, reject):
        READS.append(source_plan.source.name)
        return real(source_plan, reject)

    batch = real(base, reject=False)[0].to_batches()[0]
    monkeypatch.setattr(join.read, "read_table", counting)
    options = PipelineOptions(direct_num_workers=2, direct_running_mode="multi_threading")
    READS.clear()
    with beam.Pipeline(runner="FnApiRunner", options=options) as pipeline:
        chunks = pipeline | beam.Create([Chunk(number, 0, batch, {}) for number in range(20)])
        chunks | beam.Reshuffle() | join.JoinChunks(plan, "", reject=False)
    assert READS == ["planes", "planes"]


def test_right_sources_are_counted_once(flights, tmp_path):
    """A right source that is joined twice has its rows counted once."""
    base, planes = flights
    joins = (
        Join("planes", (("tail", "tail"),)),
        Join("planes", (("tail", "tail"),), prefix="again_"),
    )
    plan = plan_module.plan_join(joins, base, {"planes": planes})
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        counted = pipeline | join.CountRightSources(plan, str(tmp_path), reject=False)
        summary = counted.chunk_counts | beam.MapTuple(
            lambda source, own: (source, own.range_number, own.counts["read"], own.crc32c is None)
        )
        assert_that(summary, equal_to([("planes", 0, 11, False)]))


def test_no_joins(flights, tmp_path):
    """Without joins chunks pass unchanged, and nothing is counted."""
    base, _ = flights
    plan = plan_module.plan_join((), base, {})
    assert plan.schema == base.schema
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        joined = (
            pipeline | "Base" >> read.ReadChunks(base) | join.JoinChunks(plan, "", reject=False)
        )
        assert_that(joined | beam.Map(describe), equal_to(list(joined_one_by_one(plan, base))))
        counted = pipeline | join.CountRightSources(plan, str(tmp_path), reject=False)
        assert_that(counted.chunk_counts, equal_to([]), label="CheckCounts")


@pytest.mark.parametrize("strategy", ["broadcast", "hash"])
def test_key_of_a_right_source_is_checked(flights, strategy, tmp_path):
    """A repeated key fails the run with either strategy, and is shown."""
    base, planes = flights
    planes = dataclasses.replace(planes, source=dataclasses.replace(planes.source, key=("tail",)))
    plan = plan_module.plan_join(
        (Join("planes", (("tail", "tail"),), strategy=strategy),), base, {"planes": planes}
    )
    pipeline = beam.Pipeline(runner="FnApiRunner")
    pipeline | join.CountRightSources(plan, str(tmp_path), reject=False)
    with pytest.raises(Exception, match=r"planes: found tail='N[35]' 2 times"):
        pipeline.run()
    if strategy == "broadcast":
        with pytest.raises(DataError, match=r"planes: found tail='N3' 2 times \(and 1 more keys"):
            join.load_index(plan.steps[0], reject=False)


@given(
    st.lists(
        st.tuples(st.sampled_from([None, "a", "b", "c"]), st.none() | st.integers(0, 3)),
        max_size=10,
    ),
    st.lists(st.integers(0, 10), max_size=3),
    st.integers(1, 4),
)
def test_unique_key_over_chunks(rows, cuts, partitions):
    """Keys are unique over all chunks exactly if Counter says so."""
    chunks = chunks_of([pa.string(), pa.int64()], [(*row, 0) for row in rows], cuts, "v")
    counts = collections.Counter(row for row in rows if None not in row)
    source = Source("planes", ("planes.csv",), key=("k0", "k1"))
    all_received = exchange([join.send_keys(chunk, source.key, partitions) for chunk in chunks])
    if not counts or max(counts.values()) == 1:
        keys = (join.check_partition(received, source) for received in all_received)
        assert sum(itertools.chain.from_iterable(keys)) == len(counts)
    else:
        with pytest.raises(DataError, match="times") as caught:
            [list(join.check_partition(received, source)) for received in all_received]
        found = re.search(r"k0='(.)', k1=(\d) (\d+) times", str(caught.value))
        assert counts[found[1], int(found[2])] == int(found[3]) > 1
