"""CIFAR-10 and CIFAR-100: pickled batches or binary records.

They may be in their archive or out of it. Source of the formats:
https://www.cs.toronto.edu/~kriz/cifar.html. A picture is 3 planes (red, green, blue) of 32 rows of
32 bytes.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.errors import DataError, Problem
from beam_pipelines.core.limits import MIB
from beam_pipelines.files.beam import files, input_files, path_patterns
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.files.archives import is_archive, read_member, read_members
from beam_pipelines.sources.files.compression import (
    CODEC_FOR_COMPRESSION,
    START_BYTES,
    name_of_start,
    unread,
)
from beam_pipelines.sources.format import Contents, Format, QuoteStates, Rows, empty_batch
from beam_pipelines.sources.images import pixel_rows, safe_pickle
from beam_pipelines.sources.images.pixel_rows import Classes
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines.sources.text.blocks import read_exactly

_SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32
LABEL, TEXT = "image/class/label", "image/class/text"
COARSE_LABEL, COARSE_TEXT = "image/class/coarse/label", "image/class/coarse/text"
FILENAME = "image/filename"
# A pickled batch is read whole. The largest of CIFAR has 155 MB.
MAX_BATCH_BYTES = 256 * MIB
# Images that are encoded at once: 12 MiB of pixels.
_STEP = 4096
# Files of labels -> column of each key of a pickle; of a text with one label a line there is one.
_LABEL_FILES = {
    "batches.meta": {"label_names": LABEL},
    "meta": {"fine_label_names": LABEL, "coarse_label_names": COARSE_LABEL},
    "batches.meta.txt": {"": LABEL},
    "fine_label_names.txt": {"": LABEL},
    "coarse_label_names.txt": {"": COARSE_LABEL},
}
_AGAIN = "Get the file again."
# Pixels, uint8[n, 3072], and the columns of labels and names.
_Batch = tuple[npt.NDArray[np.uint8], dict[str, pa.Array]]


class _Layout(NamedTuple):
    """One of the four kinds of files."""

    is_hundred: bool
    is_binary: bool

    @property
    def record_bytes(self) -> int:
        """Bytes of an image and its labels in the binary version."""
        return _PIXELS + 1 + self.is_hundred

    def __str__(self) -> str:
        kind = "records" if self.is_binary else "pickles"
        return f"CIFAR-{100 if self.is_hundred else 10} {kind}"


class Cifar(Format):
    """Batches of CIFAR.

    A binary file outside an archive is cut at its records; any other batch is one range.
    """

    checks_images = True  # it makes them of pixels
    reads_archives = True
    # The archives' whole names.
    suffixes = tuple(
        f"cifar-{classes}-{version}.{archive}"
        for classes in (10, 100)
        for version in ("python", "binary")
        for archive in ("tar", "zip")
    )

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        return pixel_rows.check(source, "CIFAR")

    def splittable(self, source: Source, path: str) -> bool:
        """Whether a file can be cut into ranges."""
        return path.endswith(".bin") and not any(is_archive(part) for part in path.split("/"))

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> Contents:
        """Finds batches, labels and columns; see ``Format``."""
        batches: list[FileInfo] = []
        names: dict[str, tuple[str, ...]] = {}
        for file in files:
            found = _list_archive(source, file, names) if is_archive(file.path) else [file]
            batches += [batch for batch in found if _is_batch(batch.path)]
        if not batches:
            listed = ", ".join(posixpath.basename(file.path) for file in files[:5])
            raise DataError(
                f"{files[0].path}: found no batch of CIFAR in {listed}, expected files such as "
                "data_batch_1, test_batch, train, test or data_batch_1.bin. Check "
                "'path' of the source."
            )
        for batch in batches:
            _check_start(batch)
        _read_label_files(batches, names)
        layout = _common_layout(batches, names)
        kinds = _classes(layout, names)
        columns = pixel_rows.picture_columns(np.empty((0, 32, 32, 3), np.uint8))
        for kind in kinds:
            columns |= kind.columns(np.empty(0, np.int64))
        if not layout.is_binary:
            columns[FILENAME] = pa.array([], pa.string())
        return pixel_rows.contents_of(source, columns, tuple(batches), kinds)

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[Rows]:
        """Reads one range; see ``Format``."""
        file, layout = byte_range.file, _layout_of(plan)
        first = _first_record(byte_range, layout)
        data = _content(plan.source, byte_range, layout)
        crc32c = google_crc32c.value(data)
        pixels, columns = (
            _binary_batch(data, layout)
            if layout.is_binary
            else _pickled_batch(data, file.path, layout)
        )
        del data
        kinds = _classes(layout, plan.labels)
        for start in range(0, len(pixels), _STEP):
            planes = pixels[start : start + _STEP].reshape(-1, *_SHAPE)
            part = {name: column.slice(start, _STEP) for name, column in columns.items()}
            ids = {kind: part[kind.label].to_numpy() for kind in kinds}
            part |= pixel_rows.picture_columns(planes.transpose(0, 2, 3, 1), plan.schema.names)
            yield pixel_rows.rows(plan, file, first + start, part, ids, reject)
        yield Rows(empty_batch(plan.schema), crc32c=crc32c)

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns ``image``, and the number of a range's first one, from 0."""
        return "image", _first_record(byte_range, _layout_of(plan))


def _layout_of(plan: SourcePlan) -> _Layout:
    names = plan.file_schema.names
    return _Layout(COARSE_LABEL in names, FILENAME not in names)


def _first_record(byte_range: ByteRange, layout: _Layout) -> int:
    return -(-byte_range.start // layout.record_bytes) if layout.is_binary else 0


def _is_batch(path: str) -> bool:
    """Whether a file is a batch, not labels or text."""
    name = posixpath.basename(path)
    return name not in _LABEL_FILES and not name.endswith((".html", ".txt", "~"))


def _check_start(batch: FileInfo) -> None:
    """Raises ``DataError`` for a compressed file in place of a pickle."""
    if batch.archive or batch.path.endswith(".bin"):
        return
    with files.open_read(batch.path) as file, files.reading(batch.path):
        name = name_of_start(file.read(START_BYTES))
    if name in (*CODEC_FOR_COMPRESSION, "zip"):
        raise DataError(
            f"{batch.path}: found a file compressed with {name}, expected a pickle. If it is an "
            "archive of CIFAR, name it as one: .zip, .tar.gz, .tgz, .tar.bz2 or .tar.zst."
        )
    if name:
        raise unread(batch.path, name)


def _list_archive(
    source: Source, archive: FileInfo, names: dict[str, tuple[str, ...]]
) -> list[FileInfo]:
    """Returns an archive's members by path, and notes its labels."""
    members = []
    for member in read_members(source, archive.path):
        if any(map(path_patterns.is_hidden, files.relative(member.path, archive.path).split("/"))):
            continue
        members.append(
            FileInfo(member.path, member.size_bytes, archive.modified_secs, archive.path)
        )
        if posixpath.basename(member.path) in _LABEL_FILES:
            _check_size(member.path, member.size_bytes)
            _note_names(member.path, read_member(member), names)
    return sorted(members, key=lambda member: member.path)


def _read_label_files(batches: list[FileInfo], names: dict[str, tuple[str, ...]]) -> None:
    """Notes the labels in the folders of batches.

    Files of labels are read whether the recipe's path matches them or not.
    """
    folders = dict.fromkeys(
        batch.path[: -len(posixpath.basename(batch.path))] for batch in batches if not batch.archive
    )
    for path in (folder + name for folder in folders for name in _LABEL_FILES):
        if input_files.exists(path):
            data = files.read_at_most(path, MAX_BATCH_BYTES)
            _check_size(path, None if data is None else len(data))
            _note_names(path, data or b"", names)


def _note_names(path: str, data: bytes, names: dict[str, tuple[str, ...]]) -> None:
    found: dict[str, Any] = (
        {"": [line for line in data.splitlines() if line.strip()]}
        if path.endswith(".txt")
        else _unpickled(data, path)
    )
    for key, column in _LABEL_FILES[posixpath.basename(path)].items():
        texts = tuple(_array(found.get(key), pa.string(), path, "labels").to_pylist())
        if names.setdefault(column, texts) != texts:
            raise DataError(
                f"{path}: found other labels than in the source's other files, expected "
                "the same. Make two sources of it."
            )


def _common_layout(batches: list[FileInfo], names: Mapping[str, tuple[str, ...]]) -> _Layout:
    """Returns the common layout of all batches.

    Raises:
      DataError: they do not have one.
    """
    layouts = []
    for batch in batches:
        name = posixpath.basename(batch.path)
        is_hundred = COARSE_LABEL in names or name.removesuffix(".bin") in ("train", "test")
        layout = _Layout(is_hundred, name.endswith(".bin"))
        layouts.append(layout)
        if layout != layouts[0]:
            raise DataError(
                f"{batch.path}: found {layout}, expected {layouts[0]} as {batches[0].path}. Make "
                "two sources of them."
            )
        if not layout.is_binary or batch.archive:
            _check_size(batch.path, batch.size_bytes)
        is_whole = batch.size_bytes and not batch.size_bytes % layout.record_bytes
        if layout.is_binary and not is_whole:
            raise DataError(
                f"{batch.path}: found {batch.size_bytes:,} bytes, expected {layout}: a multiple of "
                f"{layout.record_bytes:,} bytes. {_AGAIN}"
            )
    return layouts[0]


def _check_size(path: str, size_bytes: int | None) -> None:
    if size_bytes is None or size_bytes > MAX_BATCH_BYTES:
        shown = f"more than {MAX_BATCH_BYTES:,}" if size_bytes is None else f"{size_bytes:,}"
        raise DataError(
            f"{path}: found {shown} bytes, expected at most {MAX_BATCH_BYTES:,} of a CIFAR file. "
            "Check 'path' of the source."
        )


def _classes(layout: _Layout, names: Mapping[str, tuple[str, ...]]) -> list[Classes]:
    kinds = [Classes(LABEL, TEXT, names.get(LABEL, ()))]
    return (
        [*kinds, Classes(COARSE_LABEL, COARSE_TEXT, names.get(COARSE_LABEL, ()))]
        if layout.is_hundred
        else kinds
    )


def _content(source: Source, byte_range: ByteRange, layout: _Layout) -> bytes:
    """Returns the bytes of a range's records."""
    file = byte_range.file
    if file.archive:
        for member in read_members(source, file.archive):
            if member.path == file.path and member.size_bytes == file.size_bytes:
                return read_member(member)
        raise DataError(
            f"{file.path}: was in the archive when the run started, and is gone. Run again."
        )
    size = layout.record_bytes if layout.is_binary else 1
    start, end = (-(-place // size) * size for place in (byte_range.start, byte_range.end))
    with files.open_read(file.path) as opened:
        return read_exactly(opened, file.path, start, end)


def _binary_batch(data: bytes, layout: _Layout) -> _Batch:
    """Cuts records: the coarse label of CIFAR-100, the label, the pixels."""
    records = np.frombuffer(data, np.uint8).reshape(-1, layout.record_bytes)
    labels = (COARSE_LABEL, LABEL) if layout.is_hundred else (LABEL,)
    columns = {
        label: pa.array(records[:, place].astype(np.int64)) for place, label in enumerate(labels)
    }
    return records[:, len(labels) :], columns


def _pickled_batch(data: bytes, path: str, layout: _Layout) -> _Batch:
    """Returns the pixels, labels and file names of a pickle.

    Raises:
      DataError: one is missing, or they are not of one length.
    """
    pickled = _unpickled(data, path)
    keys = {LABEL: "fine_labels" if layout.is_hundred else "labels", FILENAME: "filenames"}
    if layout.is_hundred:
        keys[COARSE_LABEL] = "coarse_labels"
    missing = [key for key in ("data", *keys.values()) if key not in pickled]
    if missing:
        raise DataError(
            f"{path}: found no '{missing[0]}' among {', '.join(pickled)[:200]}, expected "
            f"{layout}. {_AGAIN}"
        )
    pixels = pickled["data"]
    is_array = isinstance(pixels, np.ndarray)
    if not is_array or pixels.dtype != np.uint8 or pixels.shape[1:] != (_PIXELS,):
        found = f"{pixels.dtype}{list(pixels.shape)}" if is_array else type(pixels).__name__
        raise DataError(f"{path}: found data of {found}, expected uint8[n, {_PIXELS}]. {_AGAIN}")
    columns = {}
    for name, key in keys.items():
        type_ = pa.string() if name == FILENAME else pa.int64()
        columns[name] = _array(pickled[key], type_, path, key)
        if len(columns[name]) != len(pixels):
            raise DataError(
                f"{path}: found {len(columns[name]):,} {key} of {len(pixels):,} images, expected "
                f"as many. {_AGAIN}"
            )
    return pixels, columns


def _array(values: Any, type_: pa.DataType, path: str, what: str) -> pa.Array:
    """Returns a pickle's list or array as texts or numbers, without nulls."""
    is_text = type_ == pa.string()
    error: Exception | str = f"a {type(values).__name__} or empty items"
    try:
        if isinstance(values, (list, np.ndarray)):
            array = pa.array(values, pa.binary() if is_text else type_).cast(type_)
            if not array.null_count:
                return array
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError) as found:
        error = found
    raise DataError(
        f"{path}: found {what} that are no {'texts' if is_text else 'numbers'} ({error}), expected "
        f"a list of them. {_AGAIN}"
    )


def _unpickled(data: bytes, path: str) -> dict[str, Any]:
    """Returns the mapping in a pickle; Python 2's byte strings become text.

    Raises:
      DataError: it holds something else, or more than data.
    """
    try:
        found = safe_pickle.loads(data)
    except safe_pickle.UnsafePickleError as error:
        raise DataError(
            f"{path}: found a pickle with {error}; expected numbers, texts, lists and arrays only, "
            "as CIFAR has them. Do not load this file with Python's pickle; get it again from "
            "where CIFAR is handed out."
        ) from error
    if not isinstance(found, dict):
        raise DataError(
            f"{path}: found a pickled {type(found).__name__}, expected a mapping. {_AGAIN}"
        )
    return {
        key.decode("latin-1") if isinstance(key, bytes) else key: value
        for key, value in found.items()
    }
