"""Finds datasets that are read as one, and compares them."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from beam_pipelines.core.errors import DataError, mask
from beam_pipelines.core.layout.dataset_layout import MANIFEST
from beam_pipelines.core.process import full_package
from beam_pipelines.reader.features import (
    ReadFeature,
    Wishes,
    names_of_lists_of_lists,
    wanted_features,
)
from beam_pipelines.reader.folders.opened import Opened
from beam_pipelines.reader.parts import ReadSplit, make_split

# One dataset, a pattern of several, or a list of both: paths or URLs.
Folders: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"

T = TypeVar("T")
R = TypeVar("R")

_THREADS = 16
_SHOWN = 80
_GROW = "Make it by 'beam-pipelines transform {} … --grow', which fits nothing again."


def list_folders(given: Folders) -> tuple[str, ...]:
    """Returns the folders that an argument names, in its order.

    Those of a pattern are sorted. A pattern finds the folders that have a manifest.

    Args:
      given: the argument.

    Raises:
      DataError: no folder matches.
      ValueError: there is none, or one twice.
    """
    items = [given] if isinstance(given, str | os.PathLike) else list(given)
    if not items:
        raise ValueError(
            "folder: found an empty list, expected the folder of a dataset, or several."
        )
    found: list[str] = []
    for item in [os.fspath(one) for one in items]:
        found += _matching(item) if _is_pattern(item) else [item]
    ids = (one.rstrip("/") if "://" in one else os.path.realpath(one) for one in found)
    (folder, count), *_ = Counter(ids).most_common(1)
    if count > 1:
        raise ValueError(
            f"{mask(folder)}: found it {count} times, expected each dataset once, as its rows "
            "would be read again. Name it once."
        )
    return tuple(found)


def _is_pattern(path: str) -> bool:
    """Whether a path is a pattern.

    ``?`` and brackets are parts of URLs.
    """
    if "://" in path:
        return "*" in path
    return glob.has_magic(path) and not os.path.exists(path)


def _matching(pattern: str) -> list[str]:
    name = f"/{MANIFEST}"
    found = sorted(path.removesuffix(name) for path in _find_files(f"{pattern.rstrip('/')}{name}"))
    if not found:
        raise DataError(
            f"{mask(pattern)}: found no folder with a {MANIFEST}, expected one or more datasets. "
            "Name the folder of a dataset, or change the pattern."
        )
    return found


def _find_files(pattern: str) -> Sequence[str]:
    if "://" not in pattern:
        return glob.glob(pattern, recursive=True)
    if pattern.partition("://")[0] in ("http", "https"):
        raise DataError(
            f"{mask(pattern)}: found a pattern, expected a folder, as a web server does not list "
            "its files. Give a list of all folders."
        )
    listing = full_package.import_module("files.beam.listing", "bp.open of a pattern in a store")
    return [listed.path for listed in listing.list_files(pattern, with_hidden=True)]


def open_all(folder: Folders, cache: str | None, cache_bytes: int) -> list[Opened]:
    """Opens a dataset, or several that are read as one; see ``Dataset``."""
    found = in_threads(lambda path: Opened.at(path, cache, cache_bytes), list_folders(folder))
    if len(found) > 1:
        check_together(found)
    return found


def the_only(opened: Sequence[Opened], what: str) -> Opened:
    """Returns the one dataset that there is.

    Args:
      opened: the datasets.
      what: is asked of it, an attribute of ``Dataset``.

    Raises:
      ValueError: there are several.
    """
    if len(opened) > 1:
        raise ValueError(
            f"{what}: found {len(opened):,} datasets that are read as one, expected one. Open one: "
            f"bp.open({opened[0].shown!r}).{what}."
        )
    return opened[0]


def indexed(opened: Sequence[Opened], split: str) -> ReadSplit:
    """Returns the shards of a split with the parts of their indexes.

    Raises:
      DataError: there are none.
    """
    found = [
        one for several in in_threads(lambda one: one.indexes_of(split), opened) for one in several
    ]
    if not found:
        raise DataError(
            f"{opened[0].shown}: found no rows in split '{split}'. Change 'split' or 'filter' in "
            "the recipe."
        )
    return make_split(split, found)


def in_threads(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Returns a function's results.

    So answers of a store for many folders are awaited at once.
    """
    if len(items) == 1:
        return [function(items[0])]
    from concurrent.futures import ThreadPoolExecutor  # one dataset spares the import

    with ThreadPoolExecutor(_THREADS) as threads:
        return list(threads.map(function, items))


def check_together(opened: Sequence[Opened]) -> None:
    """Checks that datasets can be read as one.

    They have the same kind of records, label, class names, encodings and features.

    Raises:
      ValueError: one differs from the first.
    """
    first, *others = opened
    for other in others:
        for what in ("record", "format", "label", "labels"):
            found, wanted = getattr(other.fields, what), getattr(first.fields, what)
            if found != wanted:
                raise ValueError(
                    f"{other.shown}: found the {what} {_short(found)}, expected "
                    f"{_short(wanted)} as in {first.shown}. Open them one by one, "
                    "or convert both with one recipe."
                )
        if other.fields.encodings != first.fields.encodings:
            own, wanted = (one.fields.recipe.get("encode", {}) for one in (other, first))
            names = [name for name in {**wanted, **own} if own.get(name) != wanted.get(name)]
            what = f"the recipe's 'encode.{names[0]}'" if names else "other data"
            raise ValueError(
                f"{other.shown}: found other encodings than in {first.shown}, of {what}, so that "
                f"ids and scales mean something else. {_GROW.format(first.shown)}"
            )
        if first.fields.record != "raw":
            _check_features(first, other)


def _short(value: object) -> str:
    """Returns a value as text; class names may be thousands."""
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _check_features(first: Opened, other: Opened) -> None:
    files = [one.fields.files.get(one.fields.schema) for one in (first, other)]
    if None not in files and files[0] == files[1]:
        return
    own, wanted = _forms(other), _forms(first)
    for name in {**wanted, **own}:
        found, expected = own.get(name, "none"), wanted.get(name, "none")
        if found != expected:
            raise ValueError(
                f"{other.shown}: found feature '{name}': {found}; expected {expected}, as "
                f"in {first.shown}. {_GROW.format(first.shown)} Or convert both with "
                "one schema ('schema' in the recipe)."
            )


def _forms(one: Opened) -> dict[str, str]:
    """Returns feature -> the form that readers give it, in words."""
    several = names_of_lists_of_lists(one.fields.columns)
    # Padding tells lists from single values that may be missing.
    features = wanted_features(one.shown, one.schema(), several, Wishes(padding=0), "numpy")
    return {feature.name: _form(feature) for feature in features}


def _form(feature: ReadFeature) -> str:
    if feature.steps is not None:
        return f"{feature.type}, steps of {feature.steps} value{'s' * (feature.steps != 'one')}"
    if feature.shape is not None:
        return f"{feature.type}, shape {list(feature.shape)}, never missing"
    return f"{feature.type}, {'one value or none' if feature.padding is None else 'a list'}"
