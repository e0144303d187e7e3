"""A recipe as JSON data, and its hash."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
from collections.abc import Mapping
from typing import Any, get_args, get_type_hints

from beam_pipelines.core import plugins
from beam_pipelines.core.errors import mask
from beam_pipelines.recipe.databases import without_user
from beam_pipelines.recipe.model import Recipe

# Fields that may have URLs.
_PATHS = ("path", "labels", "schema", "validation_config", "preprocessing_fn")


def normalised(recipe: Recipe) -> dict[str, Any]:
    """Returns the recipe as JSON data, with all defaults but ``omitted`` ones.

    Secrets in paths are masked; ``append``, checks, directory, date and lines are left out. New
    data that are transformed are not checked.
    """
    result: dict[str, Any] = _plain(recipe)
    return result


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _masked(field.name, _plain(getattr(value, field.name)))
            for field in dataclasses.fields(value)
            if field.compare and not _is_omitted(field, getattr(value, field.name))
        }
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    return value


def _masked(name: str, value: Any) -> Any:
    if name in ("url", "uri"):
        return value and without_user(value)
    if name not in _PATHS:
        return value
    return [mask(item) for item in value] if isinstance(value, list) else value and mask(value)


def _is_omitted(field: dataclasses.Field[Any], value: Any) -> bool:
    if not field.metadata.get("omitted"):
        return False
    if field.default_factory is not dataclasses.MISSING:
        return bool(value == field.default_factory())
    return bool(value == field.default)


def from_normalised(data: Mapping[str, Any], directory: str) -> Recipe:
    """Returns the recipe of data that ``normalised`` made.

    Raises:
      KeyError, TypeError, ValueError, AttributeError: the data are not a recipe's.
    """
    recipe: Recipe = dataclasses.replace(_built(Recipe, data), directory=directory)
    return recipe


def _built(kind: Any, value: Any) -> Any:
    """Returns plain data as a value of an annotated type."""
    if dataclasses.is_dataclass(kind) and value is not None:
        hints = get_type_hints(kind)
        return kind(**{name: _built(hints[name], item) for name, item in value.items()})  # type: ignore[operator]
    arguments = get_args(kind)
    if value is not None and type(None) in arguments:
        return _built(next(argument for argument in arguments if argument is not type(None)), value)
    if isinstance(value, list):
        kinds = arguments[:1] * len(value) if arguments[1:] in ((), (...,)) else arguments
        return tuple(
            _built(own, item) for own, item in zip(kinds or [Any] * len(value), value, strict=True)
        )
    if isinstance(value, dict) and len(arguments) == 2:
        return {name: _built(arguments[1], item) for name, item in value.items()}
    return value


def recipe_hash(recipe: Recipe) -> str:
    """Returns the SHA-256 (hex) of the normalised recipe.

    The order of derived columns and of encodings counts, and so do checks that leave rows out.
    """
    checks = {
        name: _plain(value)
        for name, value in recipe.checks.items()
        if plugins.load(plugins.CHECKS, name).changes_rows
    }
    derived = [list(source.derive) for source in recipe.sources.values()]
    more: list[Any] = [derived] if any(derived) else []
    more += [checks] if checks else []
    text = json.dumps(
        [normalised(recipe), list(recipe.derive), list(recipe.encode), *more],
        sort_keys=True,
        separators=(",", ":"),
    )
    return hashlib.sha256(text.encode()).hexdigest()
