"""Errors of pyarrow on damaged files, with the file."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TypeVar

import pyarrow as pa

from beam_pipelines.core.errors import DataError, PipelineError

T = TypeVar("T")
# The package has no base class of its errors: it passes on Python's, and C++'s as RuntimeError.
_ERRORS = (pa.ArrowException, OSError, ValueError, LookupError, RuntimeError, OverflowError)


@contextlib.contextmanager
def explained(path: str, title: str, expected: str = "a whole file") -> Iterator[None]:
    """Turns errors of pyarrow in the body into ``DataError``.

    Args:
      path: of the file that is read.
      title: of its format.
      expected: what the file should be.
    """
    try:
        yield
    except PipelineError:
        raise
    except MemoryError as error:
        raise DataError(
            f"{path}: found {title} data that ask for more memory than there is ({error}), "
            f"expected {expected}. Get the file again if it is damaged; else run again with fewer "
            "workers."
        ) from error
    except _ERRORS as error:
        reason = str(error).rstrip(".") or type(error).__name__
        raise DataError(
            f"{path}: found damaged {title} data, expected {expected}: {reason}. Get the file "
            "again, or set 'format' to the true one, such as 'format: csv'."
        ) from error


def each(items: Iterable[T], path: str, title: str, expected: str = "a whole file") -> Iterator[T]:
    """Yields items; explains errors in making them, not the caller's."""
    with explained(path, title, expected):
        yield from items
