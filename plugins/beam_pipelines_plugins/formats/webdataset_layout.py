"""The rows of a tar archive, and the columns of their files.

A row is a run of files with one name: ``n01/17.jpg`` and ``n01/17.cls`` are the members ``jpg`` and
``cls`` of the row ``n01/17``, as in https://github.com/webdataset/webdataset.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.files.archives import explained, read_tar, tar_compression
from beam_pipelines.sources.images.folder import SUFFIXES
from beam_pipelines.sources.plan import SourcePlan

# The part up to the first point behind the last slash, and the part behind the point.
_PARTS = re.compile(r"^((?:.*/|)[^.]+)[.]([^/]*)$", re.DOTALL)
# Names that WebDataset keeps for itself.
_OWN = re.compile(r"__[^/]*__($|/)")
# Names that begin with a point, and those of macOS.
_HIDDEN = re.compile(r"(^|/)(\.[^/]*$|__MACOSX/)")


class Member(NamedTuple):
    """A file of a row.

    Attributes:
      name: in the archive.
      data: its content.
    """

    name: str
    data: bytes


class ArchiveSample(NamedTuple):
    """The files of one name.

    Attributes:
      key: the name.
      members: extension in lower case -> file, in order.
    """

    key: str
    members: dict[str, Member]

    @property
    def first(self) -> Member:
        """The first file."""
        return next(iter(self.members.values()))

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(len(member.data) for member in self.members.values())


def name_parts(name: str) -> tuple[str, str] | None:
    """Returns key and extension; ``None`` of a file of no row.

    Such a file is hidden, has no extension, or is WebDataset's own.
    """
    match = _PARTS.match(name)
    if match is None or _OWN.match(name) or _HIDDEN.search(name):
        return None
    return match[1], match[2].lower()


def read_samples(source: Source, path: str) -> Iterator[ArchiveSample]:
    """Yields the rows of an archive, in order.

    Raises:
      DataError: the archive is damaged, has a link or a device, the same key in two places, two
        files of an extension in a row, or is beyond a limit.
    """
    sample: ArchiveSample | None = None
    keys: set[str] = set()
    for member in _files(source, path):
        parts = name_parts(member.name)
        if parts is None:
            continue
        key, extension = parts
        if sample is not None and key != sample.key:
            yield sample
            sample = None
        if sample is None:
            sample = ArchiveSample(key, {})
        if key in keys and not sample.members:
            raise DataError(
                f"{path}, {member.name}: found the key '{key}' again, expected all files of a row "
                "one after the other. Make the archive again, sorted by name: 'tar --sort=name'."
            )
        if extension in sample.members:
            raise DataError(
                f"{path}, {member.name}: found a second file of that extension in the row "
                f"'{key}', expected one. Make the archive again."
            )
        keys.add(key)
        sample.members[extension] = member
    if sample is not None:
        yield sample


def _files(source: Source, path: str) -> Iterator[Member]:
    limits = source.limits
    for one in read_tar(path, tar_compression(source, path), limits):
        name = one.path.removeprefix(f"{path}/")
        if not name.isascii() and name != name.encode(errors="replace").decode():
            raise DataError(f"{path}: found the name {name!r}, expected UTF-8. Rename the file.")
        if one.size_bytes > limits.cell_bytes:
            found = f"a file of {one.size_bytes:,} bytes"
            raise DataError(f"{path}, {name}: {exceeded(limits, 'cell_bytes', found)}")
        with explained(path):
            yield Member(name, one.content.read())


# The column of a row's name, as WebDataset calls it.
KEY = "__key__"
# The only image of a row, whatever its extension; no extension has a slash.
ONLY_IMAGE = "image/"
_LOOK = (
    ("format", pa.string()),
    ("height", pa.int64()),
    ("width", pa.int64()),
    ("channels", pa.int64()),
)
_IMAGES = tuple(suffix.removeprefix(".") for suffix in SUFFIXES)
_NUMBERS = ("cls", "cls2", "class", "count", "index", "inx", "id")
_TEXTS = ("txt", "text", "transcript")
_OBJECTS = ("json", "jsn")
_TABLES = ("csv", "tsv", "jsonl", "ndjson", "parquet", "pq", "arrow", "feather", "avro", "orc",
           "tfrecord", "tfrecords", "xlsx", "xls", "ods", "h5", "hdf5", "libsvm")  # fmt: skip


def _last(extension: str) -> str:
    return extension.rpartition(".")[2]


def is_image(slot: str) -> bool:
    """Whether files of an extension are images."""
    return slot == ONLY_IMAGE or _last(slot) in _IMAGES


def is_object(slot: str) -> bool:
    """Whether files of an extension are JSON."""
    return _last(slot) in _OBJECTS


def reads_object(source: Source, slot: str) -> bool:
    """Whether a recipe reads columns of the JSON of an extension."""
    columns = source.columns
    return is_object(slot) and (not columns or any(_is_of(name, slot) for name in columns))


def is_number(slot: str, source: Source) -> bool:
    """Whether files of an extension are an integer each."""
    return _last(slot) in _NUMBERS and source.types.get(slot) not in ("text", "bytes")


def image_columns(slot: str) -> list[tuple[str, pa.DataType]]:
    """Returns name and type of an image's columns, the bytes first."""
    prefix = "image" if slot == ONLY_IMAGE else slot
    return [
        (f"{prefix}/encoded", pa.binary()),
        *((f"{prefix}/{name}", type_) for name, type_ in _LOOK),
    ]


class RowLayout(NamedTuple):
    """The parts of a row.

    Attributes:
      slots: extensions that every row has, ``ONLY_IMAGE`` in place of that of a single image.
      is_closed: whether other extensions are errors.
    """

    slots: tuple[str, ...]
    is_closed: bool = True

    def slot_of(self, extension: str) -> str:
        """Returns the slot of a file, which the layout may not have."""
        is_only = _last(extension) in _IMAGES and ONLY_IMAGE in self.slots
        return ONLY_IMAGE if is_only else extension

    def plain_fields(self, source: Source) -> pa.Schema:
        """Returns all columns but those of JSON."""
        fields: list[tuple[str, pa.DataType]] = [(KEY, pa.string())]
        for slot in self.slots:
            if is_image(slot):
                fields += image_columns(slot)
            elif is_number(slot, source):
                fields.append((slot, pa.int64()))
            elif not is_object(slot):
                is_text = _last(slot) in _TEXTS and source.types.get(slot) != "bytes"
                fields.append((slot, pa.string() if is_text else pa.binary()))
        return pa.schema(fields)

    def objects(self) -> tuple[str, ...]:
        """Returns the extensions of JSON."""
        return tuple(filter(is_object, self.slots))

    def read_by(self, plan: SourcePlan) -> RowLayout:
        """Returns the slots with a column that is read."""
        names = plan.schema.names
        kept = [slot for slot in self.slots if any(_is_of(name, slot) for name in names)]
        return RowLayout(tuple(kept), not plan.source.columns)


def _is_of(column: str, slot: str) -> bool:
    if is_image(slot):
        return any(column == name for name, _ in image_columns(slot))
    return column == slot or (is_object(slot) and column.startswith(f"{slot}."))


def layout_of_plan(plan: SourcePlan) -> RowLayout:
    """Returns the layout that planning found."""
    slots = []
    for name in plan.file_schema.names:
        prefix, _, what = name.rpartition("/")
        if what == "encoded":
            slots.append(ONLY_IMAGE if prefix == "image" else prefix)
        elif name != KEY and not prefix:
            slots.append(name)
    return RowLayout(tuple(slots)).read_by(plan)


class Survey:
    """The extensions of some rows."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._found: dict[str, None] = {}
        self._has_several_images = False

    def add(self, path: str, sample: ArchiveSample) -> None:
        """Notes a row.

        Raises:
          DataError: it has a table, so that the archive is none of rows.
        """
        tables = [one for one in sample.members if _last(one) in _TABLES]
        if tables and self._source.format is None:
            raise DataError(
                f"{path}, {sample.members[tables[0]].name}: found a table in a tar archive, "
                "expected files that are a row together, such as a.jpg and a.cls. Unpack the "
                "archive, or make it a zip archive, whose tables are read. If tables are values "
                "of rows, set 'format: webdataset'."
            )
        self._has_several_images |= sum(map(is_image, sample.members)) > 1
        self._found.update(dict.fromkeys(sample.members))

    def layout(self) -> RowLayout:
        """Returns the common layout of the rows."""
        slots: Iterable[str] = self._found
        if not self._has_several_images:
            slots = [ONLY_IMAGE if is_image(slot) else slot for slot in self._found]
        return RowLayout(tuple(dict.fromkeys(slots)))


def missing(layout: RowLayout, slots: Sequence[str]) -> str | None:
    """Returns the first extension that a row lacks, or ``None``."""
    return next((slot for slot in layout.slots if slot not in slots), None)
