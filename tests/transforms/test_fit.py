"""transforms/fit.py fits the same to a split for every cut into chunks.

The order and the carriers of the chunks do not matter either.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.arrow.ipc import bytes_to_batches
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import DataError
from beam_pipelines.encodings.apply import encode_batch
from beam_pipelines.encodings.plan import EncodePlan, with_fitted
from beam_pipelines.encodings.planner import plan_encode
from beam_pipelines.files.beam import files, listing
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.transforms import fit
from beam_pipelines.transforms.encode import load_encodings, load_fitted
from beam_pipelines.transforms.exchange import Received

COLUMNS = pa.schema(
    [("x", pa.float64()), ("n", pa.int64()), ("t", pa.string()), ("w", pa.float64())]
)
ENCODE = """
  z: [{column: x}, {fill: mean}, log1p, z_score]
  q: [{column: x}, {bucketize: 3}]
  n: {fill: most_frequent}
  v: [{column: t}, {vocabulary: {top_k: 3, num_oov: 2}}]
  zz: [{column: z}, z_score]
"""

rows = st.lists(
    st.tuples(
        st.none() | st.sampled_from([0.0, 0.5, 3.25, 1e6, math.nan]) | st.floats(0, 1e3, width=32),
        st.integers(-5, 5),
        st.none() | st.sampled_from(["a", "b", "c", "d", "é", ""]),
        st.integers(0, 8).map(lambda eighths: eighths / 8),
    ),
    max_size=40,
).map(lambda found: [(1.5, 1, "a", 1.0), *found])


def plan(encode: str = ENCODE) -> EncodePlan:
    """Plans the encodings of a recipe's ``encode``, given as YAML."""
    recipe = parse_recipe(f"name: x\nsources: {{rows: rows.csv}}\nencode:{encode}", "recipe.yaml")
    return plan_encode(recipe, COLUMNS)


def batch_of(values: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    """Returns rows as a batch."""
    columns = list(zip(*values, strict=True)) or [()] * len(COLUMNS)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, COLUMNS, strict=True)],
        schema=COLUMNS,
    )


def fit_all(planned: EncodePlan, batches: Sequence[pa.RecordBatch], partitions: int) -> EncodePlan:
    """Fits every read, chunk by chunk and partition by partition, without Beam."""
    for read in range(planned.reads):
        parts = [fit.analyze_batch(planned, read, batch, "f") for batch in batches]
        numbers = [
            {key: value for key, value in part.items() if not isinstance(value, pa.RecordBatch)}
            for part in parts
        ]
        analyses: dict[Any, Any] = dict(fit.merge_numbers(numbers))
        payloads: dict[tuple[int, ...], list[bytes]] = {}
        for part, analysis in enumerate(parts):
            sums = {
                key: [value] for key, value in analysis.items() if isinstance(value, pa.RecordBatch)
            }
            for partition, payload in fit.pack_sums((0, part), sums, partitions).payloads.items():
                payloads.setdefault(partition, []).append(payload)
        selected = [
            part
            for partition, contents in payloads.items()
            for message in fit.select_partition(
                Received(partition, tuple(contents), ((0,),) * len(contents)), planned
            )
            for part in message.payloads.items()
        ]
        for key, value in parts[0].items():
            if isinstance(value, pa.RecordBatch):
                analyses[key] = value.slice(0, 0)
        found: dict[Any, list[pa.RecordBatch]] = {}
        for key, payload in selected:
            found.setdefault(key, []).extend(bytes_to_batches(payload))
        for key, own in found.items():
            analyses[key] = pa.Table.from_batches(own).combine_chunks().to_batches()[0]
        planned = with_fitted(planned, fit.finish_read(planned, read, analyses))
    return planned


@given(rows, st.lists(st.integers(0, 40), max_size=3), st.integers(1, 5))
def test_chunks_and_partitions_do_not_matter(
    values: list[tuple[Any, ...]], cuts: list[int], partitions: int
) -> None:
    """Chunks and partitions do not change encodings.

    The last bits of means may differ.
    """
    planned = plan(ENCODE)
    edges = sorted({0, len(values), *(cut for cut in cuts if cut < len(values))})
    chunks = [batch_of(values[start:end]) for start, end in itertools.pairwise(edges)]
    whole, cut = fit_all(planned, [batch_of(values)], 1), fit_all(planned, chunks, partitions)
    left, right = (encode_batch(fitted, batch_of(values), "f") for fitted in (whole, cut))
    for name in left.schema.names:
        if pa.types.is_floating(left.column(name).type):
            np.testing.assert_allclose(
                left.column(name).to_numpy(zero_copy_only=False),
                right.column(name).to_numpy(zero_copy_only=False),
                rtol=1e-4,
                atol=1e-5,
            )
        else:
            assert left.column(name).equals(right.column(name)), name


@given(rows)
def test_fill_before_a_fit_costs_no_read_and_changes_nothing(values: list[tuple[Any, ...]]) -> None:
    """``fill: mean`` before a fit costs no further read.

    Mean and deviation are those of the filled values.
    """
    fitted = fit_all(plan("\n  x: [{fill: mean}, log1p, z_score]\n"), [batch_of(values)], 1)
    numbers = np.array(
        [math.nan if row[0] is None else row[0] for row in values], np.float32
    ).astype(np.float64)
    known = numbers[~np.isnan(numbers)]
    filled = np.where(np.isnan(numbers), np.float32(known.mean() if len(known) else 0), numbers)
    logs = np.log1p(filled).astype(np.float32).astype(np.float64)
    expected = (logs - logs.mean()) / (logs.std() or 1)
    found = encode_batch(fitted, batch_of(values), "f").column("x").to_numpy()
    if logs.std() > 1e-6 * max(1, abs(logs.mean())):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_sums_are_added_by_key() -> None:
    """Sums of equal keys are added."""
    first = pa.record_batch({"key": ["a", "b"], "count": [1, 2], "sum": [5, 10]})
    second = pa.record_batch({"key": ["b", "c"], "count": [3, 4], "sum": [2, 20]})
    assert sorted(fit.add_sums([first, second]).to_pylist(), key=lambda row: row["key"]) == [
        {"key": "a", "count": 1, "sum": 5},
        {"key": "b", "count": 5, "sum": 12},
        {"key": "c", "count": 4, "sum": 20},
    ]


def test_nothing_to_fit_to_is_an_error_that_says_so() -> None:
    """There is no mean of no numbers."""
    planned = plan("\n  x: {fill: mean}\n")
    with pytest.raises(DataError, match="feature 'x', fill: found no values"):
        fit_all(planned, [batch_of([(None, 1, "a", 1.0)])], 1)


def chunks_of(values: Sequence[tuple[Any, ...]], size: int) -> list[Chunk]:
    """Returns chunks of a few rows, two a range.

    A third of them are in eval.
    """
    batches = [batch_of(values[start : start + size]) for start in range(0, len(values), size)]
    return [
        Chunk(number // 2, number % 2, batch, {}, split="eval" if number % 3 == 2 else "train")
        for number, batch in enumerate(batches)
    ]


def test_stage_gives_the_same_bytes_whatever_carries_it(tmp_path: Any) -> None:
    """Exchange, order and partitions do not change the fitted files."""
    generator = np.random.default_rng(7)
    values = [
        (float(x) if x < 3 else None, int(n), chr(97 + int(t)), float(w))
        for x, n, t, w in zip(
            generator.gamma(1.0, size=600),
            generator.integers(0, 9, 600),
            generator.integers(0, 20, 600),
            generator.random(600),
            strict=True,
        )
    ]
    planned, chunks = plan(), chunks_of(values, 25)
    found = []
    for number, (ordered, size) in enumerate(
        [(chunks, 1), (chunks[::-1], 1), (chunks[::-1], 3 * fit.PARTITION_BYTES)]
    ):
        folder = str(tmp_path / str(number))
        with beam.Pipeline(runner="FnApiRunner") as pipeline:
            fitted = ""
            done: tuple[beam.PCollection[str], ...] = ()
            for read in range(planned.reads):
                source = pipeline | f"Chunks{read}" >> beam.Create(ordered)
                if done:
                    source = source | f"Await{read}" >> beam.Map(
                        lambda chunk, _: chunk, beam.pvalue.AsSingleton(done[0])
                    )
                fit_read = fit.FitEncodings(
                    planned,
                    read,
                    fitted,
                    num_ranges=len(chunks) // 2,
                    size_bytes=size,
                    folder=files.join(folder, f"encodings{read}"),
                    scratch=files.join(folder, f"scratch{read}"),
                    exchange=files.join(folder, f"exchange{read}"),
                )
                fitted, done = fit_read.folder, (source | f"Fit{read}" >> fit_read,)
        last = files.join(folder, f"encodings{planned.reads - 1}")
        found.append(
            {
                files.name_of(item.path): files.read_bytes(item.path)
                for item in listing.list_files(last + "/*")
            }
        )
    assert found[0] == found[1] == found[2]
    pure = fit_all(planned, [chunk.batch for chunk in chunks if chunk.split == "train"], 1)
    staged = load_fitted(planned, str(tmp_path / "0" / "encodings1"))
    assert len(load_encodings(str(tmp_path / "0" / "encodings1"))) == 6
    left, right = (encode_batch(fitted, batch_of(values), "f") for fitted in (pure, staged))
    assert left.column("v").equals(right.column("v"))
    np.testing.assert_allclose(
        left.column("zz").to_numpy(), right.column("zz").to_numpy(), rtol=1e-4, atol=1e-5
    )
