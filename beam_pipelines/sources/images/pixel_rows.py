"""Rows from arrays of pixels: many pictures of one size, with classes.

CIFAR and IDX files have them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError, Problem
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import inference
from beam_pipelines.sources.bad_rows import expected
from beam_pipelines.sources.format import Contents, Rows, problem
from beam_pipelines.sources.images.png import encode_pngs
from beam_pipelines.sources.plan import FileInfo, SourcePlan

ENCODED = "image/encoded"
PICTURE_TYPES: dict[str, pa.DataType] = {
    ENCODED: pa.binary(),
    "image/format": pa.string(),
    "image/height": pa.int64(),
    "image/width": pa.int64(),
    "image/channels": pa.int64(),
}
SHAPE = ("image/height", "image/width", "image/channels")


class Classes(NamedTuple):
    """Columns of the class of each row, and the labels.

    Attributes:
      label: column of the numbers.
      text: column of the names.
      names: by number; empty if unknown, and then there is no column ``text``.
    """

    label: str
    text: str
    names: tuple[str, ...] = ()

    def types(self) -> dict[str, pa.DataType]:
        """Returns the columns' types by name."""
        return {self.label: pa.int64(), **({self.text: pa.string()} if self.names else {})}


def check(source: Source, name: str) -> list[Problem]:
    """Returns a problem for each option without meaning where types are fixed."""
    if not source.types:
        return []
    message = f"{name} files have types of their own. Leave the option out."
    return [problem(source, "types", message)]


def contents_of(
    source: Source,
    types: Mapping[str, pa.DataType],
    files: tuple[FileInfo, ...],
    classes: Sequence[Classes],
) -> Contents:
    """Returns the contents of a source with these columns and files."""
    whole = pa.schema(list(types.items()))
    read = pa.schema([whole.field(name) for name in inference.selected(source, tuple(types))])
    labels = {kind.label: kind.names for kind in classes if kind.names}
    return Contents(tuple(types), whole, read, labels=labels, files=files)


def picture_columns(pixels: npt.NDArray[np.uint8], wanted: Sequence[str]) -> dict[str, pa.Array]:
    """Returns those of the columns in ``PICTURE_TYPES`` that are wanted.

    Args:
      pixels: uint8[n, height, width, channels].
      wanted: names of columns, of others too.
    """
    columns = shape_columns(pixels)
    columns["image/format"] = pa.repeat(pa.scalar("png"), len(pixels))
    if ENCODED in wanted:
        columns[ENCODED] = encode_pngs(pixels)
    return columns


def shape_columns(pixels: npt.NDArray[Any]) -> dict[str, pa.Array]:
    """Returns height, width and channels of pixels [n, h, w, c]."""
    return {
        name: pa.repeat(pa.scalar(size, pa.int64()), len(pixels))
        for name, size in zip(SHAPE, pixels.shape[1:], strict=True)
    }


def class_columns(classes: Classes, ids: npt.NDArray[np.int64]) -> dict[str, pa.Array]:
    """Returns the columns of ids [n] and their names, null where unknown."""
    columns = {classes.label: pa.array(ids)}
    if classes.names:
        columns[classes.text] = pa.array(classes.names, pa.string()).take(
            pa.array(ids, mask=_is_unknown(classes, ids))
        )
    return columns


def _is_unknown(classes: Classes, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    return (ids < 0) | (ids >= len(classes.names))


def rows(
    plan: SourcePlan,
    file: FileInfo,
    first: int,
    columns: Mapping[str, pa.Array],
    ids: Mapping[Classes, npt.NDArray[np.int64]],
    reject: bool,
) -> Iterator[Rows]:
    """Yields the rows of columns, without those whose class has no name.

    Args:
      plan: of the source.
      file: file of the rows.
      first: number of the first row in the file, from 0, for messages.
      columns: all that are read, and maybe others, each of n values.
      ids: the class of each of the n rows.
      reject: whether bad rows are left out and listed.

    Raises:
      DataError: a bad row.
    """
    batch = pa.RecordBatch.from_arrays(
        [columns[name] for name in plan.schema.names], schema=plan.schema
    )
    rejected: dict[int, Rejected] = {}
    for classes, numbers in ids.items():
        if not classes.names or not {classes.label, classes.text} & set(plan.schema.names):
            continue
        for row in np.flatnonzero(_is_unknown(classes, numbers)).tolist():
            reason = (
                f"found class {numbers[row]}, expected 0 to {len(classes.names) - 1}, which have "
                "names. "
                "Get the file again, or mend the names."
            )
            bad = Rejected(
                plan.source.name, file.path, f"image {first + row}", classes.label, reason, ""
            )
            if not reject:
                raise DataError(bad.describe())
            rejected.setdefault(row, bad)
    if rejected:
        batch = batch.take(
            pa.array([row for row in range(batch.num_rows) if row not in rejected], pa.int64())
        )
    yield Rows(batch, tuple(rejected[row] for row in sorted(rejected)))


def integers(values: Any, where: str, what: str) -> npt.NDArray[np.int64]:
    """Returns a list or an array of integers as int64[n].

    Raises:
      DataError: it is none.
    """
    if not isinstance(values, (list, np.ndarray)):
        raise DataError(
            f"{where}: found {what} that are no list, expected one number an image. Get the file "
            "again."
        )
    try:
        numbers: npt.NDArray[np.int64] = pa.array(values, pa.int64()).to_numpy()
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError) as error:
        raise DataError(
            f"{where}: found {what} that are no numbers ({error}), each expected "
            f"{expected(pa.int64())}. Get the file again."
        ) from error
    return numbers
