"""Where a source is: in files, or where a planner reads it."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping

from beam_pipelines.core.process.plugins import FORMATS, KNOWN, PLANNERS
from beam_pipelines.recipe.text.yaml import Scalar, Tree

# Keys that take the place of ``path``.
PLACES = tuple(known.place for known in KNOWN[PLANNERS].values() if known.place)


def scheme_of(path: str) -> str:
    """Returns the scheme of a planner's URL; "" for others."""
    scheme = path.partition("://")[0].lower() if "://" in path else ""
    return scheme if any(scheme in known.schemes for known in KNOWN[PLANNERS].values()) else ""


def planner_of(path: str) -> str | None:
    """Returns the planner of a URL or file, or ``None``.

    The name of a part, such as a table, may follow after ``#``.
    """
    scheme, place = scheme_of(path), split_part(path)[0].lower()
    for name, known in KNOWN[PLANNERS].items():
        if scheme in known.schemes or (known.suffixes and place.endswith(known.suffixes)):
            return name
    return None


def split_part(path: str) -> tuple[str, str]:
    """Returns a file or URL, and its part after ``#``, or ""."""
    place, _, part = path.partition("#")
    return place, urllib.parse.unquote(part)


def keys_of_path(path: str) -> dict[str, str]:
    """Returns the keys and values of a source that is one path."""
    place, part = split_part(path)
    planner = planner_of(path)
    if planner is not None:
        known = KNOWN[PLANNERS][planner]
        return {known.place: place, known.part: part} if part else {known.place: place}
    for known in KNOWN[FORMATS].values():
        if part and known.part and place.lower().endswith(known.suffixes):
            return {"path": place, known.part: part}
    return {"path": path}


def tree_of_path(path: str) -> dict[str, Tree]:
    """Returns the YAML of a source that is one path."""
    return {key: Scalar(text, text) for key, text in keys_of_path(path).items()}


def with_parts(tree: dict[str, Tree]) -> dict[str, Tree]:
    """Returns a source's mapping with parts after ``#`` as keys."""
    for place in PLACES:
        given = tree.get(place)
        if isinstance(given, Scalar) and split_part(given.text)[1] and planner_of(given.text):
            return {**tree, **tree_of_path(given.text)}
    return tree


def place_in(options: Mapping[str, object]) -> str | None:
    """Returns the URL or file of a source's table, or ``None``."""
    return next((given for place in PLACES if isinstance(given := options.get(place), str)), None)
