"""Assigns rows to splits by the counts of classes, to the row.

The classes are the combinations of values of the columns in ``stratify``. Of a class, rows are
ordered by the hash that decides the split without ``stratify``, and cut where the shares end. So a
row changes its split only if it is near a cut, and rows with equal values are apart only there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.analysis.class_shares import ClassShares
from beam_pipelines.core.chunks import ASSIGNED, Chunk
from beam_pipelines.core.errors import DataError
from beam_pipelines.storage import files
from beam_pipelines.transforms.classes import code_classes, merge_names, name_classes
from beam_pipelines.transforms.cuts import (
    Cuts,
    SortedKeys,
    count_classes,
    find_cuts,
    send_keys,
    sort_keys,
    unpack_arrays,
)
from beam_pipelines.transforms.exchange import Exchange, Message
from beam_pipelines.transforms.group_shares import (
    CountedGroups,
    DealtGroups,
    count_groups,
    deal_groups,
    merge_kinds,
    send_groups,
)
from beam_pipelines.transforms.held_chunks import HoldChunks
from beam_pipelines.transforms.quotas import divide_classes
from beam_pipelines.transforms.split import SplitPlan

_STRATIFY = "split.stratify"


def _send_groups(chunk: Chunk, plan: SplitPlan, partitions: int) -> Message:
    classes = code_classes(chunk.batch, plan.stratify, _STRATIFY).of_rows
    return send_groups(chunk[:2], plan.hashes_of(chunk.batch), classes, partitions)


def _save_cuts(
    _once: None,
    partitions: Sequence[SortedKeys],
    names: Mapping[int, str],
    plan: SplitPlan,
    path: str,
) -> str:
    _cut_classes(partitions, names, plan).save(path)
    return path


def _save_groups(
    _once: None,
    partitions: Sequence[CountedGroups],
    names: Mapping[int, str],
    plan: SplitPlan,
    path: str,
) -> str:
    if not partitions:
        return _save_cuts(None, (), names, plan, path)
    dealt = deal_groups(merge_kinds(partitions), plan.shares, plan.seed)
    classes = dealt.classes.tolist()
    holders = dict(zip(classes, dealt.holders.tolist(), strict=True))
    _check_sizes(holders, names, plan, f"groups of {', '.join(plan.by)}")
    dealt.save(path, [names[number] for number in classes])
    return path


class _Assign(beam.DoFn):
    """Gives chunks the splits of their rows."""

    def __init__(self, plan: SplitPlan, path: str) -> None:
        self._plan, self._path = plan, path
        self._loaded: Cuts | DealtGroups | None = None

    def process(self, chunk: Chunk) -> Iterator[Chunk]:
        kind = DealtGroups if self._plan.has_groups else Cuts
        if self._loaded is None and chunk.batch.num_rows:
            self._loaded = kind.load(self._path)
        if isinstance(self._loaded, DealtGroups):
            assigned = self._loaded.splits_of(self._plan.hashes_of(chunk.batch))
        elif self._loaded is not None:
            assigned = _assign_rows(chunk, self._plan, self._loaded)
        else:
            yield chunk
            return
        yield _with_assigned(chunk, assigned)


def load_shares(plan: SplitPlan, path: str) -> ClassShares:
    """Reads the rows of each class in the splits.

    The file is that of ``AssignSplits``.
    """
    arrays, names = unpack_arrays(files.read_bytes(path))
    groups = len(arrays.get("groups", ()))
    rows = dict(zip(names, arrays["rows"].tolist(), strict=True))
    shares = dict(zip(plan.names, plan.shares, strict=True))
    return ClassShares(plan.stratify, plan.by if groups else (), shares, groups, rows)


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
      deletes: as in ``HoldChunks``.
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
        if plan.has_groups:
            counted = (
                chunks
                | "SendGroups" >> beam.Map(_send_groups, plan, self.partitions)
                | "Meet" >> Exchange(self.folder)
                | "CountGroups" >> beam.Map(count_groups, self.scratch[0])
            )
        else:
            counted = (
                chunks
                | "SendKeys" >> beam.Map(_send_row_keys, plan, self.partitions)
                | "Meet" >> Exchange(self.folder)
                | "SortKeys" >> beam.Map(sort_keys, self.scratch[0], _STRATIFY)
            )
        saved = once | "Divide" >> beam.Map(
            _save_groups if plan.has_groups else _save_cuts,
            beam.pvalue.AsList(counted),
            beam.pvalue.AsSingleton(names),
            plan,
            self.path,
        )
        held = chunks | "Wait" >> HoldChunks(saved, self.scratch[1], self.deletes)
        assigned = held | "Assign" >> beam.ParDo(_Assign(plan, self.path))
        return {"chunks": assigned, "shares": saved}


def _send_row_keys(chunk: Chunk, plan: SplitPlan, partitions: int) -> Message:
    """Sends class and hash of each row of a chunk."""
    coded = code_classes(chunk.batch, plan.stratify, _STRATIFY)
    return send_keys(chunk[:2], coded.of_rows, plan.hashes_of(chunk.batch), partitions)


def _names_in(chunk: Chunk, columns: tuple[str, ...], key: str) -> dict[int, str]:
    """Returns the names of the classes of a chunk."""
    return name_classes(chunk.batch, columns, code_classes(chunk.batch, columns, key))


def _cut_classes(
    partitions: Sequence[SortedKeys], names: Mapping[int, str], plan: SplitPlan
) -> Cuts:
    """Cuts the rows of each class by the shares.

    Raises:
      DataError: a class has fewer rows than there are splits.
    """
    counted = count_classes(partitions)
    _check_sizes(counted, names, plan, "rows")
    return find_cuts(partitions, names, divide_classes(list(counted.values()), plan.shares))


def _check_sizes(
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
        f"{_STRATIFY}, classes of {by}: found {what} of {shown}{more}; expected at least "
        f"{len(plan.names)} of each class, one for each split; nothing was written. Leave the rows "
        "out with 'filter', or unite rare classes with 'derive'."
    )


def _assign_rows(chunk: Chunk, plan: SplitPlan, cuts: Cuts) -> npt.NDArray[np.uint8]:
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
