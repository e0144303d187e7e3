"""Recipes for folders of images, with classes or a table."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from beam_pipelines.core.errors import PipelineError, RecipeError
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.reader import bare_name
from beam_pipelines.recipe.yaml import Scalar, Tree
from beam_pipelines.sources import format_of_path
from beam_pipelines.sources.images.folder import (
    ENCODED,
    FILENAME,
    LABEL,
    STEM,
    SUFFIXES,
    common_folder,
)
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.storage import files, input_files
from beam_pipelines.transforms import read

_TABLES = ("csv", "tsv", "json_lines", "parquet", "arrow")
_LABELS = "labels"


class _Names(NamedTuple):
    """One way in which a table may name images.

    Attributes:
      root: folder that names are relative to.
      column: of the images source, with the names.
      names: of all images.
    """

    root: str
    column: str
    names: frozenset[str]


class _Match(NamedTuple):
    """A table's column that names images.

    Attributes:
      images: how many of them.
      path: of the table.
      column: its column.
      others: its other columns.
      names: how it names them.
      is_number: whether it has numbers, which are read as texts.
    """

    images: int
    path: str
    column: str
    others: tuple[str, ...]
    names: _Names
    is_number: bool


def image_folder(path: str) -> dict[str, Tree] | None:
    """Returns the tree of the recipe for a folder of images.

    Args:
      path: of data, as on the command line.

    Returns:
      The tree; ``None`` if the path is no local folder with images.

    Raises:
      RecipeError: a table in the folder names none of the images, or several tables do.
    """
    if not files.is_local(path) or not os.path.isdir(path):
        return None
    listed = [file.path for file in input_files.list_files(files.join(path, "**"))]
    images = [file for file in listed if file.lower().endswith(SUFFIXES)]
    tables = [file for file in listed if format_of_path(file) in _TABLES]
    if not images or {format_of_path(file) for file in listed} - {None, "images", *_TABLES}:
        return None
    if not tables:
        return _of_classes(path, images)
    ways = list(_ways(path.rstrip("/") or path, images))
    matches = [match for table in tables for match in _matches(table, ways)]
    if not matches and all(table.lower().endswith(".txt") for table in tables):
        return _of_classes(path, images)
    if not matches:
        found = " and ".join(tables[:3])
        raise RecipeError(
            f"{path}: found images and {found}, but no column in it with names of the images, such "
            f"as '{min(ways[0].names)}'. To read the images alone, name them: "
            f"'{path.rstrip('/')}/**{os.path.splitext(images[0])[1]}'."
        )
    best = {table: max(own, key=lambda match: match.images) for table, own in _by_table(matches)}
    if len(best) > 1:
        found = " and ".join(f"{match.path} ({match.column})" for match in best.values())
        raise RecipeError(
            f"{path}: found several tables with names of images: {found}, expected one. Write a "
            "recipe that joins the right one, or move the others."
        )
    return _of_table(path, next(iter(best.values())))


def _of_classes(path: str, images: Sequence[str]) -> dict[str, Tree]:
    name = bare_name(path)
    # Deeper folders are an error, unless the user says that folders are no classes.
    depth = max(files.relative(file, path.rstrip("/")).count("/") for file in images)
    label: dict[str, Tree] = {"label": _scalar(LABEL)} if depth == 1 else {}
    source: Tree = {"path": _scalar(path), "format": _scalar("images")}
    return {"name": _scalar(name), "sources": {name: source}, **label}


def _of_table(path: str, match: _Match) -> dict[str, Tree]:
    name = bare_name(path)
    columns = [ENCODED, "image/format", "image/height", "image/width", "image/channels", FILENAME]
    columns += [STEM] if match.names.column == STEM else []
    labels = _LABELS if name != _LABELS else "table"
    label: dict[str, Tree] = {}
    if len(match.others) == 1:
        label["label"] = _scalar(match.others[0])
    table: dict[str, Tree] = {"path": _scalar(match.path), "key": _scalar(match.column)}
    if match.is_number:
        table["types"] = {match.column: _scalar("text")}
    return {
        "name": _scalar(name),
        "sources": {
            name: {
                "path": _scalar(match.names.root),
                "format": _scalar("images"),
                "columns": [_scalar(column) for column in columns],
            },
            labels: table,
        },
        "from": _scalar(name),
        "join": [
            {
                "source": _scalar(labels),
                "on": {match.names.column: _scalar(match.column)},
                "how": _scalar("inner"),
            }
        ],
        **label,
    }


def _scalar(text: str) -> Scalar:
    return Scalar(text, text)


def _ways(folder: str, images: Sequence[str]) -> Iterator[_Names]:
    """Yields the ways in which a table may name images."""
    inner = common_folder([posixpath.dirname(file) for file in images])
    for root in dict.fromkeys([inner, folder]):
        names = frozenset(files.relative(file, root) for file in images)
        yield _Names(root, FILENAME, names)
        yield _Names(root, STEM, frozenset(posixpath.splitext(name)[0] for name in names))


def _matches(table: str, ways: Sequence[_Names]) -> Iterator[_Match]:
    """Yields the columns of a table that name images."""
    try:
        plan = plan_source(Source(_LABELS, (table,), infer="lenient"), "")
        rows, _, _ = read.read_table(plan, reject=True)
    except PipelineError:
        if table.lower().endswith(".txt"):  # a README
            return
        raise
    for field in rows.schema:
        is_number = pa.types.is_integer(field.type)
        if pa.types.is_string(field.type) or is_number:
            values = set(rows.column(field.name).cast(pa.string()).unique().to_pylist())
            others = tuple(name for name in rows.schema.names if name != field.name)
            for way in ways:
                if found := len(values & way.names):
                    yield _Match(found, table, field.name, others, way, is_number)


def _by_table(matches: Sequence[_Match]) -> Iterator[tuple[str, list[_Match]]]:
    tables: Mapping[str, None] = dict.fromkeys(match.path for match in matches)
    for table in tables:
        yield table, [match for match in matches if match.path == table]
