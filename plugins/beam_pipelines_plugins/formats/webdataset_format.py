"""WebDataset: the rows of tar archives, one range an archive.

A row is a run of files with one name: ``n01/17.jpg`` and ``n01/17.cls`` are the files ``jpg`` and
``cls`` of the row ``n01/17``, as in https://github.com/webdataset/webdataset.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import google_crc32c
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError, Problem
from beam_pipelines.core.limits import exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import inference, source_format, tables
from beam_pipelines.sources.bad_input import bad_rows
from beam_pipelines.sources.files.archives import read_member, read_tar, tar_compression
from beam_pipelines.sources.files.compression import no_zlib
from beam_pipelines.sources.images.folder import SUFFIXES, look_at
from beam_pipelines.sources.images.options import ImagesOptions, PictureError, image_options
from beam_pipelines.sources.inference import SAMPLE_BYTES
from beam_pipelines.sources.plan import ByteRange, FileInfo, QuoteStates, SourcePlan

# The part up to the first point behind the last slash, and the part behind the point.
_PARTS = re.compile(r"^((?:.*/|)[^.]+)[.]([^/]*)$", re.DOTALL)
# Names that WebDataset keeps for itself, that begin with a point, and those of macOS.
_NO_ROW = re.compile(r"^__[^/]*__($|/)|(^|/)(\.[^/]*$|__MACOSX/)")
# The column of a row's name, as WebDataset calls it.
_KEY = "__key__"
# The only image of a row, whatever its extension; no extension has a slash.
_IMAGE = "image/"
_PARTS_OF_IMAGE = ("encoded", "format", "height", "width", "channels")
_IMAGES = tuple(suffix.removeprefix(".") for suffix in SUFFIXES)
_NUMBERS = ("cls", "cls2", "class", "count", "index", "inx", "id")
_TEXTS = ("txt", "text", "transcript", "json", "jsn")
_TABLES = ("csv", "tsv", "jsonl", "ndjson", "parquet", "pq", "arrow", "feather", "avro", "orc",
           "tfrecord", "tfrecords", "xlsx", "xls", "ods", "h5", "hdf5", "libsvm")  # fmt: skip


class _Sample(NamedTuple):
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


class WebDataset(source_format.Format):
    """Tar archives; one range a file."""

    suffixes = (".tar", ".tgz")
    Options = ImagesOptions
    has_arrays = True
    checks_images = True

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        problems = no_zlib(source)
        if image_options(source).classes:
            message = "a WebDataset has numbers of classes. Leave 'classes' out."
            problems.append(source_format.problem(source, "image", message))
        return problems

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> source_format.Contents:
        """Finds columns and types; see ``Format``."""
        found, has_several = dict[str, None](), False
        for sampled in inference.sample_rounds(source, files, ""):
            for file in sampled:
                size, most = 0, SAMPLE_BYTES // len(sampled)
                for sample in _samples(source, file.path):
                    _check_no_table(source, file.path, sample)
                    found |= dict.fromkeys(sample.members)
                    has_several |= sum(map(_is_image, sample.members)) > 1
                    size += sample.size_bytes
                    if size >= most and not source.reads_all:
                        break
            if found:
                break
        else:
            raise DataError(
                f"{files[0].path}: found no rows, expected files such as a.jpg and a.cls. Check "
                "'path' of the source."
            )
        slots = [_IMAGE if _is_image(one) and not has_several else one for one in found]
        return tables.contents_of(source, [(files[0], _fields(source, dict.fromkeys(slots)))])

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[source_format.Rows]:
        """Reads one range; see ``Format``."""
        path, slots, crc32c = byte_range.file.path, _slots_of(plan), 0
        rows, size, bad = dict[str, dict[str, Any]](), 0, list[Rejected]()
        for sample in _samples(plan.source, path):
            for extension, data in sample.members.items():
                name = f"{sample.key}.{extension}"
                crc32c = google_crc32c.extend(google_crc32c.extend(crc32c, name.encode()), data)
            row = _row_of(plan.source, slots, sample)
            if isinstance(row, tuple):
                found = Rejected(plan.source.name, path, sample.first, *row, "")
                bad_rows.reject_or_raise(found, bad, reject)
                continue
            rows[sample.first] = row
            size += sample.size_bytes
            if size >= source_format.CHUNK_BYTES or len(rows) == source_format.MAX_CHUNK_ROWS:
                yield _converted(plan, slots, byte_range.file, rows, bad, reject)
                rows, size, bad = {}, 0, []
        last = _converted(plan, slots, byte_range.file, rows, bad, reject)
        yield last._replace(crc32c=crc32c)

    def positions(
        self,
        plan: SourcePlan,
        byte_range: ByteRange,
        quote_states: QuoteStates,
        rejected: Sequence[Rejected],
        rows: Sequence[int],
    ) -> list[source_format.Position]:
        """Names the first file of rows; see ``Format``."""
        path = byte_range.file.path
        bad = {one.position for one in rejected}
        firsts = [sample.first for sample in _samples(plan.source, path)]
        good = [name for name in firsts if name not in bad]
        return [source_format.Position(path, good[row], "") for row in rows]


def _converted(
    plan: SourcePlan,
    slots: Sequence[str],
    file: FileInfo,
    rows: dict[str, dict[str, Any]],
    bad: list[Rejected],
    reject: bool,
) -> source_format.Rows:
    """Converts rows, by their first files, to the plan's columns.

    Raises:
      DataError: one is bad, unless ``reject``.
    """
    arrays, places = {}, list(rows)
    for field in _fields(plan.source, slots):
        values = [row[field.name] for row in rows.values()]
        if field.name in slots and not pa.types.is_binary(field.type):
            texts = pa.array(values, pa.binary()).view(pa.string())
            is_number = pa.types.is_integer(field.type)
            arrays[field.name] = pc.ascii_trim_whitespace(texts) if is_number else texts
        else:
            arrays[field.name] = pa.array(values, field.type)
    batch = pa.RecordBatch.from_pydict(arrays)
    found = list(tables.rows_of(batch, plan, file, 1, reject=True))
    rejected = found[0].rejected
    for row, number in zip(rejected, source_format.row_numbers(rejected).tolist(), strict=True):
        bad_rows.reject_or_raise(row._replace(position=places[number - 1]), bad, reject)
    return source_format.Rows(
        source_format.combine([one.batch for one in found], plan.schema), tuple(bad)
    )


def name_parts(name: str) -> tuple[str, str] | None:
    """Returns key and extension; ``None`` of a file of no row.

    Such a file is hidden, has no extension, or is WebDataset's own.
    """
    match = _PARTS.match(name)
    return None if match is None or _NO_ROW.search(name) else (match[1], match[2].lower())


def _samples(source: Source, path: str) -> Iterator[_Sample]:
    """Yields the rows of an archive, in order.

    Raises:
      DataError: the archive is damaged, has a link or a device, the same key in two places, two
        files of an extension in a row, or is beyond a limit.
    """
    sample: _Sample | None = None
    keys: set[str] = set()
    for member in read_tar(path, tar_compression(source, path), source.limits):
        name = member.path.removeprefix(f"{path}/")
        where = f"{path}, {name}: found"
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
            sample = _Sample(key, name, {})
            if key in keys:
                raise DataError(
                    f"{where} the key '{key}' again, expected all files of a row one after the "
                    "other. Make the archive again, sorted by name: 'tar --sort=name'."
                )
            keys.add(key)
        if extension in sample.members:
            raise DataError(
                f"{where} a second file of that extension in the row '{key}', expected one. Make "
                "the archive again."
            )
        sample.members[extension] = data
    if sample is not None:
        yield sample


def _check_no_table(source: Source, path: str, sample: _Sample) -> None:
    """Raises ``DataError`` if the archive is one of tables."""
    found = [one for one in sample.members if _last(one) in _TABLES]
    if found and source.format is None:
        raise DataError(
            f"{path}, {sample.key}.{found[0]}: found a table in a tar archive, expected files "
            "that are a row together, such as a.jpg and a.cls. Unpack the archive, or make it a "
            "zip archive, whose tables are read. If tables are values of rows, set 'format: "
            "webdataset'."
        )


def _last(extension: str) -> str:
    return extension.rpartition(".")[2]


def _is_image(slot: str) -> bool:
    """Whether files of an extension are images."""
    return slot == _IMAGE or _last(slot) in _IMAGES


def _columns(slot: str) -> list[str]:
    """Returns the columns of an extension's files."""
    return [f"{slot.rstrip('/')}/{part}" for part in _PARTS_OF_IMAGE] if _is_image(slot) else [slot]


def _fields(source: Source, slots: Iterable[str]) -> pa.Schema:
    """Returns all columns of rows with some extensions."""
    fields: list[tuple[str, pa.DataType]] = [(_KEY, pa.string())]
    for slot in slots:
        declared, last = source.types.get(slot), _last(slot)
        if _is_image(slot):
            types = (pa.binary(), pa.string(), *[pa.int64()] * 3)
            fields += zip(_columns(slot), types, strict=True)
        elif last in _NUMBERS and declared not in ("text", "bytes"):
            fields.append((slot, pa.int64()))
        else:
            is_text = last in (*_NUMBERS, *_TEXTS) and declared != "bytes"
            fields.append((slot, pa.string() if is_text else pa.binary()))
    return pa.schema(fields)


def _slots_of(plan: SourcePlan) -> list[str]:
    """Returns the extensions that planning found, of the columns that are read."""
    names = [name for name in plan.file_schema.names if name != _KEY]
    names = [_IMAGE if one == "image/encoded" else one.removesuffix("/encoded") for one in names]
    slots = [name for name in names if "/" not in name or name == _IMAGE]
    return [slot for slot in slots if not {*_columns(slot)}.isdisjoint(plan.schema.names)]


def _row_of(
    source: Source, slots: Sequence[str], sample: _Sample
) -> dict[str, Any] | tuple[str, str]:
    """Returns column -> value; or a column and what is wrong."""
    row: dict[str, Any] = {_KEY: sample.key}
    found = [_IMAGE if _IMAGE in slots and _is_image(one) else one for one in sample.members]
    is_whole = all(found.count(slot) == 1 for slot in slots)
    if not is_whole or (not source.columns and len(found) > len(slots)):
        wanted = ", ".join("an image" if one == _IMAGE else f".{one}" for one in slots)
        return "", (
            f"found the files .{', .'.join(sample.members)} in the row '{sample.key}', expected "
            f"{wanted}, as in the rows that planning has seen. Mend the archive, set 'infer: "
            "full', or name the columns of some files in 'columns', which reads these alone."
        )
    for slot, data in zip(found, sample.members.values(), strict=True):
        if slot not in slots:
            continue
        row[slot] = data
        if _is_image(slot):
            try:
                encoded, look = look_at(data, image_options(source), source.limits)
            except PictureError as error:
                return _columns(slot)[0], str(error)
            row.update(zip(_columns(slot), (encoded, *look), strict=True))
    return row
