"""Contents of folders, to compare what runs have written."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import Any

# Files of a dataset that hold the timings of its run.
TIMED = ("dataset.json", "report.html")


def timeless(value: Any) -> Any:
    """Returns a manifest, or a part, without its timings and directory."""
    if isinstance(value, dict):
        own = value.keys() - {"timings", "directory"}
        return {key: timeless(item) for key, item in value.items() if key in own}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def contents(folder: Path, but: Container[str] = ()) -> dict[str, bytes]:
    """Returns path -> content of a folder's files, but of some names."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in but
    }
