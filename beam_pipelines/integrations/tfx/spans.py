"""Resolves the span and version of a recipe's sources by TFX's rules.

A source's path may contain TFX's placeholders ``{SPAN}``, ``{YYYY}-{MM}-{DD}`` and ``{VERSION}``,
with widths as in ``{SPAN:5}``, and the recipe's ``{date}``. TFX's span of a date is the number of
days since 1970-01-01. TFX's code (``FileBasedInputProcessor``) finds the files and chooses the
latest span, or that of a range config, and its latest version. All paths with placeholders must
agree on them.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from tfx.components.example_gen import input_processor, utils
from tfx.proto import example_gen_pb2

from beam_pipelines.core.errors import RecipeError
from beam_pipelines.files.beam import files
from beam_pipelines.recipe import path_dates
from beam_pipelines.recipe.model import Recipe

_DATE_PLACES = {
    utils.YEAR_SPEC: "{date:%Y}",
    utils.MONTH_SPEC: "{date:%m}",
    utils.DAY_SPEC: "{date:%d}",
}
_DATE = re.compile(r"\{date(?::([^{}]*))?\}")
_EPOCH = datetime.date(1970, 1, 1)


class Spans(NamedTuple):
    """Span and version of a pipeline run.

    The span is 0, and the version ``None``, if no path has a placeholder for it.
    """

    span: int
    version: int | None


def resolve_spans(recipe: Recipe, range_config: Any = None) -> Spans:
    """Returns the span and version to convert.

    Args:
      recipe: recipe with all placeholders in its sources' paths.
      range_config: TFX's ``RangeConfig``, or ``None`` for the latest span.

    Raises:
      RecipeError: the span has no files, paths disagree about the latest span, or TFX rejects a
        placeholder.
    """
    splits = [
        example_gen_pb2.Input.Split(
            name=name, pattern=files.resolve(_as_tfx(path), recipe.directory)
        )
        for name, path in _used_paths(recipe)
        if _names_span(_as_tfx(path))
    ]
    has_date = any(_has_date(_without_numbers(path)) for _, path in _used_paths(recipe))
    if not splits and not has_date and range_config is None:
        return Spans(0, None)
    if not splits and has_date and not (range_config and range_config.HasField("static_range")):
        raise RecipeError(
            f"{recipe.name}: found no source whose path names one whole day, as in "
            f"clicks/{{date}}.csv or {{date:%Y/%m/%d}}, expected one to "
            "look for the latest day. Write one so, or name the span by a RangeConfig with a "
            "static_range."
        )
    try:
        if splits or not has_date:
            processor = input_processor.FileBasedInputProcessor("", splits, range_config)
        else:  # only a part of the day is in the paths: nothing to look for, as in a query
            processor = input_processor.QueryBasedInputProcessor(splits, range_config)
        span, version = processor.resolve_span_and_version()
    except ValueError as error:
        raise RecipeError(
            f"{recipe.name}: found no span to convert: {error}. See docs/tfx.md."
        ) from error
    return Spans(span, version)


def fill_spans(recipe: Recipe, spans: Spans) -> Recipe:
    """Returns the recipe of one span and version.

    A date becomes the recipe's ``date``, and ``{date}`` stays in the paths.
    """
    sources = {
        name: dataclasses.replace(
            source, path=tuple(_as_dates(_with_numbers(path, spans)) for path in source.path)
        )
        for name, source in recipe.sources.items()
    }
    filled = dataclasses.replace(recipe, sources=sources)
    if not any(_has_date(path) for _, path in _used_paths(filled)):
        return filled
    return dataclasses.replace(filled, date=_EPOCH + datetime.timedelta(days=spans.span))


def _used_paths(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Yields (source's name, path) of the sources that are read."""
    for name in dict.fromkeys([recipe.base, *(join.source for join in recipe.join)]):
        for path in recipe.sources[name].path:
            yield name, path


def _has_date(path: str) -> bool:
    """Whether a path contains ``{date}``.

    Planning reports misspelt placeholders, because it knows the recipe's lines.
    """
    try:
        return path_dates.has_date(_as_dates(path))
    except ValueError:
        return False


def _as_tfx(path: str) -> str:
    """Returns a path with ``{YYYY}-{MM}-{DD}`` in place of ``{date}``."""

    def place(match: re.Match[str]) -> str:
        found = match[1] or "%Y-%m-%d"
        for directive, spec in (
            ("%Y", utils.YEAR_SPEC),
            ("%m", utils.MONTH_SPEC),
            ("%d", utils.DAY_SPEC),
        ):
            found = found.replace(directive, spec)
        return match[0] if "%" in found else found

    return _DATE.sub(place, path)


def _as_dates(path: str) -> str:
    """Returns a path with ``{date:…}`` for TFX's ``{YYYY}``, ``{MM}`` and ``{DD}``."""
    for spec, place in _DATE_PLACES.items():
        path = path.replace(spec, place)
    return path


def _names_span(pattern: str) -> bool:
    """Whether a pattern names a span by number or complete date.

    A pattern with only a month, say, follows the date that other sources name. TFX reports patterns
    that it rejects.
    """
    if re.search(utils.SPAN_FULL_REGEX, pattern) or re.search(utils.VERSION_FULL_REGEX, pattern):
        return True
    return all(pattern.count(spec) == 1 for spec in utils.DATE_SPECS) and not _DATE.search(pattern)


def _without_numbers(path: str) -> str:
    return re.sub(utils.VERSION_FULL_REGEX, "", re.sub(utils.SPAN_FULL_REGEX, "", path))


def _with_numbers(path: str, spans: Spans) -> str:
    """Returns a path with span and version filled in."""
    return str(
        utils.get_pattern_for_span_version(
            path,
            is_match_span=bool(re.search(utils.SPAN_FULL_REGEX, path)),
            is_match_date=False,
            is_match_version=bool(re.search(utils.VERSION_FULL_REGEX, path)),
            span=spans.span,
            version=spans.version,
        )
    )
