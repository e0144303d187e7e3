"""Assigns rows to splits by the counts of classes, to the row.

The classes are the combinations of values of the columns in ``stratify``. Of a class, rows are
ordered by the hash that decides the split without ``stratify``, and cut where the shares end. So a
row changes its split only if it is near a cut, and rows with equal values are apart only there.
"""

from __future__ import annotations

import dataclasses
import fractions
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.analysis.class_shares import ClassShares
from beam_pipelines.core.chunks import ASSIGNED, Chunk
from beam_pipelines.core.errors import DataError
from beam_pipelines.storage import files
from beam_pipelines.transforms import cuts
from beam_pipelines.transforms.classes import code_classes, merge_names, name_classes
from beam_pipelines.transforms.exchange import Message
from beam_pipelines.transforms.meet import MeetByKey
from beam_pipelines.transforms.spill import LoadChunks, SpillChunks
from beam_pipelines.transforms.split import SplitPlan

_STRATIFY = "split.stratify"


def _save_cuts(
    _once: None,
    partitions: Sequence[cuts.SortedKeys],
    names: Mapping[int, str],
    plan: SplitPlan,
    path: str,
) -> str:
    _cut_classes(partitions, names, plan).save(path)
    return path


class _Assign(beam.DoFn):
    """Gives chunks the splits of their rows."""

    def __init__(self, plan: SplitPlan, path: str) -> None:
        self._plan, self._path = plan, path
        self._loaded: cuts.Cuts | None = None

    def process(self, chunk: Chunk) -> Iterator[Chunk]:
        if not chunk.batch.num_rows and self._loaded is None:
            yield chunk
            return
        if self._loaded is None:
            self._loaded = cuts.Cuts.load(self._path)
        yield _with_assigned(chunk, _assign_rows(chunk, self._plan, self._loaded))


def load_shares(plan: SplitPlan, path: str) -> ClassShares:
    """Reads the rows of each class in the splits.

    The file is that of ``AssignSplits``.
    """
    arrays, names = cuts.unpack_arrays(files.read_bytes(path))
    rows = dict(zip(names, arrays["rows"].tolist(), strict=True))
    shares = dict(zip(plan.names, plan.shares, strict=True))
    return ClassShares(plan.stratify, shares, rows)


@dataclasses.dataclass
class AssignSplits(beam.PTransform):
    """Assigns rows to splits, so that each class has its shares.

    Input: ``Chunk`` elements. Output: a dict with ``chunks``: the same with the column
    ``ASSIGNED``; and ``shares``: the path of one file with ``names`` and ``rows`` of the classes.

    Attributes:
      plan: with columns to ``stratify`` by.
      partitions: of the keys.
      path: of the file.
      scratch: folders of this step only, for keys and chunks.
      folder: for the exchange, used by this step only; ``None`` sends keys through the engine.
      deletes: as in ``LoadChunks``.
    """

    plan: SplitPlan
    partitions: int
    path: str
    scratch: tuple[str, str]
    folder: str | None
    deletes: bool = False

    def expand(self, chunks: beam.PCollection[Chunk]) -> dict[str, beam.PCollection[Any]]:
        plan = self.plan
        names = (
            chunks
            | "NameClasses" >> beam.Map(_names_in, plan.stratify, _STRATIFY)
            | "MergeNames" >> beam.CombineGlobally(lambda named: merge_names(named, _STRATIFY))
        )
        once = chunks.pipeline | "Once" >> beam.Create([None], reshuffle=False)
        sorted_keys = chunks | "SortKeys" >> MeetByKey(
            partial(_send_row_keys, plan=plan, partitions=self.partitions),
            partial(cuts.sort_keys, folder=self.scratch[0], key=_STRATIFY),
            self.folder,
        )
        saved = once | "Divide" >> beam.Map(
            _save_cuts,
            beam.pvalue.AsList(sorted_keys),
            beam.pvalue.AsSingleton(names),
            plan,
            self.path,
        )
        assigned = (
            chunks
            | "SpillChunks" >> SpillChunks(self.scratch[1])
            | "LoadChunks" >> LoadChunks((saved,), self.deletes)
            | "Assign" >> beam.ParDo(_Assign(plan, self.path))
        )
        return {"chunks": assigned, "shares": saved}


def _send_row_keys(chunk: Chunk, plan: SplitPlan, partitions: int) -> Message:
    """Sends class and hash of each row of a chunk."""
    coded = code_classes(chunk.batch, plan.stratify, _STRATIFY)
    return cuts.send_keys(chunk[:2], coded.of_rows, plan.hashes_of(chunk.batch), partitions)


def _names_in(chunk: Chunk, columns: tuple[str, ...], key: str) -> dict[int, str]:
    """Returns the names of the classes of a chunk."""
    return name_classes(chunk.batch, columns, code_classes(chunk.batch, columns, key))


def _cut_classes(
    partitions: Sequence[cuts.SortedKeys], names: Mapping[int, str], plan: SplitPlan
) -> cuts.Cuts:
    """Cuts the rows of each class by the shares.

    Raises:
      DataError: a class has fewer rows than there are splits.
    """
    counted = cuts.count_classes(partitions)
    _check_sizes(counted, names, plan)
    return cuts.find_cuts(partitions, names, divide_classes(list(counted.values()), plan.shares))


def _check_sizes(counted: Mapping[int, int], names: Mapping[int, str], plan: SplitPlan) -> None:
    """Raises ``DataError`` if a class is too small to be divided.

    Args:
      counted: class -> its rows.
      names: class -> its name.
      plan: of the split.
    """
    small = [number for number, count in counted.items() if count < len(plan.names)]
    if not small:
        return
    shown = "; ".join(f"{names[number]}: {counted[number]:,}" for number in small[:5])
    more = f"; and {len(small) - 5:,} more classes" if len(small) > 5 else ""
    by = ", ".join(plan.stratify)
    raise DataError(
        f"{_STRATIFY}, classes of {by}: found rows of {shown}{more}; expected at least "
        f"{len(plan.names)} of each class, one for each split; nothing was written. Leave the rows "
        "out with 'filter', or unite rare classes with 'derive'."
    )


def _assign_rows(chunk: Chunk, plan: SplitPlan, cuts: cuts.Cuts) -> npt.NDArray[np.uint8]:
    """Returns the number of each row's split."""
    coded = code_classes(chunk.batch, plan.stratify, _STRATIFY)
    return cuts.pieces_of(chunk[:2], coded.of_rows, plan.hashes_of(chunk.batch))


def _with_assigned(chunk: Chunk, assigned: npt.NDArray[np.uint8]) -> Chunk:
    """Returns the chunk with the splits of its rows as a column."""
    batch = chunk.batch
    return chunk._replace(
        batch=pa.RecordBatch.from_arrays(
            [*batch.columns, pa.array(assigned)], [*batch.schema.names, ASSIGNED]
        )
    )


def whole_weights(shares: Sequence[float]) -> list[int]:
    """Returns whole numbers in the proportion of the decimals of shares."""
    decimals = [fractions.Fraction(repr(share)) for share in shares]
    common = math.lcm(*(decimal.denominator for decimal in decimals))
    return [int(decimal * common) for decimal in decimals]


def divide_classes(rows: Sequence[int], shares: Sequence[float]) -> npt.NDArray[np.int64]:
    """Divides the rows of each class among splits.

    A split gets the rows of its share, rounded up or down. A rest goes first to splits that have no
    row of the class yet, then to those that lack the most rows in all classes so far, so that the
    sums are near the shares, too.

    Args:
      rows: of each class; the order of the classes matters.
      shares: of the splits, above 0.

    Returns:
      int64[classes, splits]; the sums of its rows are ``rows``.
    """
    weights = whole_weights(shares)
    whole = sum(weights)
    divided = np.zeros((len(rows), len(weights)), np.int64)
    lacking = [0] * len(weights)  # in units of 1 / whole rows
    for number, count in enumerate(rows):
        own = [count * weight // whole for weight in weights]
        rests = [count * weight % whole for weight in weights]
        lacking = [lack + rest for lack, rest in zip(lacking, rests, strict=True)]
        left = count - sum(own)
        order = sorted(
            (split for split, rest in enumerate(rests) if rest),
            key=lambda split: (own[split] > 0, -lacking[split], split),
        )
        for split in order[:left]:
            own[split] += 1
            lacking[split] -= whole
        divided[number] = own
    return divided
