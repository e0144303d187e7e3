"""The report of a dataset as a notebook shows it."""

from __future__ import annotations

import html
from collections.abc import Callable

from beam_pipelines.core.errors import mask

# Of the frame, which scrolls.
_HEIGHT = 720


class ReportPath(str):
    """Path or URL of a report; a notebook shows the page itself.

    The page stands in a frame that may run its script, and nothing else of the notebook.
    """

    __slots__ = ("_read",)
    _read: Callable[[], bytes | None]

    def __new__(cls, path: str, read: Callable[[], bytes | None]) -> ReportPath:  # noqa: PYI034 - Self is of 3.11
        """Takes the path and what reads the page, or returns ``None``."""
        made = super().__new__(cls, path)
        made._read = read
        return made

    def __repr__(self) -> str:
        return repr(mask(self))

    def _repr_html_(self) -> str | None:
        """Returns the page in a frame, or ``None`` without one."""
        page = self._read()
        if page is None:
            return None
        return (
            f'<iframe title="Dataset report" sandbox="allow-scripts" style="width: 100%; '
            f'height: {_HEIGHT}px; border: 0" srcdoc="{html.escape(page.decode())}"></iframe>'
        )

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)
