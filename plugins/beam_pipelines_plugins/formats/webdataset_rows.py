"""The rows of a tar archive, and the columns of their files.

A row is a run of files with one name: ``n01/17.jpg`` and ``n01/17.cls`` are the files ``jpg`` and
``cls`` of the row ``n01/17``, as in https://github.com/webdataset/webdataset.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.files.archives import read_member, read_tar, tar_compression
from beam_pipelines.sources.images.folder import SUFFIXES, look_at
from beam_pipelines.sources.images.options import PictureError, image_options
from beam_pipelines.sources.plan import SourcePlan

# The part up to the first point behind the last slash, and the part behind the point.
_PARTS = re.compile(r"^((?:.*/|)[^.]+)[.]([^/]*)$", re.DOTALL)
# Names that WebDataset keeps for itself, that begin with a point, and those of macOS.
_NO_ROW = re.compile(r"^__[^/]*__($|/)|(^|/)(\.[^/]*$|__MACOSX/)")
# The column of a row's name, as WebDataset calls it.
KEY = "__key__"
# The only image of a row, whatever its extension; no extension has a slash.
ONLY_IMAGE = "image/"
_LOOK = ("format", "height", "width", "channels")
_IMAGES = tuple(suffix.removeprefix(".") for suffix in SUFFIXES)
_NUMBERS = ("cls", "cls2", "class", "count", "index", "inx", "id")
_TEXTS = ("txt", "text", "transcript", "json", "jsn")
_TABLES = ("csv", "tsv", "jsonl", "ndjson", "parquet", "pq", "arrow", "feather", "avro", "orc",
           "tfrecord", "tfrecords", "xlsx", "xls", "ods", "h5", "hdf5", "libsvm")  # fmt: skip


class ArchiveSample(NamedTuple):
    """The files of one name.

    Attributes:
      key: the name.
      first: name of the first file, which stands for the row in messages.
      members: extension in lower case -> content, in order.
    """

    key: str
    first: str
    members: dict[str, bytes]

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(map(len, self.members.values()))


class SampleError(ValueError):
    """A row without values.

    Attributes:
      column: that is wrong, if it is one.
      reason: what was found, expected, and what to do.
    """

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(reason)
        self.column, self.reason = column, reason


def name_parts(name: str) -> tuple[str, str] | None:
    """Returns key and extension; ``None`` of a file of no row.

    Such a file is hidden, has no extension, or is WebDataset's own.
    """
    match = _PARTS.match(name)
    return None if match is None or _NO_ROW.search(name) else (match[1], match[2].lower())


def read_samples(source: Source, path: str) -> Iterator[ArchiveSample]:
    """Yields the rows of an archive, in order.

    Raises:
      DataError: the archive is damaged, has a link or a device, the same key in two places, two
        files of an extension in a row, or is beyond a limit.
    """
    sample: ArchiveSample | None = None
    keys: set[str] = set()
    for member in read_tar(path, tar_compression(source, path), source.limits):
        name = member.path.removeprefix(f"{path}/")
        if not name.isascii() and name != name.encode(errors="replace").decode():
            raise DataError(f"{path}: found the name {name!r}, expected UTF-8. Rename the file.")
        if member.size_bytes > source.limits.cell_bytes:
            found = f"a file of {member.size_bytes:,} bytes"
            raise DataError(f"{path}, {name}: {exceeded(source.limits, 'cell_bytes', found)}")
        data, parts = read_member(member), name_parts(name)
        if parts is None:
            continue
        key, extension = parts
        if sample is None or key != sample.key:
            if sample is not None:
                yield sample
            sample = ArchiveSample(key, name, {})
            if key in keys:
                raise DataError(
                    f"{path}, {name}: found the key '{key}' again, expected all files of a row one "
                    "after the other. Make the archive again, sorted by name: 'tar --sort=name'."
                )
            keys.add(key)
        if extension in sample.members:
            raise DataError(
                f"{path}, {name}: found a second file of that extension in the row '{key}', "
                "expected one. Make the archive again."
            )
        sample.members[extension] = data
    if sample is not None:
        yield sample


def check_no_tables(source: Source, path: str, sample: ArchiveSample) -> None:
    """Raises ``DataError`` if the archive is one of tables."""
    tables = [one for one in sample.members if _last(one) in _TABLES]
    if tables and source.format is None:
        raise DataError(
            f"{path}, {sample.key}.{tables[0]}: found a table in a tar archive, expected files "
            "that are a row together, such as a.jpg and a.cls. Unpack the archive, or make it a "
            "zip archive, whose tables are read. If tables are values of rows, set 'format: "
            "webdataset'."
        )


def _last(extension: str) -> str:
    return extension.rpartition(".")[2]


def is_image(slot: str) -> bool:
    """Whether files of an extension are images."""
    return slot == ONLY_IMAGE or _last(slot) in _IMAGES


def is_of(column: str, slot: str) -> bool:
    """Whether a column has values of files of an extension."""
    if is_image(slot):
        return column in _image_columns(slot)
    return column == slot


def _image_columns(slot: str) -> list[str]:
    """Returns the names of an image's columns, the bytes first."""
    prefix = "image" if slot == ONLY_IMAGE else slot
    return [f"{prefix}/{name}" for name in ("encoded", *_LOOK)]


def _type_of(slot: str, source: Source) -> pa.DataType:
    """Returns the type of files that are no images."""
    declared, last = source.types.get(slot), _last(slot)
    if last in _NUMBERS and declared not in ("text", "bytes"):
        return pa.int64()
    is_text = last in (*_NUMBERS, *_TEXTS) and declared != "bytes"
    return pa.string() if is_text else pa.binary()


class RowLayout(NamedTuple):
    """The parts of a row.

    Attributes:
      slots: extensions that every row has, ``ONLY_IMAGE`` in place of that of a single image.
      is_closed: whether other extensions are errors.
    """

    slots: tuple[str, ...]
    is_closed: bool = True

    def fields(self, source: Source) -> pa.Schema:
        """Returns all columns."""
        fields: list[tuple[str, pa.DataType]] = [(KEY, pa.string())]
        types = (pa.binary(), pa.string(), *[pa.int64()] * 3)
        for slot in self.slots:
            if is_image(slot):
                fields += zip(_image_columns(slot), types, strict=True)
            else:
                fields.append((slot, _type_of(slot, source)))
        return pa.schema(fields)

    def row_of(self, source: Source, sample: ArchiveSample) -> dict[str, Any]:
        """Returns column -> value.

        Raises:
          SampleError: it lacks a file, has one too many, or one that is not whole.
        """
        row: dict[str, Any] = {KEY: sample.key}
        for slot, data in self._members(sample).items():
            if is_image(slot):
                names = _image_columns(slot)
                try:
                    encoded, look = look_at(data, image_options(source), source.limits)
                except PictureError as error:
                    raise SampleError(names[0], str(error)) from error
                row.update(zip(names, (encoded, *look), strict=True))
            else:
                row[slot] = data
        return row

    def _members(self, sample: ArchiveSample) -> dict[str, bytes]:
        """Returns slot -> content."""
        has_one = ONLY_IMAGE in self.slots
        slots = [ONLY_IMAGE if has_one and is_image(one) else one for one in sample.members]
        wrong = [slot for slot in self.slots if slots.count(slot) != 1]
        if wrong or (self.is_closed and len(slots) > len(self.slots)):
            wanted = ", ".join("an image" if one == ONLY_IMAGE else f".{one}" for one in self.slots)
            raise SampleError(
                "",
                f"found the files .{', .'.join(sample.members)} in the row '{sample.key}', "
                f"expected {wanted}, as in the rows that planning has seen. Mend the archive, set "
                "'infer: full', or name the columns of some files in 'columns', which reads these "
                "alone.",
            )
        found = zip(slots, sample.members.values(), strict=True)
        return {slot: data for slot, data in found if slot in self.slots}


def layout_of(samples: Iterable[Iterable[str]]) -> RowLayout:
    """Returns the common layout of rows of extensions."""
    found: dict[str, None] = {}
    has_several = False
    for members in samples:
        found.update(dict.fromkeys(members))
        has_several |= sum(map(is_image, members)) > 1
    slots = [ONLY_IMAGE if is_image(one) and not has_several else one for one in found]
    return RowLayout(tuple(dict.fromkeys(slots)))


def layout_of_plan(plan: SourcePlan) -> RowLayout:
    """Returns the layout that planning found, of the columns that are read."""
    slots = []
    for name in plan.file_schema.names:
        prefix, _, what = name.rpartition("/")
        if what == "encoded":
            slots.append(ONLY_IMAGE if prefix == "image" else prefix)
        elif name != KEY and not prefix:
            slots.append(name)
    kept = [slot for slot in slots if any(is_of(name, slot) for name in plan.schema.names)]
    return RowLayout(tuple(kept), not plan.source.columns)
