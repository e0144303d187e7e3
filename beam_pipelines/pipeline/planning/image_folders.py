"""Recipes for folders of images: with classes, or a plugin's table."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Sequence
from typing import Any

from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.core.process import plugins
from beam_pipelines.files.beam import files, listing, path_patterns
from beam_pipelines.recipe.reader import bare_name
from beam_pipelines.recipe.text.yaml import Tree, tree_of
from beam_pipelines.sources import format_of_path
from beam_pipelines.sources.files.listing import datasets_in
from beam_pipelines.sources.images import folder as folder_format

_TABLES = ("csv", "tsv", "json_lines", "parquet", "arrow")
_PIXELS = ("image/format", "image/height", "image/width", "image/channels")
COLUMNS = (folder_format.ENCODED, *_PIXELS, folder_format.FILENAME)
# Names of folders, and of their splits.
_SPLITS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    "eval": "eval",
    **dict.fromkeys(("test", "testing"), "test"),
}


def image_folder(path: str, table: str = "") -> Tree | None:
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
    listed = [file.path for file in listing.list_files(files.join(path, "**"))]
    datasets = datasets_in(path.rstrip("/"), {*listed})
    listed = [file for file in listed if not file.startswith(datasets)]
    images = [file for file in listed if file.lower().endswith(folder_format.SUFFIXES)]
    tables = [
        file
        for file in listed
        if format_of_path(file) in _TABLES and "submission" not in posixpath.basename(file)
    ]
    if not images or {format_of_path(file) for file in listed} - {None, "images", *_TABLES}:
        return None
    tables = [table] if table else tables
    found = _of_table(path, images, tables) if tables else None
    return tree_of(found or _of_classes(path, images))


def _of_table(path: str, images: Sequence[str], tables: Sequence[str]) -> dict[str, Any] | None:
    """Returns the recipe of images with a table; ``None`` without one."""
    try:
        find = plugins.load(plugins.FUNCTIONS, "image_table")
    except DataError as error:
        if all(table.lower().endswith(".txt") for table in tables):  # such as a README
            return None
        raise RecipeError(
            f"{path}: found images and {' and '.join(tables[:3])}. {error}; or "
            f"{alone(path, images)}"
        ) from error
    found: dict[str, Any] | None = find(path, images, tables)
    return found


def alone(path: str, images: Sequence[str]) -> str:
    """Returns how to read images without a table."""
    pattern = f"{path.rstrip('/')}/**{os.path.splitext(images[0])[1]}"
    return f"to read the images alone, name them: '{pattern}'."


def _of_classes(path: str, images: Sequence[str]) -> dict[str, Any]:
    name, root = bare_name(path), path.rstrip("/")
    # One folder of all pictures is no class, such as one next to labels.
    while len(tops := _below(root, images)) == 1 and (
        tops[0].lower() in _SPLITS or folder_format.PARTS.fullmatch(tops[0])
    ):
        path = root = f"{root}/{tops[0]}"
    # Deeper folders are an error, unless the user says that folders are no classes.
    depths = {files.relative(file, root).count("/") for file in images}
    splits = _splits(root, images)
    source: dict[str, Any] = {"path": path, "format": "images"}
    recipe: dict[str, Any] = {"name": name, "sources": {name: source}}
    if depths == ({2} if splits else {1}):
        recipe["label"] = folder_format.LABEL
    if splits and depths == {2}:
        source["path"] = [f"{root}/{folder}" for folder in splits.values()]
    if splits and depths == {1}:
        source["columns"] = [*COLUMNS]
    if splits and depths in ({1}, {2}):
        # Paths may begin at another folder.
        above = f"*{posixpath.basename(root)}/" if root.strip("./") else "*"
        recipe["split"] = {
            split: {"files": f"{above}{splits[split]}/*"}
            for split in dict.fromkeys(_SPLITS.values())
            if split in splits
        }
    return recipe


def _splits(root: str, images: Sequence[str]) -> dict[str, str]:
    """Returns split -> folder, if the folders are those of splits."""
    if path_patterns.has_wildcard(root):  # which a pattern would not take as it is
        return {}
    folders = _below(root, images)
    splits = {_SPLITS.get(folder.lower(), folder): folder for folder in folders}
    is_train = "train" in splits and len(splits) > 1
    return splits if is_train and set(splits) <= {*_SPLITS.values()} else {}


def _below(root: str, images: Sequence[str]) -> list[str]:
    """Returns the names of folders, or of images, in a folder."""
    return sorted({files.relative(file, root).partition("/")[0] for file in images})
