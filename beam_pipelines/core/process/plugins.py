"""Finds what other distributions add, by their entry points.

A group lists names: of formats, of commands. What a name stands for is imported when it is first
asked for. A table has the names that are known to be in a distribution which may not be installed,
so that an error can say which. It also has what planning asks of a format before it needs the
format itself.
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Mapping
from typing import Any, NamedTuple

from beam_pipelines.core.errors import DataError

# Formats by name; planners of sources which are no lists of files, by the format or ``database``;
# encodings by kind; checks by their key in a recipe; commands; functions
# behind other names; functions that describe each column of sampled rows.
FORMATS, PLANNERS, ENCODINGS, CHECKS = "formats", "planners", "encodings", "checks"
COMMANDS, FUNCTIONS = "commands", "functions"
DESCRIPTIONS = "descriptions"
# The remedy where beam-pipelines-plugins is missing.
INSTALL = "Install it, in a clone: pip install ./plugins"


class Known(NamedTuple):
    """A name of beam-pipelines-plugins, which may not be installed.

    Attributes:
      suffixes: of the files of a format or planner.
      options: keys that its ``Options`` declare.
      schemes: of the URLs of a planner.
      place: option of a planner that takes the place of ``path``.
      part: option that names a part of a file or URL, which may also follow it after ``#``.
    """

    suffixes: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ()
    place: str = ""
    part: str = ""


# Options of formats with texts (``sources/options.py``).
_TEXTS = ("formats", "trim")
# Group -> name -> what is known of it.
KNOWN: Mapping[str, Mapping[str, Known]] = {
    FORMATS: {
        "avro": Known(suffixes=(".avro",), options=_TEXTS),
        "orc": Known(suffixes=(".orc",), options=_TEXTS),
        "delta": Known(),
        "iceberg": Known(),
        "numpy": Known(suffixes=(".npz", ".npy"), options=_TEXTS),
        "excel": Known(
            suffixes=(".xlsx", ".xlsm", ".xls", ".ods"),
            options=("formats", "trim", "header", "skip_lines", "sheet"),
            part="sheet",
        ),
        "hdf5": Known(suffixes=(".h5", ".hdf5", ".hdf"), options=(*_TEXTS, "group"), part="group"),
        "webdataset": Known(suffixes=(".tar", ".tgz"), options=("image",)),
    },
    PLANNERS: {
        "database": Known(
            suffixes=(".sqlite", ".sqlite3", ".db", ".duckdb"),
            options=("url", "table", "query", "partition"),
            schemes=("postgresql", "postgres", "mariadb", "mysql", "bigquery"),
            place="url",
            part="table",
        ),
        "delta": Known(options=("version",)),
        "iceberg": Known(options=("snapshot_id",)),
    },
    CHECKS: {"pii": Known()},
    COMMANDS: {"compare": Known(), "init": Known(), "schema": Known()},
    FUNCTIONS: dict.fromkeys(("encode", "giveaways", "image_table", "lineage", "metrics"), Known()),
}
# Group -> name -> where the main package has it.
OWN: Mapping[str, Mapping[str, str]] = {
    CHECKS: {
        "expect": "beam_pipelines.checks.expect:Expect",
        "duplicates": "beam_pipelines.checks.duplicates:FindDuplicates",
        "leaks": "beam_pipelines.checks.leaks:FindLeaks",
    },
}
# Folder in a table's folder -> the planner of such tables, where a recipe names no format.
CLAIMS: Mapping[str, str] = {"_delta_log": "delta"}


@functools.cache
def _points() -> Mapping[str, Mapping[str, importlib.metadata.EntryPoint]]:
    """Returns group -> name -> entry point.

    Where several distributions have a name, the first one counts.

    ``importlib.metadata.entry_points`` also reads each distribution's name, for three times the
    time, and does it again for each group.
    """
    found: dict[str, dict[str, importlib.metadata.EntryPoint]] = {}
    for distribution in importlib.metadata.distributions():
        if "[beam_pipelines." in (distribution.read_text("entry_points.txt") or ""):
            for point in distribution.entry_points:
                found.setdefault(point.group, {}).setdefault(point.name, point)
    return found


def _installed(group: str) -> Mapping[str, importlib.metadata.EntryPoint]:
    """Returns a group's entry points by name."""
    return _points().get(f"beam_pipelines.{group}", {})


def installed(group: str) -> tuple[str, ...]:
    """Returns the names that can be loaded, sorted."""
    return tuple(sorted(_installed(group)))


def others(group: str) -> tuple[str, ...]:
    """Returns the installed names that no table knows, sorted."""
    return tuple(name for name in installed(group) if name not in KNOWN.get(group, {}))


def known(group: str) -> tuple[str, ...]:
    """Returns the names in the tables, in their order."""
    return (*OWN.get(group, {}), *KNOWN.get(group, {}))


def has(group: str, name: str) -> bool:
    """Whether a name is known; asks other distributions if it is not."""
    return name in KNOWN.get(group, {}) or name in _installed(group)


@functools.cache
def load(group: str, name: str) -> Any:
    """Imports what a name stands for.

    Raises:
      KeyError: no distribution is known to have it.
      DataError: the distribution that has it is not installed; says which.
    """
    if (own := OWN.get(group, {}).get(name)) is not None:
        return importlib.metadata.EntryPoint(name, own, group).load()
    point = _installed(group).get(name)
    if point is not None:
        return point.load()
    if name not in KNOWN.get(group, {}):
        raise KeyError(name)
    raise DataError(
        f"{group.removesuffix('s')} '{name}': found beam-pipelines alone, expected the "
        f"distribution beam-pipelines-plugins, which has it. {INSTALL}"
    )
