"""The sample that estimates shard sizes is bounded and unbiased."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.limits import MIB
from beam_pipelines.recipe.output import Output
from beam_pipelines.transforms import size_sample


@pytest.mark.parametrize(
    ("size_bytes", "num_ranges", "share"),
    [
        (0, 1, size_sample.Share(1.0, 8 * MIB)),
        (4 * MIB, 1, size_sample.Share(1.0, 8 * MIB)),
        (16 * MIB, 2, size_sample.Share(0.25, 4 * MIB)),
        (4096 * MIB, 256, size_sample.Share(1 / 1024, MIB // 16)),
    ],
)
def test_share(size_bytes: int, num_ranges: int, share: size_sample.Share) -> None:
    """The sample is 4 MiB on disk, and 8 MiB in memory.

    All ranges share the memory, with at least 64 KiB each.
    """
    assert size_sample.sample_share(size_bytes, num_ranges) == share


@pytest.mark.parametrize("growth", [1, 30], ids=["as on disk", "30 times as large in memory"])
@pytest.mark.parametrize("shuffle", [True, False])
def test_a_sample_is_bounded_and_tells_what_all_rows_do(growth: int, shuffle: bool) -> None:
    """Estimates are within 5 % of all rows.

    The rows have different lengths.
    """
    random = np.random.default_rng(5)
    chunks = [
        Chunk(
            number,
            part,
            pa.record_batch({"t": [random.bytes(20 + 40 * (number % 8))] * 20_000}),
            {},
        )
        for number in range(16)
        for part in range(2)
    ]
    size = sum(chunk.batch.nbytes for chunk in chunks)
    share = size_sample.sample_share(size // growth, 16)
    samples = [
        sample
        for chunk in chunks
        for sample in size_sample.sample_rows(chunk, share, shuffle=shuffle)
    ]
    most = 1.5 * 8 * MIB + 16 * (not shuffle) * 1000 * 300
    assert sum(sample.batch.nbytes for sample in samples) < most
    compressed, framed = size_sample.estimate_row_bytes(samples, Output(shuffle=shuffle))
    joined = size_sample.joined_samples(reversed(samples))  # as one chunk
    assert size_sample.estimate_row_bytes([*joined], Output(shuffle=shuffle)) == (
        compressed,
        framed,
    )
    _, exact = size_sample.estimate_row_bytes(chunks, Output(shuffle=shuffle))
    assert framed == pytest.approx(exact, rel=0.05 if shuffle else 0.3)
