"""The sample that estimates shard sizes is bounded and unbiased."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.limits import MIB
from beam_pipelines.recipe.output import Output
from beam_pipelines.transforms.size_sample import (
    Share,
    estimate_row_bytes,
    joined_samples,
    sample_rows,
    sample_share,
)


@pytest.mark.parametrize(
    ("size_bytes", "num_ranges", "share"),
    [
        (0, 1, Share(1.0, 8 * MIB)),
        (4 * MIB, 1, Share(1.0, 8 * MIB)),
        (16 * MIB, 2, Share(0.25, 4 * MIB)),
        (4096 * MIB, 256, Share(1 / 1024, MIB // 16)),
    ],
)
def test_share(size_bytes: int, num_ranges: int, share: Share) -> None:
    """The sample is 4 MiB on disk, and 8 MiB in memory.

    All ranges share the memory, with at least 64 KiB each.
    """
    assert sample_share(size_bytes, num_ranges) == share


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
    share = sample_share(size // growth, 16)
    samples = [sample for chunk in chunks for sample in sample_rows(chunk, share, shuffle=shuffle)]
    most = 1.5 * 8 * MIB + 16 * (not shuffle) * 1000 * 300
    assert sum(sample.batch.nbytes for sample in samples) < most
    compressed, framed = estimate_row_bytes(samples, Output(shuffle=shuffle))
    joined = joined_samples(reversed(samples))  # as one chunk
    assert estimate_row_bytes([*joined], Output(shuffle=shuffle)) == (compressed, framed)
    _, exact = estimate_row_bytes(chunks, Output(shuffle=shuffle))
    assert framed == pytest.approx(exact, rel=0.05 if shuffle else 0.3)
