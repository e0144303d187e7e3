"""Finds offending rows by reading the source again.

Statistics count wrong values but do not locate them. So correct data cost nothing. After an
anomaly, byte ranges are read, joined and selected again (``pipeline/row_chain.py``), with the
column ``ROW``, up to a limit of bytes.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.anomalies import SplitAnomalies
from beam_pipelines.analysis.anomalies.rules.offenders import can_blame_rows, offending_rows
from beam_pipelines.analysis.anomalies.rules.reason import Info, Reason
from beam_pipelines.checks.check import FoundRow
from beam_pipelines.checks.expect import show_value
from beam_pipelines.core.arrow.python_values import python_rows, python_value
from beam_pipelines.core.chunks import ROW, Chunk, Rejected
from beam_pipelines.core.errors import mask
from beam_pipelines.core.formatting import shorten
from beam_pipelines.core.layout.dataset_layout import REJECTED
from beam_pipelines.core.layout.schema_features import domains_of, features_of, flattened
from beam_pipelines.core.limits import MIB
from beam_pipelines.core.places import Pair, Place
from beam_pipelines.core.private import HIDDEN
from beam_pipelines.files.beam import file_changes, files
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.row_chain import RowChain
from beam_pipelines.sources.plan import ByteRange
from beam_pipelines.sources.source_format import Position
from beam_pipelines.transforms.select.errors import SelectError
from beam_pipelines.transforms.select.reject import explain, shown_row_of

# Rows listed for each anomaly, and bytes read to find them, which takes some seconds.
ROWS_PER_ANOMALY = 10
MAX_READ_BYTES = 1024 * MIB
# Characters of a row in a message.
_LONGEST_TEXT = 100


class AnomalyKey(NamedTuple):
    """One anomaly: its split, feature and type."""

    split: str
    feature: str
    type: int


@dataclasses.dataclass(frozen=True)
class Offenders:
    """Offending rows.

    Attributes:
      rows: anomaly -> its first rows, in the order found. Every anomaly that rows can cause has an
        entry.
      read_bytes: bytes of the sources that were read.
      is_complete: whether the search ended because it had read everything or found enough rows.
    """

    rows: Mapping[AnomalyKey, tuple[Rejected, ...]]
    read_bytes: int = 0
    is_complete: bool = True

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yields anomalous rows: split, anomaly type, fields of ``Rejected``."""
        for key, rows in self.rows.items():
            for row in rows:
                yield {"split": key.split, "anomaly": Info.Type.Name(key.type), **row._asdict()}


def find_offenders(
    plan: Plan, anomalies: Mapping[str, SplitAnomalies], schema: schema_pb2.Schema
) -> Offenders:
    """Finds the rows that cause anomalies, if these are not accepted.

    It reads byte ranges by their number in their file, so that it finds one bad file among many. It
    reads at least one range. It stops when each anomaly has ``ROWS_PER_ANOMALY`` rows, or after
    ``MAX_READ_BYTES`` of the base source, and of right sources that are too large to keep.

    Args:
      plan: of the conversion.
      anomalies: by split.
      schema: the schema that the anomalies violate.

    Returns:
      The rows; none if the recipe groups rows, because a group has several.
    """
    if plan.groups is not None:
        return Offenders({})
    reasons = {
        AnomalyKey(split, name, reason.type): reason
        for split, found in anomalies.items()
        for name, some in found.reasons.items()
        for reason in some
        if not reason.is_accepted and can_blame_rows(reason.type)
    }
    rows: dict[AnomalyKey, list[Rejected]] = {key: [] for key in reasons}
    reader = RangeReader(plan)
    is_complete = True
    ranges = plan.base.ranges
    most = max((byte_range.number_in_file for byte_range in ranges), default=0)
    # The first ranges of all files come first. Few are read, of millions.
    for byte_range in (
        each for number in range(most + 1) for each in ranges if each.number_in_file == number
    ):
        if all(len(some) >= ROWS_PER_ANOMALY for some in rows.values()):
            break
        read_bytes = reader.read_bytes + byte_range.end - byte_range.start
        if reader.read_bytes and read_bytes > MAX_READ_BYTES:
            is_complete = False
            break
        wanted = {
            key: ROWS_PER_ANOMALY - len(some)
            for key, some in rows.items()
            if len(some) < ROWS_PER_ANOMALY
        }
        for key, row in reader.offenders_of(byte_range, wanted, reasons, schema):
            rows[key].append(row)
    return Offenders(
        {key: tuple(some) for key, some in rows.items()}, reader.read_bytes, is_complete
    )


def find_bad_row(plan: Plan, message: str) -> str:
    """Finds the row of a ``RowError``, unless a fitted encoding raised it.

    Args:
      plan: of the conversion.
      message: of the error; begins with the path of the row's file.

    Returns:
      The message with the place of the first such row; ``""`` if it is not found, or bad rows are
        gathered anyway.
    """
    if plan.recipe.rejects:
        return ""
    reader = RangeReader(plan)
    own = (r for r in plan.base.ranges if message.startswith(mask(r.file.path)))
    while (byte_range := next(own, None)) and reader.read_bytes < MAX_READ_BYTES:
        if bad := reader.bad_row_of(byte_range):
            return bad
    return ""


def write_rows(entries: Iterable[Mapping[str, Any]], folder: str, name: str) -> str:
    """Writes rows to ``folder/rejected/``, one JSON object a line.

    Without any, no file is left.

    Returns:
      The file's path; empty if there is none.
    """
    path = files.join(folder, REJECTED, name)
    file_changes.delete(path)
    lines = [f"{json.dumps(entry, ensure_ascii=False)}\n" for entry in entries]
    if not lines:
        return ""
    files.write_bytes(path, "".join(lines).encode())
    return path


class RangeReader(RowChain):
    """Reads byte ranges, and finds rows in them."""

    def __init__(self, plan: Plan) -> None:
        row = pa.field(ROW, pa.int64())
        split = dataclasses.replace(plan.split, schema=plan.split.schema.append(row))
        super().__init__(dataclasses.replace(plan, select=plan.select.explained(), split=split))
        self.joined_words = plan.joined_words
        self.source, self.private = plan.recipe.base, plan.recipe.private

    def offenders_of(
        self,
        byte_range: ByteRange,
        wanted: Mapping[AnomalyKey, int],
        reasons: Mapping[AnomalyKey, Reason],
        schema: schema_pb2.Schema,
    ) -> list[tuple[AnomalyKey, Rejected]]:
        """Returns the offending rows of a range, in order.

        It returns up to ``wanted`` rows for each anomaly.
        """
        features = {feature.name: feature for feature in features_of(flattened(schema))}
        domains = domains_of(schema)
        # A join may have made several rows of one.
        found: dict[AnomalyKey, dict[int, str]] = {key: {} for key in wanted}
        for part in self.split(byte_range):
            rows = part.batch.column(ROW).to_numpy()
            for key in (key for key in wanted if key.split == part.split):
                column, own = part.batch.column(key.feature), found[key]
                bad = offending_rows(column, key.type, features[key.feature], domains)
                for place in np.flatnonzero(bad):
                    if len(own) == wanted[key]:
                        break
                    value = python_value(column, int(place))
                    expected = "a value" if value is None else reasons[key].expected
                    shown = HIDDEN if key.feature in self.private else show_value(value)
                    own.setdefault(int(rows[place]), f"found {shown}, expected {expected}")
        numbers = sorted({row for own in found.values() for row in own})
        positions = self.positions.find(byte_range.number, numbers) if numbers else ()
        places = dict(zip(numbers, positions, strict=True))
        return [
            (key, Rejected(self.source, place.file, place.place, key.feature, reason, place.text))
            for key, own in found.items()
            for row, reason in own.items()
            for place in (places[row],)
        ]

    def bad_row_of(self, byte_range: ByteRange) -> str:
        """Returns the error of a range's first bad row; or ``""``."""
        found = list[str]()

        def note(chunk: Chunk, bad: Mapping[int, Exception]) -> None:
            row, error = next(iter(bad.items()))
            place = self.positions.find(byte_range.number, [row])[0]
            text = repr(place.text) if place.text else shown_row_of(chunk, row)
            column, reason = explain(error)
            what = error.where if isinstance(error, SelectError) else f"column '{column}'"
            where = f"{place.place} ({shorten(text, _LONGEST_TEXT)})".lstrip()
            found.append(f"{place.file}, {where}, {what}: {reason}")

        for _ in self.select(byte_range, note):
            if found:
                return found[0]
        return ""

    def rows_of(self, places: Iterable[Place], columns: Sequence[str]) -> list[FoundRow]:
        """Returns rows by their places after selection, in order.

        Args:
          places: of rows.
          columns: whose values are shown.
        """
        found: dict[Place, FoundRow] = {}
        ordered = sorted(set(places))
        for number, own in itertools.groupby(ordered, key=lambda place: place.range_number):
            found.update(self._rows_of_range(number, list(own), columns))
        return [found[place] for place in places]

    def pairs_of(self, pairs: Sequence[tuple[Place, Place]]) -> tuple[Pair, ...]:
        """Returns pairs of equal rows by their places, in order."""
        both = self.rows_of(tuple(itertools.chain.from_iterable(pairs)), ())
        return tuple(
            Pair(
                first.where,
                row.where,
                mask(row.position.file),
                row.position.place,
                row.position.text,
                first.position.text,
            )
            for first, row in zip(both[::2], both[1::2], strict=True)
        )

    def _rows_of_range(
        self, number: int, places: Sequence[Place], columns: Sequence[str]
    ) -> dict[Place, FoundRow]:
        values: dict[Place, tuple[int, dict[str, Any]]] = {}
        for chunk in self.select(self.plan.base.ranges[number]):
            for place in places:
                if place.part == chunk.part:
                    row = chunk.batch.slice(place.row, 1)
                    shown = python_rows(row.select(columns))[0]
                    values[place] = row.column(ROW)[0].as_py(), shown
        rows = sorted({row for row, _ in values.values()})
        positions = dict(zip(rows, self.positions.find(number, rows), strict=True))
        return {
            place: FoundRow(_where(positions[row]), positions[row], shown)
            for place, (row, shown) in values.items()
        }


def _where(position: Position) -> str:
    """Returns the name of a file and the place in it."""
    return ", ".join(filter(None, (files.name_of(position.file), position.place)))
