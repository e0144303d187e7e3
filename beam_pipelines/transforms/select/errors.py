"""Errors of a selection, and their messages with the row."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa

from beam_pipelines.core.arrow.python_values import python_value
from beam_pipelines.core.errors import PipelineError, RowError
from beam_pipelines.sql.expressions import Expression, NoValueError, find_row

_SHOWN_CHARACTERS = 100


class SelectError(NoValueError):
    """``filter`` or ``derive`` has no value for a row, which is bad."""

    def __init__(self, found: str, expression: Expression, batch: pa.RecordBatch) -> None:
        name = expression.name
        where = "filter" if name == "filter" else f"derived column '{name}'"
        super().__init__(found, expression, batch, where)


class LargeValueError(PipelineError):
    """A derived value is larger than ``limits.cell_bytes``; no bad row.

    It stops the run.

    Attributes:
      found: the expression and its rows.
      row: of the value.
    """

    def __init__(self, found: SelectError, row: int) -> None:
        super().__init__(str(found))
        self.found = found
        self.row = row


class DamagedImageError(ValueError):
    """A derived image is not whole; the message shows why.

    Attributes:
      column: its name.
    """

    def __init__(self, found: str, column: str) -> None:
        super().__init__(found)
        self.column = column


@contextlib.contextmanager
def explained(path: str) -> Iterator[None]:
    """Raises ``RowError`` for the errors of a selection in the body.

    Args:
      path: file of the rows.
    """
    try:
        yield
    except NoValueError as error:
        expression = error.expression
        row = find_row(error.batch, expression) if expression.columns else None
        raise RowError(
            f"{path}, {error.where} ({expression.sql}): found {error}{_place(error, row)}, "
            "expected a value. Use TRY_CAST or TRY, which "
            "give NULL instead, or filter such rows out."
        ) from error
    except LargeValueError as error:
        place = _place(error.found, error.row)
        raise RowError(
            f"{path}, {error.found.where} ({error.found.expression.sql}){place}: {error}"
        ) from error
    except DamagedImageError as error:
        raise RowError(f"{path}, derived column '{error.column}': {error}") from error


def _place(error: NoValueError, row: int | None) -> str:
    """Returns the values of a row that its expression sees, in words."""
    if row is None:
        return ""
    values = (
        f"{name}: {python_value(error.batch.column(name), row)!r}"
        for name in error.expression.columns
    )
    shown = ", ".join(value[:_SHOWN_CHARACTERS] for value in values)
    return f" in the row {{{shown}}}" if shown else ""
