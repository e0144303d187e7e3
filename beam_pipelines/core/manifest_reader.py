"""Fields of a manifest with their types, and their reader.

Keys that no reader needs are ignored. This module imports neither Beam nor TensorFlow: trainers and
pipelines read the manifest's bytes in their own ways.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NewType, TypeVar, get_args, get_origin, get_type_hints

from beam_pipelines.core.compression import PartCompression
from beam_pipelines.core.errors import DataError

FORMAT_VERSION = 1

T = TypeVar("T")
# A path from the dataset's folder to a file in it.
InnerPath = NewType("InnerPath", str)

_MOST = (1 << 63) - 1
_NOT_EMPTY = " with something in it"


class FormError(ValueError):
    """A field is missing or of another type."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ManifestShard:
    """Fields for reading a shard's records.

    Attributes:
      generation: number of the index that has it; 1, unless older versions appended to the dataset.
    """

    path: InnerPath
    rows: int
    bytes: int
    generation: int = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckedFile:
    """Size and checksum of a file that is no shard."""

    bytes: int
    crc32c: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class AlsoFile:
    """A file with a shard's rows in another format."""

    path: InnerPath
    rows: int
    bytes: int
    crc32c: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckedShard(ManifestShard):
    """A shard and its checksum, as eight hexadecimal digits.

    Attributes:
      also: format -> the file with the same rows in it.
    """

    crc32c: str
    also: Mapping[str, AlsoFile] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoadedSplit:
    """Fields for reading a split's records.

    A split without rows has one shard.
    """

    rows: int
    bytes: int = 0
    framed_bytes: int
    shards: Annotated[tuple[ManifestShard, ...], _NOT_EMPTY]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ManifestSplit:
    """A split of a dataset."""

    rows: int
    bytes: int
    framed_bytes: int = 0
    shards: Annotated[tuple[CheckedShard, ...], _NOT_EMPTY]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DescribedSplit:
    """A split of a description; it has no shards."""

    rows: int
    bytes: int
    framed_bytes: int = 0
    shards: tuple[()]


@dataclasses.dataclass(frozen=True, kw_only=True)
class File:
    """An input file.

    An entry may stand for ``files`` small ones that are read together, with the first one's path.
    """

    path: str
    bytes: int
    files: int = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class ManifestSource:
    """Rows and files of a source."""

    read: int = 0
    rejected: int = 0
    files: tuple[File, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counts:
    """Row counts."""

    read: int
    added: int
    dropped: int
    filtered: int
    merged: int
    written: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Records:
    schema: InnerPath
    compression: PartCompression
    format: Literal["tfrecord", "parquet"] = "tfrecord"
    encodings: str | None = None
    # Empty in manifests that are older than these checksums.
    files: Mapping[InnerPath, CheckedFile] = dataclasses.field(default_factory=dict)
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    recipe: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoaderManifest(_Records):
    """Fields for finding and parsing a dataset's records."""

    label: str | None
    labels: Mapping[str, tuple[str, ...]]
    splits: Annotated[Mapping[str, LoadedSplit], _NOT_EMPTY]
    record: Literal["example", "sequence_example", "raw"] = "example"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetManifest(_Records):
    """Fields of a dataset that this package needs."""

    record: Literal["example", "sequence_example", "raw"]
    splits: Annotated[Mapping[str, ManifestSplit], _NOT_EMPTY]
    counts: Counts
    sources: Mapping[str, ManifestSource]
    label: str | None
    labels: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DescriptionManifest(DatasetManifest):
    """Fields that this package needs of sources that were described, not converted."""

    splits: Annotated[Mapping[str, DescribedSplit], _NOT_EMPTY]  # type: ignore[assignment]


def parse_manifest(content: bytes, path: str, kind: type[T]) -> tuple[T, dict[str, Any]]:
    """Parses a manifest.

    Args:
      content: of the file.
      path: of the file, for errors.
      kind: ``DatasetManifest``, ``LoaderManifest`` or ``DescriptionManifest``.

    Returns:
      The fields of ``kind``; and the manifest as JSON data, with all its keys.

    Raises:
      DataError: it is not a manifest, of another version, or lacks what ``kind`` needs.
    """
    try:
        manifest = json.loads(content)
        version = manifest["format_version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"{path}: is not a manifest ({error!r}). Convert again with --overwrite."
        ) from error
    if version != FORMAT_VERSION:
        raise DataError(
            f"{path}: format version {version}, expected {FORMAT_VERSION}. Read it with the "
            "version that wrote it."
        )
    try:
        return read_form(kind, manifest), manifest
    except FormError as error:
        raise DataError(f"{path}: {error}. Convert again with --overwrite.") from error


def read_form(kind: type[T], value: Any) -> T:
    """Returns JSON data as a value of a type.

    Types are dataclasses, ``Mapping[str, T]``, ``tuple[T, ...]``, ``tuple[()]``, the first two also
    ``Annotated`` with ``_NOT_EMPTY``; ``T | None``, ``Literal``, ``str``, ``InnerPath``, ``Any``;
    and ``int`` for integers from 0 to 2^63 - 1.

    Raises:
      FormError: the data are of another form.
    """
    found: T = _read(kind, value, "")
    return found


def _read(kind: Any, value: Any, where: str, items: str = "") -> Any:
    if kind in _SCALARS:
        return _SCALARS[kind](value, where)
    if dataclasses.is_dataclass(kind):
        return _read_fields(kind, value, where)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _read(arguments[0], value, where, items=arguments[1])
    if origin in _CONTAINERS:
        return _CONTAINERS[origin](arguments, value, where, items)
    return None if value is None else _read(arguments[0], value, where)


def _read_choice(words: tuple[str, ...], value: Any, where: str, _: str) -> str:
    if value not in words:
        raise _wrong(where, value, f"one of {', '.join(words)}")
    return str(value)


def _read_list(kinds: tuple[Any, ...], value: Any, where: str, items: str) -> tuple[Any, ...]:
    if not isinstance(value, list) or (items and not value):
        raise _wrong(where, value, f"a list{items}")
    if value and not kinds:
        raise _wrong(where, value, "an empty list")
    return tuple(_read(kinds[0], item, f"{where}/{place}") for place, item in enumerate(value))


def _read_mapping(kinds: tuple[Any, ...], value: Any, where: str, items: str) -> dict[str, Any]:
    if not isinstance(value, dict) or (items and not value):
        raise _wrong(where, value, f"a mapping{items}")
    return {
        _read(kinds[0], key, where): _read(kinds[1], item, f"{where}/{key}")
        for key, item in value.items()
    }


def _read_fields(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise _wrong(where, value, "a mapping")
    found = {}
    for name, hint, is_needed in _fields(kind):
        place = f"{where}/{name}" if where else name
        if name in value:
            found[name] = _read(hint, value[name], place)
        elif is_needed:
            raise FormError(
                f"found a manifest that lacks '{place}', expected all that readers need"
            )
    return kind(**found)


@functools.cache
def _fields(kind: Any) -> list[tuple[str, Any, bool]]:
    """Returns name, type and whether it is needed of each field."""
    hints, missing = get_type_hints(kind, include_extras=True), dataclasses.MISSING
    return [
        (field.name, hints[field.name], field.default is field.default_factory is missing)
        for field in dataclasses.fields(kind)
    ]


def _count(value: Any, where: str) -> int:
    if type(value) is not int or not 0 <= value <= _MOST:
        raise _wrong(where, value, "a whole number, not negative")
    return value


def _text(value: Any, where: str) -> str:
    # JSON can escape half of a surrogate pair, which no file name and no UTF-8 can have.
    if not isinstance(value, str) or any("\ud800" <= character <= "\udfff" for character in value):
        raise _wrong(where, value, "a text")
    return value


def _inner_path(value: Any, where: str) -> str:
    path = _text(value, where)
    if "\0" in path or any(name in ("", ".", "..") for name in path.split("/")):
        raise _wrong(where, value, "a path within the dataset")
    return path


_SCALARS: Mapping[Any, Callable[[Any, str], Any]] = {
    int: _count,
    str: _text,
    InnerPath: _inner_path,
    Any: lambda value, _: value,
}

_CONTAINERS: Mapping[Any, Callable[[tuple[Any, ...], Any, str, str], Any]] = {
    Literal: _read_choice,
    tuple: _read_list,
    Mapping: _read_mapping,
}


def _wrong(where: str, value: Any, expected: str) -> FormError:
    shown = repr(value)
    return FormError(
        f"found {shown if len(shown) <= 60 else shown[:60] + '…'} at '{where or 'the top'}', "
        f"expected {expected}"
    )
