"""Proposes the nearest name for a file that is missing."""

from __future__ import annotations

import os

from apache_beam.io.filesystems import FileSystems

from beam_pipelines.core.errors import nearest
from beam_pipelines.storage import input_roots, path_patterns


def nearest_file(path: str) -> str:
    """Returns a hint at the nearest name; ``""`` if none is near.

    Only local folders are listed.
    """
    folder, name = os.path.split(path.rstrip("/"))
    if (
        path_patterns.has_wildcard(path)
        or FileSystems.get_scheme(path)
        or not input_roots.allows(folder)
    ):
        return ""
    try:
        names = os.listdir(folder or os.curdir)
    except OSError:
        return ""
    return nearest(name, sorted(one for one in names if not path_patterns.is_hidden(one)))
