"""Parses a sample of CSV records with pyarrow.csv, which infers types."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.csv as pa_csv

from beam_pipelines.sources.text import quotes
from beam_pipelines.sources.text.blocks import BYTE_ORDER_MARK
from beam_pipelines.sources.text.quotes import NEWLINE, OUTSIDE, Dialect

# With 40,000 cells more than expected, pyarrow 18, which TFX allows, corrupted its memory; pyarrow
# 25 did not.
_OVERFLOWS = int(pa.__version__.split(".")[0]) < 25
_MOST_MORE_CELLS = 10_000


def read_table(
    data: bytes,
    wanted: tuple[str, ...],
    types: Mapping[str, pa.DataType] | None = None,
    *,
    names: tuple[str, ...],
    dialect: Dialect,
    nulls: tuple[str, ...],
) -> pa.Table:
    """Parses records with pyarrow.csv, in one thread.

    Args:
      data: whole records, without a header.
      wanted: columns to convert, in this order.
      types: their types; ``None`` infers them.
      names: all columns.
      dialect: delimiter and quote.
      nulls: texts that mean null in a column of any type, quoted or not.
    """
    if not data or (data[0] in b"\r\n" and not data.strip(b"\r\n")):
        return pa.schema(
            [(name, (types or {}).get(name, pa.null())) for name in wanted]
        ).empty_table()
    if _OVERFLOWS:
        _check_cells(data, len(names), dialect)
    # pyarrow would skip a mark, or miss the rest of one, also in the middle of a file.
    if BYTE_ORDER_MARK.startswith(data[:3]):
        data = BYTE_ORDER_MARK + data
    return pa_csv.read_csv(
        pa.BufferReader(data),
        read_options=pa_csv.ReadOptions(
            use_threads=False,
            block_size=len(data) + 1,
            column_names=list(names),
        ),
        parse_options=pa_csv.ParseOptions(
            delimiter=chr(dialect.delimiter),
            quote_char=chr(dialect.quote) if dialect.quote is not None else False,
            newlines_in_values=True,
        ),
        convert_options=pa_csv.ConvertOptions(
            column_types=types,
            include_columns=list(wanted),
            null_values=list(nulls),
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        ),
    )


def _check_cells(data: bytes, cells: int, dialect: Dialect) -> None:
    """Raises ``pa.ArrowInvalid`` for a record with very many more cells than others.

    An older pyarrow writes past its buffers for it.
    """
    toggles = quotes.toggling_quotes(data, OUTSIDE, NEWLINE, dialect)
    starts, _ = quotes.record_spans(data, toggles)
    if (
        len(starts)
        and quotes.count_cells(data, toggles, starts, dialect).max() > cells + _MOST_MORE_CELLS
    ):
        raise pa.ArrowInvalid(f"CSV parse error: Expected {cells} columns")
