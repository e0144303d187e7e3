"""Imports Beam's filesystems of object stores when a path first asks for one: they and their
clients take a fifth of a second.

A command leaves them out while it imports Beam (``quick_beam``).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from typing import Any

from apache_beam.io.filesystems import FileSystems

from beam_pipelines.core import s3_client
from beam_pipelines.core.storage_schemes import FILESYSTEM_FOR_SCHEME


def import_when_asked() -> None:
    """Lets Beam find the filesystem of a path by importing it; what is not installed it does not
    find, as before.
    """
    find = FileSystems.get_filesystem

    def get_filesystem(path: str) -> Any:
        _import(FileSystems.get_scheme(path))
        return find(path)

    FileSystems.get_filesystem = staticmethod(get_filesystem)


@functools.cache
def _import(scheme: str | None) -> None:
    if scheme in FILESYSTEM_FOR_SCHEME:
        with contextlib.suppress(ImportError):
            importlib.import_module(FILESYSTEM_FOR_SCHEME[scheme])
            if scheme == "s3":
                s3_client.share()
