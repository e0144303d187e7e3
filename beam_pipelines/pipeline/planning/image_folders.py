"""Recipes for folders of images, with classes or a table."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.errors import PipelineError, RecipeError
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.reader import bare_name
from beam_pipelines.recipe.text.yaml import Scalar, Tree
from beam_pipelines.sources import format_of_path
from beam_pipelines.sources.files.listing import datasets_in
from beam_pipelines.sources.images.folder import (
    ENCODED,
    FILENAME,
    LABEL,
    STEM,
    SUFFIXES,
    common_folder,
)
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.storage import files, input_files, path_patterns
from beam_pipelines.transforms import read

_TABLES = ("csv", "tsv", "json_lines", "parquet", "arrow")
_LABELS = "labels"
# Folders whose images a table may name without the folder.
_MOST_FOLDERS = 20
_COLUMNS = (ENCODED, "image/format", "image/height", "image/width", "image/channels", FILENAME)
# Fewer labels than these, in less than a twentieth of the rows, are none; nor are texts of many
# words that mostly differ.
_FEW_LABELS, _WORDS_OF_CAPTIONS = 10, 4
# Names of folders, and of their splits.
_SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    "eval": "eval",
    **dict.fromkeys(("test", "testing"), "test"),
}


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


def image_folder(path: str, table: str = "") -> dict[str, Tree] | None:
    """Returns the tree of the recipe for a folder of images.

    Args:
      path: of data, as on the command line.
      table: path of the table with labels; empty: it is looked for in the folder.

    Returns:
      The tree; ``None`` if the path is no local folder with images.

    Raises:
      RecipeError: a table in the folder names none of the images, or several tables do.
    """
    if not files.is_local(path) or not os.path.isdir(path):
        return None
    listed = [file.path for file in input_files.list_files(files.join(path, "**"))]
    datasets = datasets_in(path.rstrip("/"), {*listed})
    listed = [file for file in listed if not file.startswith(datasets)]
    images = [file for file in listed if file.lower().endswith(SUFFIXES)]
    tables = [
        file
        for file in listed
        if format_of_path(file) in _TABLES and "submission" not in posixpath.basename(file)
    ]
    if not images or {format_of_path(file) for file in listed} - {None, "images", *_TABLES}:
        return None
    tables = [table] if table else tables
    if not tables:
        return _of_classes(path, images)
    ways = list(_ways(path.rstrip("/") or path, images, posixpath.dirname(table)))
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
            f"{path}: found several tables with names of images: {found}, expected one. Convert "
            "each folder that has a table of its own, write a recipe that joins the right table, "
            "or move the others."
        )
    return _of_table(path, next(iter(best.values())))


def _of_classes(path: str, images: Sequence[str]) -> dict[str, Tree]:
    name, root = bare_name(path), path.rstrip("/")
    # Deeper folders are an error, unless the user says that folders are no classes.
    depths = {files.relative(file, root).count("/") for file in images}
    splits = _splits(root, images)
    source: dict[str, Tree] = {"path": _scalar(path), "format": _scalar("images")}
    recipe: dict[str, Tree] = {"name": _scalar(name), "sources": {name: source}}
    if depths == ({2} if splits else {1}):
        recipe["label"] = _scalar(LABEL)
    if splits and depths == {2}:
        source["path"] = [_scalar(f"{root}/{folder}") for folder in splits.values()]
    if splits and depths == {1}:
        source["columns"] = [_scalar(column) for column in _COLUMNS]
    if splits and depths in ({1}, {2}):
        # Paths may begin at another folder.
        above = f"*{posixpath.basename(root)}/" if root.strip("./") else "*"
        recipe["split"] = {
            split: {"files": _scalar(f"{above}{splits[split]}/*")}
            for split in dict.fromkeys(_SPLITS.values())
            if split in splits
        }
    return recipe


def _splits(root: str, images: Sequence[str]) -> dict[str, str]:
    """Returns split -> folder, if the folders are those of splits."""
    if path_patterns.has_wildcard(root):  # which a pattern would not take as it is
        return {}
    folders = sorted({files.relative(file, root).partition("/")[0] for file in images})
    splits = {_SPLITS.get(folder.lower(), folder): folder for folder in folders}
    is_train = "train" in splits and len(splits) > 1
    return splits if is_train and set(splits) <= {*_SPLITS.values()} else {}


def _of_table(path: str, match: _Match) -> dict[str, Tree]:
    name = bare_name(path)
    columns = [*_COLUMNS]
    columns += [STEM] if match.names.column == STEM else []
    labels = _LABELS if name != _LABELS else "table"
    label: dict[str, Tree] = {}
    if match.label:
        label["label"] = _scalar(match.label)
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


def _ways(folder: str, images: Sequence[str], table_folder: str) -> Iterator[_Names]:
    """Yields the ways in which a table may name images.

    Args:
      folder: that has the images.
      images: their paths.
      table_folder: the folder of a table that is not in it; or empty.
    """
    folders = {posixpath.dirname(file) for file in images}
    inner = common_folder(sorted(folders))
    single = sorted(folders) if len(folders) <= _MOST_FOLDERS else []
    above = [table_folder] if table_folder and folder.startswith(f"{table_folder}/") else []
    for root in dict.fromkeys([inner, folder, *above, *single]):
        below = f"{root}/"
        names = frozenset(files.relative(file, root) for file in images if file.startswith(below))
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
    if pa.types.is_nested(kind) or pa.types.is_binary(kind):
        return False
    if len(known) < min(_FEW_LABELS, max(1, len(column) / 20)):
        return False
    if not pa.types.is_string(kind):
        return True
    words = pc.mean(pc.count_substring_regex(known, r"\S+")).as_py()
    return bool(words < _WORDS_OF_CAPTIONS or pc.count_distinct(known).as_py() <= len(known) / 2)


def _by_table(matches: Sequence[_Match]) -> Iterator[tuple[str, list[_Match]]]:
    tables: Mapping[str, None] = dict.fromkeys(match.path for match in matches)
    for table in tables:
        yield table, [match for match in matches if match.path == table]
