"""A recipe as JSON data, and its hash."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from beam_pipelines.core.errors import mask
from beam_pipelines.core.process import plugins
from beam_pipelines.recipe.keys import built
from beam_pipelines.recipe.model import Recipe, Source

# Fields that may have URLs: ``files`` of splits, and ``key`` of hashes, which is one text.
_PATHS = ("path", "labels", "schema", "preprocessing_fn", "files", "key")
# Options of formats that every source of a normal form has, with their defaults, so that the hashes
# of recipes stay. Other options are there if a recipe has them.
_ALWAYS: Mapping[str, Any] = {
    **dict.fromkeys(("delimiter", "quote", "header", "skip_lines", "encoding", "schema")),
    "formats": {},
    "list_nulls": {},
    "libsvm": {"base": None, "size": None, "fields": None, "sort": False, "name": "features"},
    "image": {"resize": [], "format": None, "mode": None, "quality": 90, "classes": []},
    "idx": {"form": None, "labels": None, "classes": []},
}
# Section -> keys that it had, for the same reason; "" is the recipe itself.
_HAD: Mapping[str, dict[str, Any]] = {
    "": {"validation_config": None},
    "statistics": {"cross": [], "features": [], "sample": None},
    "split": {"buckets": {}},
    "fit": {"weight": None},
}
_OF_PROTECTION: dict[str, Any] = {"size": 0, "bits": 128}


def normalised(recipe: Recipe) -> dict[str, Any]:
    """Returns the recipe as JSON data, with all defaults but ``omitted`` ones.

    Secrets in paths are masked; checks, directory, date and lines are left out. New data
    that are transformed are not checked.
    """
    plain: dict[str, Any] = _plain(recipe)
    for section, keys in _HAD.items():
        (plain[section] if section else plain).update(keys)
    for protection in plain.get("protect", {}).values():
        protection.update(_OF_PROTECTION)
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, Source):
        options = {key: _masked(key, _plain(item)) for key, item in value.options.items()}
        if "idx" in options:  # which had ``form`` and ``labels``
            options["idx"] = {**_ALWAYS["idx"], **options["idx"]}
        return {**_fields(value, "options"), **_ALWAYS, **options}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    return value


def _fields(value: Any, *without: str) -> dict[str, Any]:
    return {
        field.name: _masked(field.name, _plain(getattr(value, field.name)))
        for field in dataclasses.fields(value)
        if field.compare
        and field.name not in without
        and not _is_omitted(field, getattr(value, field.name))
    }


def _masked(name: str, value: Any) -> Any:
    if name in ("url", "uri"):
        return value and _without_user(value)
    if name not in _PATHS or (name == "key" and isinstance(value, list)):
        return value
    if isinstance(value, dict):
        return {key: mask(item) for key, item in value.items()}
    return [mask(item) for item in value] if isinstance(value, list) else value and mask(value)


def _without_user(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}" if separator else url


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
    sources = {name: _source(source) for name, source in data["sources"].items()}
    had = {
        section: _known(data[section], keys) for section, keys in _HAD.items() if section in data
    }
    protect = data.get("protect", {})
    had["protect"] = {name: _known(own, _OF_PROTECTION) for name, own in protect.items()}
    own = {**had, "sources": sources, "directory": directory}
    recipe: Recipe = built(Recipe, {**_known(data, _HAD[""]), **own})
    return recipe


def _known(data: Mapping[str, Any], had: Mapping[str, Any]) -> dict[str, Any]:
    """Returns data without keys that a section had, if they say nothing."""
    return {key: one for key, one in data.items() if key not in had or one != had[key]}


def _source(data: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a source's fields; options are built when needed."""
    own = {field.name for field in dataclasses.fields(Source)}
    options = {
        key: value
        for key, value in data.items()
        if key not in own and (key not in _ALWAYS or value != _ALWAYS[key])
    }
    if (idx := options.get("idx")) and idx["form"] is idx["labels"] is None:
        options["idx"] = {"classes": idx["classes"]}
    return {**{key: value for key, value in data.items() if key in own}, "options": options}


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
