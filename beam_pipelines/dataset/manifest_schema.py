"""The form of a manifest: what readers rely on is there, and of the right kind, whatever somebody
has made of the file.

For readers with Beam (``manifest``) and without (``dataset_info``). Keys that no reader needs are
not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from beam_pipelines.core.formatting import shorten

# Checks a value; the text is where it is.
Check = Callable[[Any, str], None]

_MOST = (1 << 63) - 1
_COUNTS = ("read", "added", "dropped", "filtered", "merged", "written")


class FormError(ValueError):
    """Something that is missing, or of another kind. The message says where, what was found and
    what was expected.
    """


def check_form(manifest: Any, needed: Literal["dataset", "records", "description"]) -> None:
    """Checks a manifest.

    Args:
      manifest: parsed JSON.
      needed: ``dataset``: what this package relies on; ``records``: what it takes to find and parse
        the records, which is less; ``description``: of sources that were described only, so that no
        split has shards.

    Raises:
      FormError: something is missing, or of another kind.
    """
    {"dataset": _DATASET, "records": _RECORDS, "description": _DESCRIPTION}[needed](manifest, "")


def _wrong(where: str, value: Any, expected: str) -> FormError:
    shown = shorten(repr(value), 61)
    return FormError(f"found {shown} at '{where or 'the top'}', expected {expected}")


def _count(value: Any, where: str) -> None:
    if type(value) is not int or not 0 <= value <= _MOST:
        raise _wrong(where, value, "a whole number, not negative")


def _text(value: Any, where: str) -> None:
    if not isinstance(value, str) or any("\ud800" <= character <= "\udfff" for character in value):
        raise _wrong(where, value, "a text")


def _path(value: Any, where: str) -> None:
    """Checks a path that leads from the dataset's folder to a file in it."""
    _text(value, where)
    if "\0" in value or any(name in ("", ".", "..") for name in value.split("/")):
        raise _wrong(where, value, "a path within the dataset")


def _one_of(*words: str) -> Check:
    def check(value: Any, where: str) -> None:
        if value not in words:
            raise _wrong(where, value, f"one of {', '.join(words)}")

    return check


def _or_nothing(item: Check) -> Check:
    def check(value: Any, where: str) -> None:
        if value is not None:
            item(value, where)

    return check


def _list_of(item: Check, least: int = 0) -> Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, list) or len(value) < least:
            raise _wrong(where, value, "a list with something in it" if least else "a list")
        for place, found in enumerate(value):
            item(found, f"{where}/{place}")

    return check


def _mapping_of(item: Check, least: int = 0) -> Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict) or len(value) < least:
            raise _wrong(where, value, "a mapping with something in it" if least else "a mapping")
        for key, found in value.items():
            _text(key, where)
            item(found, f"{where}/{key}")

    return check


def _nothing(value: Any, where: str) -> None:
    if value != []:
        raise _wrong(where, value, "an empty list")


def _anything(value: Any, where: str) -> None:
    """Takes what is there."""


def _fields(needed: Mapping[str, Check], more: Mapping[str, Check] | None = None) -> Check:
    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(where, value, "a mapping")
        for key, item in {**needed, **(more or {})}.items():
            place = f"{where}/{key}".lstrip("/")
            if key in value:
                item(value[key], place)
            elif key in needed:
                raise FormError(
                    f"found a manifest that lacks '{place}', expected all that readers need"
                )

    return check


_SHARD = {"path": _path, "rows": _count, "bytes": _count}
_SIZES = {"rows": _count, "bytes": _count, "framed_bytes": _count}
_FILE = _fields(
    {"path": _text, "bytes": _count},
    {"fingerprint": _text, "generation": _count, "files": _count, "modified": _anything},
)
_SOURCE = _fields({}, {"read": _count, "rejected": _count, "files": _list_of(_FILE)})
_COUNTED = _fields(dict.fromkeys(_COUNTS, _count))
_GENERATION = _fields(
    {
        "number": _count,
        "directory": _text,
        "counts": _COUNTED,
        "splits": _mapping_of(_fields(_SIZES, {"shards": _count})),
        "sources": _mapping_of(
            _fields({"read": _count, "rejected": _count, "files": _count}, {"list": _path})
        ),
    }
)
_RECORD = _one_of("example", "sequence_example", "raw")
_NAMED = {"label": _or_nothing(_text), "labels": _mapping_of(_list_of(_text))}
_FOUND = {"schema": _path, "compression": _one_of("gzip", "zlib", "none")}
_OPTIONAL = {"encodings": _or_nothing(_text), "generations": _list_of(_GENERATION)}


# A split without rows has a shard, too.
_SHARDS_OF_RECORDS = _list_of(_fields(_SHARD, {"generation": _count}), least=1)
_SHARDS = _list_of(_fields({**_SHARD, "crc32c": _text}, {"generation": _count}), least=1)


def _splits(shards: Check, *sizes: str) -> Check:
    needed = {**dict.fromkeys(sizes, _count), "shards": shards}
    return _mapping_of(_fields(needed, _SIZES), least=1)


def _whole(shards: Check) -> Check:
    return _fields(
        {
            **_FOUND,
            "record": _RECORD,
            "splits": _splits(shards, "rows", "bytes"),
            "counts": _COUNTED,
            "sources": _mapping_of(_SOURCE),
        },
        {
            **_OPTIONAL,
            **_NAMED,
            "columns": _mapping_of(_text),
            "recipe": _mapping_of(_anything),
            "directory": _text,
        },
    )


_RECORDS = _fields(
    {**_FOUND, **_NAMED, "splits": _splits(_SHARDS_OF_RECORDS, "rows", "framed_bytes")},
    {**_OPTIONAL, "record": _RECORD},
)
_DATASET = _whole(_SHARDS)
_DESCRIPTION = _whole(_nothing)
