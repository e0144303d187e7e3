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
from beam_pipelines.core.limits import MIB, Limits
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.archives.archives import is_archive, read_member, read_members
from beam_pipelines.sources.compression import (
    CODEC_FOR_COMPRESSION,
    START_BYTES,
    name_of_start,
    unread,
)
from beam_pipelines.sources.format import Contents, Format, QuoteStates, Rows, empty_batch, problem
from beam_pipelines.sources.images import pixel_rows, safe_pickle
from beam_pipelines.sources.images.pixel_rows import Classes
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines.sources.text.blocks import read_exactly
from beam_pipelines.storage import files, input_files, path_patterns

SIDE, CHANNELS = 32, 3
PIXELS = CHANNELS * SIDE * SIDE
LABEL, TEXT = "image/class/label", "image/class/text"
COARSE_LABEL, COARSE_TEXT = "image/class/coarse/label", "image/class/coarse/text"
FILENAME = "image/filename"
# A pickled batch is read whole. The largest of CIFAR has 155 MB.
MAX_BATCH_BYTES = 256 * MIB
# Images that are encoded at once: 12 MiB of pixels.
_STEP = 4096

# Files of labels: pickle -> column of each key in it; text with one label a line -> its column.
_PICKLED_NAMES = {
    "batches.meta": {"label_names": LABEL},
    "meta": {"fine_label_names": LABEL, "coarse_label_names": COARSE_LABEL},
}
_LISTED_NAMES = {
    "batches.meta.txt": LABEL,
    "fine_label_names.txt": LABEL,
    "coarse_label_names.txt": COARSE_LABEL,
}
_NAMES = (*_PICKLED_NAMES, *_LISTED_NAMES)
# Names of the batches of CIFAR-100.
_HUNDRED = ("train", "test", "train.bin", "test.bin")
_AGAIN = "Get the file again."


class _Batch(NamedTuple):
    """Images of a batch, with ids and names.

    Attributes:
      pixels: uint8[n, 3072].
      ids: column -> int64[n].
      filenames: text[n], of pickles.
    """

    pixels: npt.NDArray[np.uint8]
    ids: Mapping[str, npt.NDArray[np.int64]]
    filenames: pa.Array | None = None


class _CifarLayout(NamedTuple):
    """One of the four kinds of files."""

    is_hundred: bool
    is_binary: bool

    @property
    def record_bytes(self) -> int:
        """Bytes of an image and its labels in the binary version."""
        return PIXELS + (2 if self.is_hundred else 1)

    def __str__(self) -> str:
        return (
            f"CIFAR-{100 if self.is_hundred else 10} {'records' if self.is_binary else 'pickles'}"
        )


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
        problems = pixel_rows.check(source, "CIFAR")
        if source.compression == "zlib":
            problems.append(
                problem(
                    source,
                    "compression",
                    "zlib is for TFRecord files; archives have gzip, bzip2 or zstd.",
                )
            )
        return problems

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
                "data_batch_1, test_batch, train, "
                "test or data_batch_1.bin. Check 'path' of the source."
            )
        for batch in batches:
            _check_start(batch)
        _read_label_files(batches, names, source.limits)
        layout = _common_layout(batches, names)
        kinds = _classes(layout, names)
        types = dict(pixel_rows.PICTURE_TYPES)
        for kind in kinds:
            types |= kind.types()
        if not layout.is_binary:
            types[FILENAME] = pa.string()
        return pixel_rows.contents_of(source, types, tuple(batches), kinds)

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[Rows]:
        """Reads one range; see ``Format``."""
        file = byte_range.file
        layout = _CifarLayout(
            COARSE_LABEL in plan.file_schema.names, FILENAME not in plan.file_schema.names
        )
        data, first = _content(plan.source, byte_range, layout)
        crc32c = google_crc32c.value(data)
        batch = (
            _binary_batch(data, layout)
            if layout.is_binary
            else _pickled_batch(data, file.path, layout, plan.source.limits)
        )
        del data
        kinds = _classes(layout, plan.labels)
        for start in range(0, len(batch.pixels), _STEP):
            planes = batch.pixels[start : start + _STEP].reshape(-1, CHANNELS, SIDE, SIDE)
            columns = pixel_rows.picture_columns(planes.transpose(0, 2, 3, 1), plan.schema.names)
            ids = {kind: batch.ids[kind.label][start : start + _STEP] for kind in kinds}
            for kind, numbers in ids.items():
                columns |= pixel_rows.class_columns(kind, numbers)
            if batch.filenames is not None:
                columns[FILENAME] = batch.filenames.slice(start, _STEP)
            yield from pixel_rows.rows(plan, file, first + start, columns, ids, reject)
        yield Rows(empty_batch(plan.schema), crc32c=crc32c)

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns ``image``, and the number of a range's first one, from 0."""
        layout = _CifarLayout(
            COARSE_LABEL in plan.file_schema.names, FILENAME not in plan.file_schema.names
        )
        return "image", -(-byte_range.start // layout.record_bytes) if layout.is_binary else 0


def _is_batch(path: str) -> bool:
    """Whether a file is a batch, not labels or text."""
    name = posixpath.basename(path)
    return name not in _NAMES and not name.endswith((".html", ".txt", "~"))


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
        if posixpath.basename(member.path) in _NAMES:
            _check_size(member.path, member.size_bytes)
            _note_names(member.path, read_member(member), names, source.limits)
    return sorted(members, key=lambda member: member.path)


def _read_label_files(
    batches: list[FileInfo], names: dict[str, tuple[str, ...]], limits: Limits
) -> None:
    """Notes the labels in the folders of batches.

    Files of labels are read whether the recipe's path matches them or not.
    """
    folders = dict.fromkeys(
        batch.path[: -len(posixpath.basename(batch.path))] for batch in batches if not batch.archive
    )
    for folder in folders:
        for name in _NAMES:
            if input_files.exists(folder + name):
                _note_names(folder + name, _read_whole(folder + name), names, limits)


def _read_whole(path: str) -> bytes:
    """Returns a file of labels.

    Raises:
      DataError: it is larger than a file of CIFAR.
    """
    data = files.read_at_most(path, MAX_BATCH_BYTES)
    if data is None:
        raise _too_large(path, f"more than {MAX_BATCH_BYTES:,}")
    return data


def _note_names(path: str, data: bytes, names: dict[str, tuple[str, ...]], limits: Limits) -> None:
    name = posixpath.basename(path)
    if name in _LISTED_NAMES:
        found: dict[str, Any] = {
            _LISTED_NAMES[name]: [line for line in data.splitlines() if line.strip()]
        }
    else:
        pickled = _unpickled(data, path, limits)
        found = {column: pickled.get(key) for key, column in _PICKLED_NAMES[name].items()}
    for column, values in found.items():
        try:
            texts = tuple(pa.array(values, pa.binary()).cast(pa.string()).to_pylist())
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
            raise DataError(
                f"{path}: found no labels, expected a list of texts ({error}). {_AGAIN}"
            ) from error
        if names.setdefault(column, texts) != texts:
            raise DataError(
                f"{path}: found other labels than in the source's other files, expected "
                "the same. Make two sources of it."
            )


def _common_layout(batches: list[FileInfo], names: Mapping[str, tuple[str, ...]]) -> _CifarLayout:
    """Returns the common layout of all batches.

    Raises:
      DataError: they do not have one.
    """
    layouts = []
    for batch in batches:
        name = posixpath.basename(batch.path)
        layout = _CifarLayout(COARSE_LABEL in names or name in _HUNDRED, name.endswith(".bin"))
        layouts.append(layout)
        if layout != layouts[0]:
            raise DataError(
                f"{batch.path}: found {layout}, expected {layouts[0]} as {batches[0].path}. Make "
                "two sources of them."
            )
        if not layout.is_binary or batch.archive:
            _check_size(batch.path, batch.size_bytes)
        if not layout.is_binary:
            continue
        if batch.size_bytes % layout.record_bytes or not batch.size_bytes:
            raise DataError(
                f"{batch.path}: found {batch.size_bytes:,} bytes, expected {layout}: a multiple of "
                f"{layout.record_bytes:,} bytes. {_AGAIN}"
            )
    return layouts[0]


def _check_size(path: str, size_bytes: int) -> None:
    if size_bytes > MAX_BATCH_BYTES:
        raise _too_large(path, f"{size_bytes:,}")


def _too_large(path: str, size: str) -> DataError:
    return DataError(
        f"{path}: found {size} bytes, expected at most {MAX_BATCH_BYTES:,} of a CIFAR file. Check "
        "'path' of the source."
    )


def _classes(layout: _CifarLayout, names: Mapping[str, tuple[str, ...]]) -> list[Classes]:
    kinds = [Classes(LABEL, TEXT, names.get(LABEL, ()))]
    return (
        [*kinds, Classes(COARSE_LABEL, COARSE_TEXT, names.get(COARSE_LABEL, ()))]
        if layout.is_hundred
        else kinds
    )


def _content(source: Source, byte_range: ByteRange, layout: _CifarLayout) -> tuple[bytes, int]:
    """Returns the bytes of a range's records, and the first one's number."""
    file = byte_range.file
    if file.archive:
        for member in read_members(source, file.archive):
            if member.path == file.path and member.size_bytes == file.size_bytes:
                return read_member(member), 0
        raise DataError(
            f"{file.path}: was in the archive when the run started, and is gone. Run again."
        )
    with files.open_read(file.path) as opened:
        if not layout.is_binary:
            return read_exactly(opened, file.path, 0, file.size_bytes), 0
        first, end = (
            -(-place // layout.record_bytes) for place in (byte_range.start, byte_range.end)
        )
        data = read_exactly(
            opened, file.path, first * layout.record_bytes, end * layout.record_bytes
        )
        return data, first


def _binary_batch(data: bytes, layout: _CifarLayout) -> _Batch:
    """Cuts records: the coarse label of CIFAR-100, the label, the pixels."""
    records = np.frombuffer(data, np.uint8).reshape(-1, layout.record_bytes)
    labels = layout.record_bytes - PIXELS
    ids = {LABEL: records[:, labels - 1].astype(np.int64)}
    if layout.is_hundred:
        ids[COARSE_LABEL] = records[:, 0].astype(np.int64)
    return _Batch(records[:, labels:], ids)


def _pickled_batch(data: bytes, path: str, layout: _CifarLayout, limits: Limits) -> _Batch:
    """Returns images, labels and file names of a pickle.

    Raises:
      DataError: one is missing, or they are not of one length.
    """
    pickled = _unpickled(data, path, limits)
    keys = (
        {LABEL: "fine_labels", COARSE_LABEL: "coarse_labels"}
        if layout.is_hundred
        else {LABEL: "labels"}
    )
    missing = [key for key in ("data", *keys.values(), "filenames") if key not in pickled]
    if missing:
        raise DataError(
            f"{path}: found no '{missing[0]}' among {', '.join(map(str, pickled))[:200]}, expected "
            f"{layout}. {_AGAIN}"
        )
    pixels = pickled["data"]
    if (
        not isinstance(pixels, np.ndarray)
        or pixels.dtype != np.uint8
        or pixels.shape[1:] != (PIXELS,)
    ):
        found = (
            f"{pixels.dtype}{list(pixels.shape)}"
            if isinstance(pixels, np.ndarray)
            else type(pixels).__name__
        )
        raise DataError(f"{path}: found data of {found}, expected uint8[n, {PIXELS}]. {_AGAIN}")
    ids = {column: pixel_rows.integers(pickled[key], path, key) for column, key in keys.items()}
    try:
        filenames = pa.array(pickled["filenames"], pa.binary()).cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        raise DataError(
            f"{path}: found filenames that are no texts ({error}), expected one an image. {_AGAIN}"
        ) from error
    for what, count in (
        *((keys[column], len(numbers)) for column, numbers in ids.items()),
        ("filenames", len(filenames)),
    ):
        if count != len(pixels):
            raise DataError(
                f"{path}: found {count:,} {what} of {len(pixels):,} images, expected as many. "
                f"{_AGAIN}"
            )
    return _Batch(pixels, ids, filenames)


def _unpickled(data: bytes, path: str, limits: Limits) -> dict[str, Any]:
    """Returns the mapping in a pickle; Python 2's byte strings become text.

    Raises:
      DataError: it holds something else, or more than data.
    """
    _check_size(path, len(data))
    try:
        found = safe_pickle.loads(data, limits)
    except safe_pickle.TooDeepError as error:
        raise DataError(f"{path}: {error}") from error
    except safe_pickle.UnsafePickleError as error:
        raise DataError(
            f"{path}: found a pickle with {error}; expected numbers, texts, lists and arrays only, "
            "as CIFAR has them. "
            "Do not load this file with Python's pickle; get it again from where CIFAR is handed "
            "out."
        ) from error
    if not isinstance(found, dict):
        raise DataError(
            f"{path}: found a pickled {type(found).__name__}, expected a mapping. {_AGAIN}"
        )
    return {
        key.decode("latin-1") if isinstance(key, bytes) else str(key): value
        for key, value in found.items()
    }
