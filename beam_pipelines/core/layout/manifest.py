"""``dataset.json``, the manifest of a dataset, as values.

Keys without a field are ignored. This module imports neither Beam nor TensorFlow: trainers and
pipelines read the manifest's bytes in their own ways.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, NewType, get_args, get_origin, get_type_hints

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.formatting import shorten
from beam_pipelines.core.layout.shard_formats import PartCompression, ShardFormat

FORMAT_VERSION = 1

# A path from the dataset's folder to a file in it.
InnerPath = NewType("InnerPath", str)
Record = Literal["example", "sequence_example", "raw"]

_MOST = (1 << 63) - 1
_NOT_EMPTY = " with something in it"
_HALVES = re.compile("[\ud800-\udfff]")


class FormError(ValueError):
    """A field is missing or of another type."""


def _written(default: Any) -> Any:
    """Returns a field that is always written; older manifests may lack it."""
    return dataclasses.field(default_factory=lambda: default, metadata={"is_written": True})


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckedFile:
    """Size and checksum, eight hexadecimal digits, of another file than shards."""

    bytes: int
    crc32c: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class ManifestShard:
    """A shard.

    Attributes:
      generation: number of the index that has it; 1, unless older versions appended to the dataset.
    """

    path: InnerPath
    rows: int
    bytes: int
    crc32c: str
    generation: int = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class ManifestSplit:
    """A split; without rows it has a shard, in a description none."""

    rows: int
    bytes: int
    framed_bytes: int = _written(0)
    shards: tuple[ManifestShard, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class File:
    """An input file.

    Attributes:
      files: number of small ones that are read together; the path is that of the first.
      modified: seconds since 1970.
    """

    path: str
    bytes: int
    fingerprint: str = _written("")
    files: int | None = None
    modified: float | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ManifestSnapshot:
    """The state of a table; see ``sources.plan.Snapshot``."""

    id: str
    rows: int | None = _written(None)
    table: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ManifestSource:
    """A source: what it is, and its rows and files.

    Attributes:
      columns: column -> type, before anything is derived.
      labels: column of ids -> its texts.
      decisions: what files showed and the recipe does not say, in words.
      found: the same as options of the source.
      partitions: columns of folders' names.
    """

    format: str = _written("")
    columns: Mapping[str, str] = _written({})
    labels: Mapping[str, tuple[str, ...]] = _written({})
    read: int = _written(0)
    rejected: int = _written(0)
    files: tuple[File, ...] = _written(())
    decisions: tuple[str, ...] = ()
    found: Mapping[str, Any] | None = None
    partitions: tuple[str, ...] = ()
    snapshot: ManifestSnapshot | None = None

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(file.bytes for file in self.files)

    @property
    def file_count(self) -> int:
        """Number of files."""
        return sum(file.files or 1 for file in self.files)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ManifestJoin:
    """Row counts of a join; see ``transforms.row_counts.JoinCounts``."""

    source: str
    how: str = _written("")
    matched: int
    unmatched: int
    dropped: int
    added: int
    null_keys: int = _written(0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counts:
    """Row counts.

    Attributes:
      left_out_by: check -> rows that it leaves out; keys ``left_out/CHECK`` of the manifest.
    """

    read: int
    rejected: int = _written(0)
    added: int
    dropped: int
    filtered: int
    filtered_first: int | None = None
    merged: int
    left_out: int | None = None
    left_out_by: Mapping[str, int] = dataclasses.field(
        default_factory=dict, metadata={"prefix": "left_out/"}
    )
    sampled_out: int | None = None
    repeated: int | None = None
    written: int

    @property
    def expected(self) -> int:
        """Rows that were read or made, less those that were left out."""
        gone = self.dropped + self.filtered + self.merged + (self.sampled_out or 0)
        gone += (self.left_out or 0) + sum(self.left_out_by.values())
        return self.read + self.added + (self.repeated or 0) - gone


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """A dataset, or sources that were described.

    Attributes:
      recipe: in its normal form.
      directory: of the recipe.
      schema: path of the schema that parses the records.
      columns: column -> type, before encoding.
      labels: feature -> texts by id.
      encodings: fingerprint of the fitted encodings, or ``None``.
      contract: checksum of the recipe's schema, or ``None``.
      taken, class_shares, sample: of a part of the rows, divided classes, sampled classes.
      alerts: kind -> names.
      files: checksums; empty in manifests that are older than they.
      generations: of a dataset that older versions appended to.
    """

    format_version: int = _written(FORMAT_VERSION)
    name: str = _written("")
    date: str | None = _written(None)
    span: int | None = _written(None)
    recipe: Mapping[str, Any] = _written({})
    recipe_hash: str = _written("")
    directory: str = _written("")
    schema: InnerPath
    columns: Mapping[str, str] = _written({})
    label: str | None
    labels: Mapping[str, tuple[str, ...]] = _written({})
    encodings: str | None = _written(None)
    contract: str | None = _written(None)
    record: Record
    format: ShardFormat = "tfrecord"  # which is not written
    compression: PartCompression
    splits: Annotated[Mapping[str, ManifestSplit], _NOT_EMPTY]
    sources: Mapping[str, ManifestSource]
    joins: tuple[ManifestJoin, ...] = _written(())
    counts: Counts
    versions: Mapping[str, Any] = _written({})
    timings: Mapping[str, Any] = _written({})
    unused_sources: tuple[str, ...] = ()
    taken: Mapping[str, Any] | None = None
    findings: tuple[Mapping[str, Any], ...] = ()
    class_shares: Mapping[str, Any] | None = None
    sample: Mapping[str, Any] | None = None
    alerts: Mapping[str, tuple[str, ...]] = _written({})
    files: Mapping[InnerPath, CheckedFile] = _written({})
    generations: tuple[Any, ...] = ()

    @property
    def shards(self) -> Iterator[ManifestShard]:
        """The shards of all splits."""
        return (shard for split in self.splits.values() for shard in split.shards)


def parse_manifest(content: bytes, path: str, is_description: bool = False) -> Manifest:
    """Parses a manifest.

    Args:
      content: of the file.
      path: of the file, for errors.
      is_description: whether it is of sources that were described, whose splits have no shards.

    Raises:
      DataError: it is not a manifest, of another version, or lacks what readers need.
    """
    try:
        document = json.loads(content)
        version = document["format_version"]
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
        manifest: Manifest = _read(Manifest, document, "")
        for name, split in manifest.splits.items():
            is_right = bool(split.shards) is not is_description
            wanted = (f"a list{_NOT_EMPTY}", "an empty list")[is_description]
            found = document["splits"][name]["shards"]
            _check(is_right, f"splits/{name}/shards", found, wanted)
    except FormError as error:
        raise DataError(f"{path}: {error}. Convert again with --overwrite.") from error
    return manifest


def to_json(value: Any) -> Any:
    """Returns a value as JSON data, without rare fields at their default."""
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if not dataclasses.is_dataclass(value):
        return value
    found: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        item = getattr(value, field.name)
        if prefix := field.metadata.get("prefix"):
            found |= {prefix + key: one for key, one in item.items()}
        elif field.metadata.get("is_written") or item != _default(field):
            found[field.name] = to_json(item)
    return found


def _default(field: dataclasses.Field[Any]) -> Any:
    """Returns the default of a field, or ``MISSING``, which no value equals."""
    factory = field.default_factory
    return field.default if factory is dataclasses.MISSING else factory()


def to_text(document: Any) -> str:
    """Returns the text of ``dataset.json``, of a manifest or of JSON data."""
    return json.dumps(to_json(document), indent=1, ensure_ascii=False) + "\n"


def _read(kind: Any, value: Any, where: str) -> Any:
    if kind in _SCALARS:
        return _SCALARS[kind](value, where)
    items = ""
    if get_origin(kind) is Annotated:
        kind, items = get_args(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _read_fields(kind, value, where)
    if origin is Literal:
        _check(value in arguments, where, value, f"one of {', '.join(arguments)}")
        return value
    if origin is tuple:
        _check(isinstance(value, list) and (value or not items), where, value, f"a list{items}")
        return tuple(_read(arguments[0], one, f"{where}/{at}") for at, one in enumerate(value))
    if origin is Mapping:
        is_right = isinstance(value, dict) and (value or not items)
        _check(is_right, where, value, f"a mapping{items}")
        return {
            _read(arguments[0], key, where): _read(arguments[1], one, f"{where}/{key}")
            for key, one in value.items()
        }
    return None if value is None else _read(arguments[0], value, where)


def _read_fields(kind: Any, value: Any, where: str) -> Any:
    _check(isinstance(value, dict), where, value, "a mapping")
    found: dict[str, Any] = {}
    for name, hint, is_needed, prefix in _fields(kind):
        place = f"{where}/{name}" if where else name
        if prefix:
            own = {key: one for key, one in value.items() if key.startswith(prefix)}
            read = _read(hint, own, where)
            found[name] = {key.removeprefix(prefix): one for key, one in read.items()}
        elif name in value:
            found[name] = _read(hint, value[name], place)
        elif is_needed:
            raise FormError(
                f"found a manifest that lacks '{place}', expected all that readers need"
            )
    return kind(**found)


@functools.cache
def _fields(kind: Any) -> list[tuple[str, Any, bool, str]]:
    """Returns name, type, need and prefix of keys of each field."""
    hints, missing = get_type_hints(kind, include_extras=True), dataclasses.MISSING
    found = []
    for field in dataclasses.fields(kind):
        is_needed = field.default is field.default_factory is missing
        found.append((field.name, hints[field.name], is_needed, field.metadata.get("prefix", "")))
    return found


def _count(value: Any, where: str) -> int:
    is_right = type(value) is int and 0 <= value <= _MOST
    _check(is_right, where, value, "a whole number, not negative")
    return value  # type: ignore[no-any-return]


def _number(value: Any, where: str) -> float:
    _check(type(value) in (int, float), where, value, "a number")
    return value  # type: ignore[no-any-return]


def _text(value: Any, where: str) -> str:
    # JSON can escape half of a surrogate pair, which no file name and no UTF-8 can have.
    _check(isinstance(value, str) and not _HALVES.search(value), where, value, "a text")
    return value  # type: ignore[no-any-return]


def _inner_path(value: Any, where: str) -> str:
    path = _text(value, where)
    is_wrong = "\0" in path or not {"", ".", ".."}.isdisjoint(path.split("/"))
    _check(not is_wrong, where, value, "a path within the dataset")
    return path


_SCALARS: Mapping[Any, Callable[[Any, str], Any]] = {
    int: _count,
    str: _text,
    InnerPath: _inner_path,
    float: _number,
    Any: lambda value, _: value,
}


def _check(is_right: Any, where: str, value: Any, expected: str) -> None:
    if not is_right:
        found = shorten(repr(value), 61)
        raise FormError(f"found {found} at '{where or 'the top'}', expected {expected}")
