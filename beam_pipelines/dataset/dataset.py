"""A dataset as a Python object, for scripts and notebooks."""

from __future__ import annotations

import functools
import html
import itertools
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from beam_pipelines.analysis.schema import read_schema
from beam_pipelines.core import files
from beam_pipelines.core.dataset_layout import REPORT
from beam_pipelines.core.errors import nearest
from beam_pipelines.core.formatting import show_bytes
from beam_pipelines.dataset.inspect import decode_examples, lists_of, read_examples, show_values
from beam_pipelines.dataset.manifest import Manifest, read_manifest

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2

_SHOWN_ROWS = 5
_SHOWN_FEATURES = 20


class Dataset:
    """A dataset on disk.

    Reads the manifest at once, and everything else on demand.

    Attributes:
      folder: path or URL.
      manifest: the content of ``dataset.json``.
      splits: split -> number of rows, in the recipe's order.
      label: name of the label's feature, or ``None``.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Opens a dataset.

        Raises:
          DataError: the folder has no manifest, or another version wrote it.
        """
        self.folder = os.fspath(folder)
        self.manifest: Manifest = read_manifest(self.folder)
        self.splits: Mapping[str, int] = {
            name: split["rows"] for name, split in self.manifest["splits"].items()
        }
        self.label: str | None = self.manifest["label"]

    @functools.cached_property
    def schema(self) -> schema_pb2.Schema:
        """The schema of the records, as ``tensorflow_metadata.proto.v0.schema_pb2.Schema``."""
        return read_schema(files.within(self.folder, self.manifest["schema"]))

    @functools.cached_property
    def statistics(self) -> Mapping[str, statistics_pb2.DatasetFeatureStatistics]:
        """Split -> statistics of the columns before encoding, as TFDV has them."""
        from beam_pipelines.analysis.statistics.stored import read_statistics
        from beam_pipelines.analysis.statistics.view import proto_of

        found = read_statistics(self.folder)
        return {name: proto_of(found[name]) for name in self.splits if name in found}

    @property
    def report(self) -> str:
        """Path of the HTML report."""
        return files.join(self.folder, REPORT)

    def head(self, n: int = _SHOWN_ROWS, split: str | None = None) -> pa.Table:
        """Returns the first examples of a split, parsed by the schema.

        Args:
          n: number of examples, at most all of the split.
          split: default: the first.

        Returns:
          A column of lists for each feature: int64, float32 or binary values; null where the
          feature is missing. Raw records are one binary column ``record``.

        Raises:
          ValueError: there is no such split.
          DataError: a shard is damaged.
        """
        import pyarrow as pa

        split = next(iter(self.splits)) if split is None else split
        if split not in self.splits:
            known = ", ".join(self.splits)
            raise ValueError(
                f"{self.folder}: found no split '{split}', expected one of {known}."
                f"{nearest(split, self.splits)}"
            )
        batches, missing = [], n
        for shard in self.manifest["splits"][split]["shards"]:
            if missing <= 0:
                break
            path = files.join(self.folder, *shard["path"].split("/"))
            records = read_examples(path, missing)
            if self.manifest["record"] == "raw":
                batches.append(pa.record_batch({"record": pa.array(records, pa.large_binary())}))
            elif records:
                batches.append(decode_examples(records, path, self.schema))
            missing -= len(records)
        return pa.Table.from_batches(batches) if batches else pa.table({})

    def to_pandas(self, n: int = 1000, split: str | None = None) -> pd.DataFrame:
        """Returns the first examples of a split as a ``pandas.DataFrame``.

        A feature with exactly one value in each of these examples is a plain column; any other is a
        column of lists, with ``None`` where it is missing. Features from text columns are ``str``,
        other binary ones ``bytes``. See ``head`` for arguments and errors.
        """
        import pandas as pd
        import pyarrow as pa

        columns = {}
        texts = {name for name, type_ in self.manifest["columns"].items() if type_ == "text"}
        for name, column in zip(*_named_columns(self.head(n, split)), strict=True):
            is_text = name in texts and pa.types.is_large_binary(column.type.value_type)
            values = (
                column.cast(pa.large_list(pa.large_string())) if is_text else column
            ).to_pylist()
            is_single = all(value is not None and len(value) == 1 for value in values)
            columns[name] = [value[0] for value in values] if is_single and values else values
        return pd.DataFrame(columns)

    def __repr__(self) -> str:
        rows = ", ".join(f"{name}: {count:,} rows" for name, count in self.splits.items())
        return f"Dataset({self.folder!r}, {rows})"

    def _repr_html_(self) -> str:
        """Returns the HTML that a notebook shows.

        It has splits, the first examples and a link to the report.
        """
        shards = {
            name: (len(split["shards"]), sum(shard["bytes"] for shard in split["shards"]))
            for name, split in self.manifest["splits"].items()
        }
        splits = _table(
            ("split", "rows", "shards", "size"),
            [
                (name, f"{rows:,}", f"{shards[name][0]:,}", show_bytes(shards[name][1]))
                for name, rows in self.splits.items()
            ],
        )
        names, columns = _named_columns(self.head())
        lists = lists_of(None if self.manifest["record"] == "raw" else self.schema)
        first = [
            [show_values(values, name in lists) for values in column.to_pylist()]
            for name, column in zip(names, columns, strict=True)
        ]
        examples = _table(names[:_SHOWN_FEATURES], list(zip(*first[:_SHOWN_FEATURES], strict=True)))
        more = len(names) - _SHOWN_FEATURES
        return (
            f"<p><b>{html.escape(str(self.manifest['name']))}</b> "
            f"in <code>{html.escape(self.folder)}</code>, label "
            f"<code>{html.escape(str(self.label))}</code>, "
            f'<a href="{html.escape(self.report)}">report</a></p>{splits}{examples}'
            + (f"<p>and {more:,} more features</p>" if more > 0 else "")
        )


def open(folder: str | os.PathLike[str]) -> Dataset:  # noqa: A001 - as ``bp.open``
    """Opens a dataset; see ``Dataset``."""
    return Dataset(folder)


def _named_columns(table: pa.Table) -> tuple[list[str], list[pa.ChunkedArray]]:
    return list(table.column_names), list(table.columns)


def _table(header: Any, rows: Any) -> str:
    """Returns an HTML table of texts, escaped."""
    cells = itertools.chain([("th", header)], (("td", row) for row in rows))
    lines = (
        "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in row) for tag, row in cells
    )
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
