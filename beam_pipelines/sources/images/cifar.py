"""CIFAR-10 and CIFAR-100: pickled batches.

They may be in their archive or out of it. Source of the format:
https://www.cs.toronto.edu/~kriz/cifar.html. A picture is 3 planes (red, green, blue) of 32 rows of
32 bytes.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.arrow.columns import empty_batch
from beam_pipelines.core.errors import DataError, Problem
from beam_pipelines.core.limits import MIB
from beam_pipelines.files.beam import files, listing, path_patterns
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import source_format
from beam_pipelines.sources.files.archives import is_archive, read_member, read_members
from beam_pipelines.sources.files.compression import (
    CODEC_FOR_COMPRESSION,
    START_BYTES,
    name_of_start,
    unread,
)
from beam_pipelines.sources.images import pixel_rows, safe_pickle
from beam_pipelines.sources.plan import ByteRange, FileInfo, QuoteStates, SourcePlan
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
# Files of labels -> column of each key of the pickle.
_LABEL_FILES = {
    "batches.meta": {"label_names": LABEL},
    "meta": {"fine_label_names": LABEL, "coarse_label_names": COARSE_LABEL},
}
_AGAIN = "Get the file again."
# Pixels, uint8[n, 3072], and the columns of labels and names.
_Batch = tuple[npt.NDArray[np.uint8], dict[str, pa.Array]]


class Cifar(source_format.Format):
    """Batches of CIFAR, each one range."""

    checks_images = True  # it makes them of pixels
    reads_archives = True
    # The archives' whole names.
    suffixes = tuple(
        f"cifar-{classes}-python.{archive}" for classes in (10, 100) for archive in ("tar", "zip")
    )

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        return pixel_rows.check(source, "CIFAR")

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> source_format.Contents:
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
                "data_batch_1, test_batch, train or test. Check 'path' of the source; of the "
                "binary version, get cifar-10-python.tar.gz or cifar-100-python.tar.gz instead."
            )
        for batch in batches:
            _check_start(batch)
        _read_label_files(batches, names)
        kinds = _classes(_are_hundred(batches, names), names)
        columns = pixel_rows.picture_columns(np.empty((0, 32, 32, 3), np.uint8))
        for kind in kinds:
            columns |= kind.columns(np.empty(0, np.int64))
        columns[FILENAME] = pa.array([], pa.string())
        return pixel_rows.contents_of(source, columns, tuple(batches), kinds)

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[source_format.Rows]:
        """Reads one range; see ``Format``."""
        file, is_hundred = byte_range.file, COARSE_LABEL in plan.file_schema.names
        data = _content(plan.source, file)
        crc32c = google_crc32c.value(data)
        pixels, columns = _pickled_batch(data, file.path, is_hundred)
        del data
        kinds = _classes(is_hundred, plan.labels)
        for start in range(0, len(pixels), _STEP):
            planes = pixels[start : start + _STEP].reshape(-1, *_SHAPE)
            part = {name: column.slice(start, _STEP) for name, column in columns.items()}
            ids = {kind: part[kind.label].to_numpy() for kind in kinds}
            part |= pixel_rows.picture_columns(planes.transpose(0, 2, 3, 1), plan.schema.names)
            yield pixel_rows.rows(plan, file, start, part, ids, reject)
        yield source_format.Rows(empty_batch(plan.schema), crc32c=crc32c)

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns ``image``, and the number of a batch's first one, from 0."""
        return "image", 0


def _is_batch(path: str) -> bool:
    """Whether a file is a batch, not labels or text."""
    name = posixpath.basename(path)
    return name not in _LABEL_FILES and not name.endswith((".html", ".txt", ".bin", "~"))


def _check_start(batch: FileInfo) -> None:
    """Raises ``DataError`` for a compressed file in place of a pickle."""
    if batch.archive:
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
        if listing.exists(path):
            data = files.read_at_most(path, MAX_BATCH_BYTES)
            _check_size(path, None if data is None else len(data))
            _note_names(path, data or b"", names)


def _note_names(path: str, data: bytes, names: dict[str, tuple[str, ...]]) -> None:
    found = _unpickled(data, path)
    for key, column in _LABEL_FILES[posixpath.basename(path)].items():
        texts = tuple(_array(found.get(key), pa.string(), path, "labels").to_pylist())
        if names.setdefault(column, texts) != texts:
            raise DataError(
                f"{path}: found other labels than in the source's other files, expected "
                "the same. Make two sources of it."
            )


def _are_hundred(batches: list[FileInfo], names: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether batches are of CIFAR-100.

    Raises:
      DataError: some are, or one is too large.
    """
    kinds = []
    for batch in batches:
        is_hundred = COARSE_LABEL in names or posixpath.basename(batch.path) in ("train", "test")
        kinds.append(is_hundred)
        if is_hundred != kinds[0]:
            raise DataError(
                f"{batch.path}: found {_kind(is_hundred)}, expected {_kind(kinds[0])} as "
                f"{batches[0].path}. Make two sources of them."
            )
        _check_size(batch.path, batch.size_bytes)
    return kinds[0]


def _kind(is_hundred: bool) -> str:
    return "CIFAR-100" if is_hundred else "CIFAR-10"


def _check_size(path: str, size_bytes: int | None) -> None:
    if size_bytes is None or size_bytes > MAX_BATCH_BYTES:
        shown = f"more than {MAX_BATCH_BYTES:,}" if size_bytes is None else f"{size_bytes:,}"
        raise DataError(
            f"{path}: found {shown} bytes, expected at most {MAX_BATCH_BYTES:,} of a CIFAR file. "
            "Check 'path' of the source."
        )


def _classes(is_hundred: bool, names: Mapping[str, tuple[str, ...]]) -> list[pixel_rows.Classes]:
    kinds = [pixel_rows.Classes(LABEL, TEXT, names.get(LABEL, ()))]
    return (
        [*kinds, pixel_rows.Classes(COARSE_LABEL, COARSE_TEXT, names.get(COARSE_LABEL, ()))]
        if is_hundred
        else kinds
    )


def _content(source: Source, file: FileInfo) -> bytes:
    """Returns a batch's bytes."""
    if file.archive:
        for member in read_members(source, file.archive):
            if member.path == file.path and member.size_bytes == file.size_bytes:
                return read_member(member)
        raise DataError(
            f"{file.path}: was in the archive when the run started, and is gone. Run again."
        )
    with files.open_read(file.path) as opened:
        return read_exactly(opened, file.path, 0, file.size_bytes)


def _pickled_batch(data: bytes, path: str, is_hundred: bool) -> _Batch:
    """Returns the pixels, labels and file names of a pickle.

    Raises:
      DataError: one is missing, or they are not of one length.
    """
    pickled = _unpickled(data, path)
    keys = {LABEL: "fine_labels" if is_hundred else "labels", FILENAME: "filenames"}
    if is_hundred:
        keys[COARSE_LABEL] = "coarse_labels"
    missing = [key for key in ("data", *keys.values()) if key not in pickled]
    if missing:
        raise DataError(
            f"{path}: found no '{missing[0]}' among {', '.join(pickled)[:200]}, expected "
            f"a batch of {_kind(is_hundred)}. {_AGAIN}"
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
