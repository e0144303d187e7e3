"""Divides the rows of each class by shares, exact to one row.

The classes are the combinations of values of the columns in ``stratify``. Of a class, rows are
ordered by the hash that decides the split without ``stratify``, and cut where the shares end. So a
row changes its split only if it is near a cut, and rows with equal values are apart only there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.chunks import ASSIGNED, Chunk
from beam_pipelines.core.errors import DataError
from beam_pipelines.transforms.classes import code_classes, name_classes
from beam_pipelines.transforms.cuts import (
    Cuts,
    SortedKeys,
    count_classes,
    find_cuts,
    send_keys,
)
from beam_pipelines.transforms.exchange import Message
from beam_pipelines.transforms.quotas import divide_classes
from beam_pipelines.transforms.split import SplitPlan

STRATIFY = "split.stratify"


def send_row_keys(chunk: Chunk, plan: SplitPlan, partitions: int) -> Message:
    """Sends class and hash of each row of a chunk."""
    coded = code_classes(chunk.batch, plan.stratify, STRATIFY)
    return send_keys(chunk[:2], coded.of_rows, plan.hashes_of(chunk.batch), partitions)


def names_in(chunk: Chunk, columns: tuple[str, ...], key: str) -> dict[int, str]:
    """Returns the names of the classes of a chunk."""
    return name_classes(chunk.batch, columns, code_classes(chunk.batch, columns, key))


def cut_classes(
    partitions: Sequence[SortedKeys], names: Mapping[int, str], plan: SplitPlan
) -> Cuts:
    """Cuts the rows of each class by the shares.

    Raises:
      DataError: a class has fewer rows than there are splits.
    """
    counted = count_classes(partitions)
    check_sizes(counted, names, plan, "rows")
    return find_cuts(partitions, names, divide_classes(list(counted.values()), plan.shares))


def check_sizes(
    counted: Mapping[int, int], names: Mapping[int, str], plan: SplitPlan, what: str
) -> None:
    """Raises ``DataError`` if a class is too small to be divided.

    Args:
      counted: class -> its rows, or groups.
      names: class -> its name.
      plan: of the split.
      what: what is counted.
    """
    small = [number for number, count in counted.items() if count < len(plan.names)]
    if not small:
        return
    shown = "; ".join(f"{names[number]}: {counted[number]:,}" for number in small[:5])
    more = f"; and {len(small) - 5:,} more classes" if len(small) > 5 else ""
    by = ", ".join(plan.stratify)
    raise DataError(
        f"{STRATIFY}, classes of {by}: found {what} of {shown}{more}; expected at least "
        f"{len(plan.names)} of each class, one for each split; nothing was written. Leave the rows "
        "out with 'filter', or unite rare classes with 'derive'."
    )


def assign_rows(chunk: Chunk, plan: SplitPlan, cuts: Cuts) -> npt.NDArray[np.uint8]:
    """Returns the number of each row's split."""
    coded = code_classes(chunk.batch, plan.stratify, STRATIFY)
    return cuts.pieces_of(chunk[:2], coded.of_rows, plan.hashes_of(chunk.batch))


def with_assigned(chunk: Chunk, assigned: npt.NDArray[np.uint8]) -> Chunk:
    """Returns the chunk with the splits of its rows as a column."""
    batch = chunk.batch
    return chunk._replace(
        batch=pa.RecordBatch.from_arrays(
            [*batch.columns, pa.array(assigned)], [*batch.schema.names, ASSIGNED]
        )
    )
