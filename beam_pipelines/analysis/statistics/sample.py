"""The sample of rows whose values are counted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from beam_pipelines.core.arrow.hashing import GOLDEN, mix, mix_int

# Another stream of numbers than those of the shuffle and the splits.
_SEED = 0x73616D706C65  # "sample"


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
