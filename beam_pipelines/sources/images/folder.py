"""Folders of image files: each file is a row.

The folder of a file is its class. Files are small and many, so a range is a run of them
(``plan.gather_ranges``), read and decoded one after the other. Only decoding goes image by image.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import google_crc32c
import pyarrow as pa

from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError, Problem, RecipeProblems, nearest
from beam_pipelines.core.formatting import show_count
from beam_pipelines.core.limits import Limits, exceeded
from beam_pipelines.files.beam import files, input_roots, listing, path_patterns
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml_text import yaml_list
from beam_pipelines.sources import inference, source_format
from beam_pipelines.sources.batch_files import no_compression
from beam_pipelines.sources.images.options import (
    ImageOptions,
    ImagesOptions,
    PictureError,
    image_options,
)
from beam_pipelines.sources.plan import ByteRange, FileInfo, QuoteStates, SourcePlan

if TYPE_CHECKING:
    from beam_pipelines.sources.images.pictures import Look

ENCODED, LABEL, CLASS, FILENAME = (
    "image/encoded",
    "image/class/label",
    "image/class/text",
    "image/filename",
)
FILE_SCHEMA = pa.schema(
    [
        (ENCODED, pa.binary()),
        ("image/format", pa.string()),
        ("image/height", pa.int64()),
        ("image/width", pa.int64()),
        ("image/channels", pa.int64()),
        (LABEL, pa.int64()),
        (CLASS, pa.string()),
        (FILENAME, pa.string()),
    ]
)
# The path without its suffix, which tables of labels often have; read where ``columns`` names it.
STEM = "image/stem"
SUFFIXES = (".jpg", ".jpeg", ".jfif", ".png", ".bmp", ".gif", ".webp")
# Suffixes of other pictures: left out, and not in silence.
_UNREAD = (".tif", ".tiff", ".heic", ".heif", ".avif", ".jp2", ".jxl")
# Folders of what belongs together, rather than of a class.
PARTS = re.compile("(?i:(?:jpeg|png)?(?:image|img|photo)s?|masks?|labels?|annotations?)")
_WILDCARD = re.compile(r"[*?[]")
# Images that planning looks at, spread over the list.
_LOOKED_AT = 32


class Images(source_format.Format):
    """Image files, many to a range."""

    suffixes = SUFFIXES
    Options = ImagesOptions
    is_file_a_row = True
    checks_images = True

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        problems = no_compression(source, "Image")
        if source.types:
            problems.append(
                source_format.problem(
                    source, "types", "the columns of images have their types. Leave the option out."
                )
            )
        return problems

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> source_format.Contents:
        """Finds the images and their classes; see ``Format``. Opens a few files.

        Raises:
          RecipeProblems: there are no images, they are not all in class folders, or in others than
            the recipe names.
        """
        root = common_folder([_root(path) for path in source.path])
        folders = tuple(path for path in source.path if _is_folder(path))
        images = tuple(file for file in files if _is_image(file.path, folders))
        if not images:
            message = f"found no image ({', '.join(SUFFIXES)}) in {', '.join(source.path)}."
            raise RecipeProblems([source_format.problem(source, "path", message)])
        classes = _classes(source, root, images, folders)
        names = [name for name in FILE_SCHEMA.names if classes or name not in (LABEL, CLASS)]
        names += [STEM] if STEM in source.columns else []
        known = FILE_SCHEMA.append(pa.field(STEM, pa.string()))
        selected = inference.selected(source, tuple(names))
        read_schema = pa.schema([known.field(name) for name in selected])
        labels = {LABEL: classes} if classes else {}
        return source_format.Contents(
            tuple(names),
            FILE_SCHEMA,
            read_schema,
            labels=labels,
            files=images,
            root=root,
            decisions=(
                *_left_out(folders, images),
                *_no_classes(classes),
                *_changes(source, images),
            ),
        )

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[source_format.Rows]:
        """Reads the files of one range; see ``Format``."""
        ids = {name: number for number, name in enumerate(plan.labels.get(LABEL, ()))}
        options = image_options(plan.source)
        crc, size = 0, 0
        rows: list[dict[str, Any]] = []
        rejected: list[Rejected] = []
        for file in plan.files[slice(*byte_range.members)]:
            data = _read(file, plan.source.limits)
            crc = google_crc32c.extend(crc, data)
            try:
                data, look = look_at(data, options, plan.source.limits)
            except PictureError as error:
                bad = Rejected(plan.source.name, file.path, "", "", str(error), "")
                if not reject:
                    raise DataError(bad.describe()) from error
                rejected.append(bad)
                continue
            filename = files.relative(file.path, plan.root)
            class_ = _class_of(filename)
            values = (data, *look, ids.get(class_), class_, filename)
            row = dict(zip(FILE_SCHEMA.names, values, strict=True))
            rows.append({**row, STEM: os.path.splitext(filename)[0]})
            size += len(data)
            if size >= source_format.CHUNK_BYTES or len(rows) == source_format.MAX_CHUNK_ROWS:
                batch = pa.RecordBatch.from_pylist(rows, schema=plan.schema)
                yield source_format.Rows(batch, tuple(rejected))
                rows, rejected, size = [], [], 0
        batch = pa.RecordBatch.from_pylist(rows, schema=plan.schema)
        yield source_format.Rows(batch, tuple(rejected), crc)

    def pin(
        self, source: Source, types: Mapping[str, str], labels: Mapping[str, tuple[str, ...]]
    ) -> Source:
        """Returns the source with the classes that a dataset has; see ``Format``."""
        (classes,) = labels.values() or [()]
        image = dataclasses.replace(image_options(source), classes=tuple(classes))
        return source.with_options(image=image)

    def positions(
        self,
        plan: SourcePlan,
        byte_range: ByteRange,
        quote_states: QuoteStates,
        rejected: Sequence[Rejected],
        rows: Sequence[int],
    ) -> list[source_format.Position]:
        """Names the files of rows; see ``Format``."""
        bad = {row.file for row in rejected}
        read = [file.path for file in plan.files[slice(*byte_range.members)]]
        good = [path for path in read if path not in bad]
        return [source_format.Position(good[row], "", "") for row in rows]


def _no_classes(classes: Sequence[str]) -> Iterator[str]:
    """Yields the finding of folders that may be parts of a row."""
    if odd := [name for name in classes if PARTS.fullmatch(name)]:
        reads = "'columns: [image/encoded, image/filename]' reads pictures alone"
        yield f"classes: {yaml_list(classes)}  # are {' and '.join(odd)} classes? If not, {reads}"


def _read(file: FileInfo, limits: Limits) -> bytes:
    """Returns an image file.

    Raises:
      DataError: it is larger than a value may be, as it was listed or as it is now.
    """
    is_small = file.size_bytes <= limits.cell_bytes
    data = files.read_at_most(file.path, limits.cell_bytes) if is_small else None
    if data is None:
        size = max(file.size_bytes, limits.cell_bytes + 1)
        found = f"an image file of {'at least ' if is_small else ''}{size:,} bytes"
        raise DataError(f"{file.path}: {exceeded(limits, 'cell_bytes', found)}")
    return data


def look_at(data: bytes, options: ImageOptions, limits: Limits) -> tuple[bytes, Look]:
    """Checks an image, and converts it if recipe or format ask.

    Raises:
      PictureError: it is not whole.
    """
    from beam_pipelines.sources.images import pictures  # its decoders take 20 ms

    return pictures.convert(data, options, limits)


def _left_out(folders: Sequence[str], images: Sequence[FileInfo]) -> Iterator[str]:
    """Yields findings on files of the pictures that are not read.

    These are pictures that no reader here decodes, and files with the names of pictures, such as
    captions; also those in folders such as ``labels`` next to one of pictures.
    """
    local = [folder for folder in folders if files.is_local(folder)]
    pictures = [
        file.path
        for folder in local
        for file in listing.list_files(files.join(folder, "**"), suffixes=_UNREAD)
    ]
    stems = {_stem_of(image.path) for image in images}
    named = [path for path in _others_near(local) if _stem_of(path) in stems]
    if pictures:
        number = show_count(len(pictures), "picture")
        cure = "convert them to JPEG, PNG or WebP to read them"
        yield f"without {number} of other formats, such as {pictures[0]}  # {cure}"
    if named:
        number, cure = show_count(len(named), "file"), f"a table of their contents joins by {STEM}"
        yield f"without {number} with names of pictures, such as {named[0]}  # {cure}"


def _others_near(folders: Sequence[str]) -> list[str]:
    """Returns other files in and next to folders of pictures."""
    near = {folder.rstrip("/") or folder for folder in folders}
    for root in tuple(near):
        if PARTS.fullmatch(os.path.basename(root)):
            above = os.path.dirname(root)
            names = filter(PARTS.fullmatch, listing.names_in(above or "."))
            near |= {files.join(above, name) for name in names}
    return sorted(
        os.path.join(place, name)
        for folder in filter(input_roots.allows, near)
        for place, _, names in os.walk(folder)
        for name in names
        if not name.lower().endswith((*SUFFIXES, *_UNREAD))
    )


def _stem_of(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _changes(source: Source, images: Sequence[FileInfo]) -> Iterator[str]:
    """Yields findings on what storing some images changes or ignores."""
    from beam_pipelines.sources.images import pictures  # its decoders take 20 ms

    step = max(1, len(images) // _LOOKED_AT)
    counts: Counter[str] = Counter()
    for file in images[::step][:_LOOKED_AT]:
        if files.is_local(file.path) and file.size_bytes <= source.limits.cell_bytes:
            with contextlib.suppress(PictureError, OSError):  # reading reports it
                counts.update(pictures.traits(_read(file, source.limits), source.limits))
                counts["all"] += 1
    for trait, found in counts.items():
        if trait in pictures.FINDINGS:
            kept, changed = pictures.FINDINGS[trait]
            words = changed if image_options(source).changes else kept
            if words:
                yield f"{found} of {counts['all']} pictures looked at {words}"


def _is_folder(path: str) -> bool:
    """Whether a recipe's path is a folder of images, not a pattern."""
    if files.is_local(path):
        return os.path.isdir(path)
    return not path_patterns.has_wildcard(path) and not path.lower().endswith(SUFFIXES)


def _root(path: str) -> str:
    """Returns the folder of a recipe's path.

    It is the path itself, or the last folder that a pattern names in full.
    """
    if _is_folder(path):
        return path.rstrip("/")
    match = _WILDCARD.search(path)
    return path[: match.start() if match else None].rpartition("/")[0]


def common_folder(folders: Sequence[str]) -> str:
    """Returns the deepest folder that contains all the folders."""
    names = zip(*(folder.split("/") for folder in folders), strict=False)
    return "/".join(
        name for name, *_ in itertools.takewhile(lambda level: len(set(level)) == 1, names)
    )


def _is_image(path: str, folders: Sequence[str]) -> bool:
    """Whether a listed file is a row.

    All files that a pattern matches are, and in a folder those with the suffix of an image.
    """
    return path.lower().endswith(SUFFIXES) or not any(_lies_in(path, folder) for folder in folders)


def _lies_in(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _class_of(filename: str) -> str:
    """Returns the name of a file's folder; empty if it has none."""
    return filename.rpartition("/")[0].rpartition("/")[2]


def _classes(
    source: Source, root: str, images: Sequence[FileInfo], folders: Sequence[str]
) -> tuple[str, ...]:
    """Returns the names of the class folders, by id.

    There are none if there are no folders, or the recipe does not ask for classes.

    Raises:
      RecipeProblems: see ``Images.infer``.
    """
    if source.columns and not {LABEL, CLASS} & set(source.columns):
        return ()
    first_of: dict[str, str] = {}
    for file in images:
        first_of.setdefault(_class_of(files.relative(file.path, root)), file.path)
    if set(first_of) == {""} and not image_options(source).classes:
        return ()
    deep = next(
        (file.path for file in images for folder in folders if _depth(file.path, folder) > 2), ""
    )
    problems = [
        *(
            source_format.problem(source, "path", message)
            for message in _folder_problems(first_of, deep, _deeper(images, folders))
        ),
        *_unknown_classes(source, first_of),
    ]
    if problems:
        raise RecipeProblems(problems)
    return image_options(source).classes or tuple(sorted(first_of))


def _depth(path: str, folder: str) -> int:
    """Returns how many names a path has below a folder, or 0."""
    return files.relative(path, folder).count("/") + 1 if _lies_in(path, folder) else 0


def _deeper(images: Sequence[FileInfo], folders: Sequence[str]) -> str:
    """Returns patterns of images two folders deep; other files may be there."""
    suffixes = sorted({f".{file.path.rpartition('.')[2]}" for file in images})
    return yaml_list(f"{folder}/*/*/*{suffix}" for folder in folders[:1] for suffix in suffixes)


def _folder_problems(first_of: Mapping[str, str], deep: str, patterns: str) -> Iterator[str]:
    """Yields problems of the folders that should be classes.

    Args:
      first_of: class -> path of its first image.
      deep: path of an image in a folder inside a class folder, or empty.
      patterns: of such images.
    """
    cure = (
        f"Where folders are no classes, do not read them as such: 'columns: [{ENCODED}, "
        f"{FILENAME}]'."
    )
    if "" in first_of:
        yield (
            f"found {first_of['']} outside of the class folders, expected every image in "
            f"one. {cure}"
        )
    if deep:
        yield (
            f"found {deep} in a folder inside another, expected <class>/<file>. Where the inner "
            f"folder is the class, set 'path: {patterns}'. {cure}"
        )
    for name in first_of:
        if "\n" in name:
            yield (
                f"found a line end in the name of the folder {name!r}, which is a class. Rename it."
            )


def _unknown_classes(source: Source, first_of: Mapping[str, str]) -> Iterator[Problem]:
    known = image_options(source).classes
    for name in sorted(set(first_of) - {"", *known}) if known else ():
        message = (
            f"found {first_of[name]}, whose folder is none of the {len(known)} "
            f"classes.{nearest(name, known)}"
        )
        yield Problem(("sources", source.name, "image", "classes"), message)
