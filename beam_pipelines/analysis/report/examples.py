"""Shows sampled rows as examples, before and after encoding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from beam_pipelines.core.formatting import shorten
from beam_pipelines.core.python_values import python_rows

# Columns and features of an example, characters of a text, and values of a list.
_MOST_NAMES, _CHARACTERS, _MOST_VALUES = 200, 80, 8


class Example(NamedTuple):
    """A row of a split.

    Attributes:
      split: its name.
      lines: (name, raw value, encoded value) of columns, then of new features; a value is ``None``
        where there is no such column or feature.
      more: number of lines left out.
    """

    split: str
    lines: tuple[tuple[str, str | None, str | None], ...]
    more: int = 0


def show_examples(
    split: str, raw: pa.RecordBatch, encoded: pa.RecordBatch | None
) -> Iterator[Example]:
    """Yields each row as an example.

    Args:
      split: its name.
      raw: the rows.
      encoded: the same rows as features; ``None``: nothing is encoded.
    """
    names = list(raw.schema.names)
    if encoded is not None:
        names += [name for name in encoded.schema.names if name not in names]
    features = [{}] * raw.num_rows if encoded is None else encoded.to_pylist()
    for row, feature in zip(python_rows(raw), features, strict=True):
        lines = tuple(
            (name, _value(row, name), _value(feature, name)) for name in names[:_MOST_NAMES]
        )
        yield Example(split, lines, max(0, len(names) - _MOST_NAMES))


def _value(row: dict[str, Any], name: str) -> str | None:
    return _shown(row[name]) if name in row else None


def _shown(value: Any) -> str:
    """Returns a value as text; bytes as their number."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, list):
        more = ["…"] if len(value) > _MOST_VALUES else []
        return shorten(f"[{', '.join([*map(_shown, value[:_MOST_VALUES]), *more])}]", _CHARACTERS)
    return shorten(str(value), _CHARACTERS)
