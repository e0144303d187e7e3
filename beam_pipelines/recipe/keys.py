"""Keys of a recipe, each declared once, in a dataclass.

The reader of a section, its table in docs/recipe.md (by a test) and its JSON Schema follow from the
declarations.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar, get_args, get_type_hints

from beam_pipelines.core.errors import nearest_word
from beam_pipelines.recipe.values import Value, ValueReader

T = TypeVar("T")

# For keys that recipe/reader.py reads: it knows the formats, encodings and names of sources.
ELSEWHERE: ValueReader[Any] = ValueReader(lambda _: None, {})


# The default of a key whose value the files of a source show.
FOUND = "found"


class Key(NamedTuple):
    """A key of a section.

    Attributes:
      name: in the recipe.
      read: reads its value.
      default: as docs/recipe.md shows it; ``needed`` if the key must be there.
      help: one line.
      example: of a value, for the error that says that it is missing; ``{name}`` is the name
        of the section.
    """

    name: str
    read: ValueReader[Any]
    default: str
    help: str
    example: str = ""


def recipe_key(
    read: ValueReader[Any],
    default: Any,
    shown: str,
    help: str,  # noqa: A002 - the word for it
    name: str = "",
    omitted: bool = False,
) -> Any:
    """Returns the dataclass field of a key.

    Args:
      read: reads its value.
      default: the field's, if the key is not there.
      shown: the default, as docs/recipe.md shows it.
      help: one line.
      name: in the recipe, if the field has another one.
      omitted: whether the normal form of a recipe leaves the field out where it has its default,
        so that the hashes of older recipes stay.
    """
    metadata = {"key": Key(name, read, shown, help), "omitted": omitted}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def plain_key(
    read: ValueReader[Any],
    default: Any,
    help: str,  # noqa: A002 - the word for it
    omitted: bool = False,
) -> Any:
    """Returns the field of a key whose default needs no other words.

    docs/recipe.md shows it as ``none``, as a number, or as the word in a recipe.

    Args:
      read, default, help, omitted: as ``recipe_key`` takes them.
    """
    shown = str(default).lower() if isinstance(default, bool) else str(default)
    if default in (None, (), {}, ""):
        shown = "none"
    elif isinstance(default, bool | str):
        shown = f"`{shown}`"
    return recipe_key(read, default, shown, help, omitted=omitted)


def needed_key(read: ValueReader[Any], help: str, example: str) -> Any:  # noqa: A002 - the word for it
    """Returns the dataclass field of a key that must be there."""
    return dataclasses.field(metadata={"key": Key("", read, "needed", help, example)})


_DECLARED: dict[Any, dict[str, Key]] = {}


def declare(kind: Any, *keys: Key) -> None:
    """Declares the keys of a dataclass that cannot import this module."""
    _DECLARED[kind] = {declared.name: declared for declared in keys}


def keys_of(kind: Any) -> dict[str, Key]:
    """Returns field -> key of a section, in order."""
    return _DECLARED.get(kind) or {
        field.name: declared._replace(name=declared.name or field.name)
        for field in dataclasses.fields(kind)
        if (declared := field.metadata.get("key")) is not None
    }


class Formats(Collection[str], Protocol):
    """The known formats of sources, and the keys that they declare."""

    @property
    def option_names(self) -> Mapping[str, tuple[str, ...]]:
        """Key -> formats and planners that have it."""
        ...

    def declaring(self, key: str) -> Any:
        """Returns ``Options`` with a key, or ``None``; imports the format."""
        ...


# Field -> type of a dataclass.
hints_of: Callable[[Any], Mapping[str, Any]] = functools.cache(get_type_hints)


def built(kind: Any, value: Any) -> Any:
    """Returns JSON data as a value of an annotated type.

    A value of a dataclass stays.
    """
    if dataclasses.is_dataclass(kind) and isinstance(value, Mapping):
        hints = hints_of(kind)
        return kind(**{name: built(hints[name], item) for name, item in value.items()})  # type: ignore[operator]
    arguments = get_args(kind)
    if value is not None and type(None) in arguments:
        return built(next(argument for argument in arguments if argument is not type(None)), value)
    if isinstance(value, list):
        kinds = arguments[:1] * len(value) if arguments[1:] in ((), (...,)) else arguments
        return tuple(
            built(own, item) for own, item in zip(kinds or [Any] * len(value), value, strict=True)
        )
    if isinstance(value, dict) and len(arguments) == 2:
        return {name: built(arguments[1], item) for name, item in value.items()}
    return value


def read_keys(
    kind: Any,
    value: Value,
    expected: str,
    readers: Mapping[str, Callable[[Value], Any]] | None = None,
    others: Iterable[str] = (),
) -> dict[str, Any]:
    """Reads a section and notes its unknown keys.

    Args:
      kind: dataclass of the section.
      value: a mapping; another value is noted as a problem.
      expected: a mapping, in an error's words.
      readers: field -> reader, instead of the declared one.
      others: keys that are known, but read elsewhere.

    Returns:
      Field -> value, of the keys that are there and right.
    """
    if not isinstance(value.tree, dict):
        value.expected(expected)
    keys, found, given = keys_of(kind), {}, dict(value.items())
    names = [*(declared.name for declared in keys.values()), *others]
    for field, declared in keys.items():
        if declared.name in given:
            read = (readers or {}).get(field, declared.read)(given[declared.name])
            if read is not None:
                found[field] = read
        elif declared.example and isinstance(value.tree, dict):
            example = declared.example.replace("{name}", str(value.path[-1:] and value.path[-1]))
            value.wrong(
                f"found no '{declared.name}', expected one, for example "
                f"'{declared.name}: {example}'."
            )
    missing = [name for name in names if name not in given]
    for name in [name for name in given if name not in names]:
        meant = nearest_word(name, missing)
        hint = f"Did you mean '{meant}'?" if meant else f"Known are {', '.join(names)}."
        given[name].wrong_key(f"found an unknown key '{name}'. {hint}", meant)
    return found


def section(
    kind: type[T], expected: str, check: Callable[[Value, T], None] = lambda _, __: None
) -> ValueReader[T]:
    """Returns the reader of a section all of whose keys have defaults.

    Args:
      kind: its dataclass.
      expected: a mapping, in an error's words.
      check: notes keys that contradict each other.
    """

    def read(value: Value) -> T:
        found = kind(**read_keys(kind, value, expected))
        check(value, found)
        return found

    return ValueReader(read, json_schema(kind))


def json_schema(kind: Any, schemas: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns the JSON Schema of a section.

    Args:
      kind: its dataclass.
      schemas: field -> JSON Schema, instead of that of the key's reader.
    """
    keys = keys_of(kind)
    return {
        "type": "object",
        "properties": {
            declared.name: {
                "description": declared.help,
                **(schemas or {}).get(field, declared.read.schema),
            }
            for field, declared in keys.items()
        },
        "required": [declared.name for declared in keys.values() if declared.example],
        "additionalProperties": False,
    }
