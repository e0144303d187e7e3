"""Takes the first rows of the base source, or a share.

Which rows are taken follows from their places in the source, never from the number of workers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.arrow.hashing import GOLDEN, mix, mix_int
from beam_pipelines.core.chunks import Chunk, add_counts

# Another stream of numbers than those of the shuffle and the splits.
_SEED = 0x73616D706C65  # "sample"
_STREAM = 0x74616B65  # "take"


@dataclasses.dataclass(frozen=True)
class Take:
    """The rows that a run takes of its base source.

    Attributes:
      limit: number of the first rows, before ``share``; ``None``: all.
      share: of the rows, above 0 and below 1; ``None``: all.
      last_range: number of the range with the last of the first rows; later ranges are not read.
      last_rows: rows of this range that are taken.
      unread_bytes: of the ranges that are not read.
    """

    limit: int | None = None
    share: float | None = None
    last_range: int = -1
    last_rows: int = 0
    unread_bytes: int = 0


def take_chunks(take: Take, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
    """Yields the chunks of one range with the taken rows.

    Their counts have the others as ``left_out``. Nothing is read after the last row of a limit: a
    compressed file is one range of any size.
    """
    before = 0
    for chunk in chunks:
        num_rows = chunk.batch.num_rows
        batch = chunk.batch
        if chunk.range_number == take.last_range:
            batch = batch.slice(0, max(0, min(num_rows, take.last_rows - before)))
        before += num_rows
        if take.share is not None:
            address = (_STREAM, chunk.range_number, chunk.part)
            batch = batch.filter(pa.array(sample_rows(take.share, address, batch.num_rows)))
        left_out = num_rows - batch.num_rows
        yield chunk._replace(batch=batch, counts=add_counts(chunk.counts, {"left_out": left_out}))
        if chunk.range_number == take.last_range and before >= take.last_rows:
            return


def sample_rows(share: float, address: Sequence[int], rows: int) -> npt.NDArray[np.bool_]:
    """Returns bool[rows]: whether each row of a batch is in the sample.

    It depends on the share, the address and the row's position only. A larger share has all rows of
    a smaller one.

    Args:
      share: of the rows that are in the sample on average, above 0 and up to 1.
      address: numbers of the batch, the same on every run.
      rows: of the batch.
    """
    seed = _SEED
    for number in address:
        seed = mix_int(seed + GOLDEN + number)
    keys = mix(np.arange(rows, dtype=np.uint64) * np.uint64(GOLDEN) + np.uint64(seed))
    # 53 bits, which a float64 holds exactly.
    chosen: npt.NDArray[np.bool_] = (keys >> np.uint64(11)) < share * (1 << 53)
    return chosen
