"""Shows sampled rows as examples, before and after encoding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from beam_pipelines.core.formatting import show_cell
from beam_pipelines.core.python_values import python_rows

# Columns and features of an example, and characters of a value.
_MOST_NAMES, _CHARACTERS = 200, 80


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
        before, after = (
            {name: show_cell(value, _CHARACTERS) for name, value in values.items()}
            for values in (row, feature)
        )
        lines = tuple((name, before.get(name), after.get(name)) for name in names[:_MOST_NAMES])
        yield Example(split, lines, max(0, len(names) - _MOST_NAMES))
