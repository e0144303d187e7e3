"""Finds the table that names images, and their labels."""

from __future__ import annotations

import os
import posixpath
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.errors import PipelineError, RecipeError
from beam_pipelines.files.beam import files
from beam_pipelines.pipeline.planning.image_folders import COLUMNS, alone
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.reader import bare_name
from beam_pipelines.sources.images.folder import FILENAME, STEM, common_folder
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.transforms import read

_LABELS = "labels"
# Folders whose images a table may name without the folder.
_MOST_FOLDERS = 20
# Fewer labels than these, in less than a twentieth of the rows, are none; nor are texts of many
# words that mostly differ.
_FEW_LABELS, _WORDS_OF_CAPTIONS = 10, 4


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
      label: its only other column, if that can be a label; or empty.
      names: how it names them.
      is_number: whether it has numbers, which are read as texts.
    """

    images: int
    path: str
    column: str
    label: str
    names: _Names
    is_number: bool


def table_recipe(path: str, images: Sequence[str], tables: Sequence[str]) -> dict[str, Any] | None:
    """Returns the recipe of images with a table that names them.

    Args:
      path: folder of the images.
      images: paths of its images.
      tables: paths of files that may be the table; the names may begin at the folder of the first.

    Returns:
      The recipe as data; ``None`` if texts, such as a README, name no image.

    Raises:
      RecipeError: no other table does, or several do.
    """
    ways = list(_ways(path.rstrip("/") or path, images, posixpath.dirname(tables[0]) or "."))
    matches = [match for table in tables for match in _matches(table, ways)]
    best: dict[str, _Match] = {}
    for match in matches:
        best[match.path] = max(best.get(match.path, match), match, key=lambda one: one.images)
    if len(best) > 1:
        found = " and ".join(f"{match.path} ({match.column})" for match in best.values())
        raise RecipeError(
            f"{path}: found several tables with names of images: {found}, expected one. Convert "
            "each folder that has a table of its own, write a recipe that joins the right table, "
            "or move the others."
        )
    if not best and not all(table.lower().endswith(".txt") for table in tables):
        raise RecipeError(
            f"{path}: found images and {' and '.join(tables[:3])}, but no column in it with names "
            f"of the images, such as '{min(ways[0].names)}'. Mend it, or {alone(path, images)}"
        )
    return _recipe(path, *best.values()) if best else None


def _recipe(path: str, match: _Match) -> dict[str, Any]:
    name, column = bare_name(path), match.names.column
    columns = [*COLUMNS, *([STEM] if column == STEM else [])]
    labels = _LABELS if name != _LABELS else "table"
    types = {"types": {match.column: "text"}} if match.is_number else {}
    return {
        "name": name,
        "sources": {
            name: {"path": match.names.root, "format": "images", "columns": columns},
            labels: {"path": match.path, "key": match.column, **types},
        },
        "from": name,
        "join": [{"source": labels, "on": {column: match.column}, "how": "inner"}],
        **({"label": match.label} if match.label else {}),
    }


def _ways(folder: str, images: Sequence[str], table_folder: str) -> Iterator[_Names]:
    """Yields the ways in which a table may name images.

    Args:
      folder: that has the images.
      images: their paths.
      table_folder: the folder of the table.
    """
    folders = {posixpath.dirname(file) for file in images}
    inner = common_folder(sorted(folders))
    single = sorted(folders) if len(folders) <= _MOST_FOLDERS else []
    inside = os.path.relpath(folder, table_folder)
    above = [] if inside.startswith(".") else [(table_folder, folder, inside)]
    roots = [(inner, inner, ""), (folder, folder, ""), *above, *((one, one, "") for one in single)]
    for root, below, before in dict.fromkeys(roots):
        own = (files.relative(file, below) for file in images if file.startswith(f"{below}/"))
        names = frozenset(posixpath.join(before, name) for name in own)
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
            texts = rows.column(field.name).drop_null().cast(pa.string()).unique()
            values = set(texts.to_pylist())
            # As Windows divides folders.
            bent = set(pc.replace_substring(texts, "\\", "/").to_pylist()) - values
            if bent and any(bent & way.names for way in ways):
                raise RecipeError(
                    f"{table}, column '{field.name}': found names of images with '\\', expected "
                    f"'/'. Write them so: sed -i 's|\\\\|/|g' {shlex.quote(table)}"
                )
            others = [name for name in rows.schema.names if name != field.name]
            label = others[0] if len(others) == 1 and _may_be_label(rows.column(others[0])) else ""
            for way in ways:
                if found := len(values & way.names):
                    yield _Match(found, table, field.name, label, way, is_number)


def _may_be_label(column: pa.ChunkedArray) -> bool:
    """Whether a column has classes or numbers, no captions or lists."""
    kind, known = column.type, column.drop_null()
    if pa.types.is_floating(kind):
        known = known.filter(pc.invert(pc.is_nan(known)))
    least = min(_FEW_LABELS, max(1, len(column) / 20))
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or len(known) < least:
        return False
    if not pa.types.is_string(kind):
        return True
    words = pc.mean(pc.count_substring_regex(known, r"\S+")).as_py()
    return bool(words < _WORDS_OF_CAPTIONS or pc.count_distinct(known).as_py() <= len(known) / 2)
