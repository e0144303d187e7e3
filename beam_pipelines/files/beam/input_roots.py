"""Restricts the files of a plan to the folders of ``--input_root``.

Links are resolved.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Iterator, Sequence

from beam_pipelines.core.errors import DataError

_roots: list[tuple[str, ...]] = []


class OutsideRootError(DataError):
    """A file that may not be read."""


@contextlib.contextmanager
def only_below(roots: Sequence[str]) -> Iterator[None]:
    """Restricts this process to files below some folders or URLs.

    Without roots it may open, list and look for all files. The restriction holds while the body
    runs.
    """
    _roots.append(tuple(_resolved(root) for root in roots))
    try:
        yield
    finally:
        _roots.pop()


@contextlib.contextmanager
def within_store(path: str) -> Iterator[None]:
    """Restricts this process to a path's server or bucket, or this machine.

    Roots that are given hold instead.
    """
    scheme, _, rest = path.partition("://")
    store = f"{scheme}://{rest.partition('/')[0]}" if _is_url(path) else "/"
    with contextlib.nullcontext() if is_restricted() else only_below([store]):
        yield


def is_restricted() -> bool:
    """Whether some files may not be read."""
    return bool(_roots and _roots[-1])


def check_root(root: str) -> None:
    """Raises ``ValueError`` if a local folder does not exist."""
    if not _is_url(root) and not os.path.isdir(root):
        raise ValueError(f"found '{root}', which is no folder, expected one, or a URL.")


def check(path: str) -> None:
    """Checks that this process may read a path.

    Links and ``..`` are resolved.

    Raises:
      OutsideRootError: it may not.
    """
    if allows(path):
        return
    # Where a link leads may tell what is outside.
    named = _resolved(path) if _is_url(path) else os.path.abspath(path)
    leads = ", which leads out of it" if _is_below(_roots[-1], named) else ""
    raise OutsideRootError(
        f"found {path}{leads}, expected a path below --input_root {' or '.join(_roots[-1])}. Move "
        "the file there, or name its folder with another --input_root."
    )


def allows(path: str) -> bool:
    """Whether this process may read a path.

    Links and ``..`` are resolved.
    """
    return not is_restricted() or _is_below(_roots[-1], _resolved(path))


def _is_below(roots: Sequence[str], path: str) -> bool:
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def _resolved(path: str) -> str:
    """Returns a URL without ``..``, or an absolute local path without links."""
    if not _is_url(path):
        return os.path.realpath(path)
    scheme, _, rest = path.partition("://")
    return f"{scheme.lower()}://{posixpath.normpath(rest)}"


def _is_url(path: str) -> bool:
    return "://" in path and "/" not in path.partition("://")[0]
