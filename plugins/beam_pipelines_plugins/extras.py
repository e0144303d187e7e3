"""Packages that are installed with an extra of the plugins."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from beam_pipelines.core.errors import DataError


@contextlib.contextmanager
def needed(where: str, extra: str) -> Iterator[None]:
    """Names the extra of a package that the body imports.

    Args:
      where: what is read by it, for the message.
      extra: of the plugins.

    Raises:
      DataError: the package is not installed.
    """
    try:
        yield
    except ImportError as error:
        raise DataError(
            f"{where}: found no package '{error.name}', which reads it ({error}). Install it: pip "
            f"install './plugins[{extra}]' in a clone."
        ) from error
