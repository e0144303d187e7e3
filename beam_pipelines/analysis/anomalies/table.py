"""Shows anomalies: as a text table, and recorded ones in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tensorflow_metadata.proto.v0 import anomalies_pb2

from beam_pipelines.analysis.anomalies.find import DATASET, Row
from beam_pipelines.analysis.schema.text import feature_lines
from beam_pipelines.core.formatting import shorten, visible
from beam_pipelines.files.beam import files

_HEADS = ("split", "feature", "what", "expected", "found", "where to look")
_MAX_ROWS = 50
_WIDEST = 60
CURES = (
    "Mend the data or the recipe; or change the schema if the data are right ('beam-pipelines "
    "schema update'); or accept anomalies with --allow_anomalies TYPE or FEATURE:TYPE"
)


def render_anomalies(rows: Sequence[Row], where: Callable[[Row], str]) -> str:
    """Returns a table of the first 50 anomalies, one indented line each.

    Args:
      rows: result of ``anomalies.describe``.
      where: returns the text of the last column.
    """
    shown = rows[:_MAX_ROWS]
    lines: list[tuple[str, ...]] = [_HEADS]
    for row in shown:
        cells = (visible(cell, keep="") for cell in row[:5])
        lines.append((*(shorten(cell, _WIDEST) for cell in cells), where(row)))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ["  " + "  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    if len(rows) > len(shown):
        text.append(f"  … and {len(rows) - len(shown):,} more")
    return "\n".join(text)


def place_in_schema(path: str | None) -> Callable[[Row], str]:
    """Returns a function that locates a row's expectation in a schema's file.

    The function returns ``""`` without a file.
    """
    lines: dict[str, int] = {}
    if path is not None and files.exists(path):
        lines = feature_lines(files.read_bytes(path).decode(errors="replace"))

    def place(row: Row) -> str:
        if row.feature == DATASET and lines:
            return f"{path}, dataset_constraints"
        if row.feature in lines:
            return f"{path}, line {lines[row.feature]}"
        return f"not in {path}" if lines and row.type == "SCHEMA_NEW_COLUMN" else path or ""

    return place


def kinds_of(rows: Sequence[Row]) -> str:
    """Returns the first distinct anomalies in the format of ``--allow_anomalies``."""
    names = list(
        dict.fromkeys(
            row.type if row.feature == DATASET else f"{row.feature}:{row.type}" for row in rows
        )
    )
    return ",".join(names[:3]) + (",…" if len(names) > 3 else "")


def recorded_anomalies(anomalies: anomalies_pb2.Anomalies) -> Iterator[tuple[str, str, str]]:
    """Yields severity, place and text of each anomaly of a split.

    The whole split precedes its features, which are in order. The severity is a word: ``anomaly``
    for an ERROR, ``accepted`` for a WARNING.
    """
    if anomalies.HasField("dataset_anomaly_info"):
        info = anomalies.dataset_anomaly_info
        yield _severity(info), "the split", _text(info)
    for path, info in sorted(anomalies.anomaly_info.items()):
        steps = tuple(info.path.step) or (path,)
        yield _severity(info), f"feature '{'.'.join(steps)}'", _text(info)


def _severity(info: anomalies_pb2.AnomalyInfo) -> str:
    return "accepted" if info.severity == anomalies_pb2.AnomalyInfo.WARNING else "anomaly"


def _text(info: anomalies_pb2.AnomalyInfo) -> str:
    return f"{info.short_description}. {info.description}".strip()
