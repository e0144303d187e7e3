"""Contents of folders, to compare what runs have written."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

# Files of a dataset that hold the timings of its run.
TIMED = ("dataset.json", "report.html")


def contents(folder: Path, but: Container[str] = ()) -> dict[str, bytes]:
    """Returns path -> content of a folder's files, but of some names."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in but
    }
