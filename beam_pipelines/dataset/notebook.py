"""The HTML that a notebook shows of a dataset."""

from __future__ import annotations

import html
import itertools
from typing import Any

from beam_pipelines.core.errors import mask
from beam_pipelines.core.formatting import show_bytes
from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.dataset.inspect import lists_of, show_values
from beam_pipelines.reader.dataset import Dataset
from beam_pipelines.reader.features import names_of_lists_of_lists

_SHOWN_FEATURES = 20


def html_of(dataset: Dataset, manifest: Manifest) -> str:
    """Returns splits, the first examples and a link to the report."""
    splits = _table(
        ("split", "rows", "shards", "size"),
        [
            (name, f"{split.rows:,}", f"{len(split.shards):,}", show_bytes(split.bytes))
            for name, split in manifest.splits.items()
        ],
    )
    rows = dataset.head()
    names, columns = rows.column_names, rows.columns
    several = names_of_lists_of_lists(manifest.columns)
    lists = lists_of(None if manifest.record == "raw" else dataset.schema)
    first = [
        [show_values(values, name in lists, name in several) for values in column.to_pylist()]
        for name, column in zip(names, columns, strict=True)
    ]
    examples = _table(names[:_SHOWN_FEATURES], list(zip(*first[:_SHOWN_FEATURES], strict=True)))
    more = len(names) - _SHOWN_FEATURES
    return (
        f"<p><b>{html.escape(manifest.name)}</b> "
        f"in <code>{html.escape(mask(dataset.folder))}</code>, label "
        f"<code>{html.escape(str(dataset.label))}</code>, "
        f'<a href="{html.escape(mask(dataset.report))}">report</a></p>{splits}{examples}'
        + (f"<p>and {more:,} more features</p>" if more > 0 else "")
    )


def _table(header: Any, rows: Any) -> str:
    """Returns an HTML table of texts, escaped."""
    cells = itertools.chain([("th", header)], (("td", row) for row in rows))
    lines = (
        "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in row) for tag, row in cells
    )
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
