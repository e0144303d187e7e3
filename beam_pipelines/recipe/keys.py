"""Keys of a recipe, each declared once, in a dataclass.

The reader of a section, its table in docs/recipe.md (by a test) and its JSON Schema follow from the
declarations.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from beam_pipelines.core import plugins
from beam_pipelines.core.errors import nearest, nearest_word
from beam_pipelines.recipe.values import Reader, Value

T = TypeVar("T")

# For keys that recipe/reader.py reads: it knows the formats, encodings and names of sources.
ELSEWHERE: Reader[Any] = Reader(lambda _: None, {})


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
    read: Reader[Any]
    default: str
    help: str
    example: str = ""


def recipe_key(
    read: Reader[Any],
    default: Any,
    shown: str,
    help: str,  # noqa: A002 - the word for it
    name: str = "",
    compare: bool = True,
    omitted: bool = False,
) -> Any:
    """Returns the dataclass field of a key.

    Args:
      read: reads its value.
      default: the field's, if the key is not there.
      shown: the default, as docs/recipe.md shows it.
      help: one line.
      name: in the recipe, if the field has another one.
      compare: whether the field is part of the recipe's hash.
      omitted: whether the normal form of a recipe leaves the field out where it has its default,
        so that the hashes of older recipes stay.
    """
    metadata = {"key": Key(name, read, shown, help), "omitted": omitted}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata=metadata, compare=compare)
    return dataclasses.field(default=default, metadata=metadata, compare=compare)


def needed_key(read: Reader[Any], help: str, example: str) -> Any:  # noqa: A002 - the word for it
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


def options_of_formats() -> dict[str, Key]:
    """Returns the keys of a source that formats of other packages declare."""
    found: dict[str, Key] = {}
    for name in plugins.others(plugins.FORMATS):
        options = plugins.load(plugins.FORMATS, name).Options
        found |= {} if options is None else {each.name: each for each in keys_of(options).values()}
    return found


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
    meant = {nearest_word(name, names) for name in given if name not in names}
    for field, declared in keys.items():
        if declared.name in given:
            read = (readers or {}).get(field, declared.read)(given[declared.name])
            if read is not None:
                found[field] = read
        elif declared.example and isinstance(value.tree, dict) and declared.name not in meant:
            example = declared.example.replace("{name}", str(value.path[-1:] and value.path[-1]))
            value.wrong(
                f"found no '{declared.name}', expected one, for example "
                f"'{declared.name}: {example}'."
            )
    check_known(given, names)
    return found


def check_known(given: Mapping[str, Value], known: list[str]) -> None:
    """Notes every key that is not known."""
    for name, item in given.items():
        if name not in known:
            hint = nearest(name, known) or f" Known are {', '.join(known)}."
            item.wrong_key(f"found an unknown key '{name}'.{hint}")


def section(
    kind: type[T], expected: str, check: Callable[[Value, T], None] = lambda _, __: None
) -> Reader[T]:
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

    return Reader(read, json_schema(kind))


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
                **_or_variable((schemas or {}).get(field, declared.read.schema)),
            }
            for field, declared in keys.items()
        },
        "required": [declared.name for declared in keys.values() if declared.example],
        "additionalProperties": False,
    }


# ``${name}`` of ``vars``, in place of a number, a word or true.
_VARIABLE = {"type": "string", "pattern": r"^\$\{[A-Za-z_][A-Za-z0-9_]*\}$"}


def _or_variable(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the schema of a value that may be a variable."""
    is_text = "string" in json.dumps(schema.get("type", "string"))
    if is_text and "enum" not in schema and "pattern" not in schema and "maxLength" not in schema:
        return schema
    if schema.get("type") in ("object", "array"):
        return schema
    return {"anyOf": [schema, _VARIABLE]}
