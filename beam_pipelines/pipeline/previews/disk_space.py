"""Disk space: estimated, and reported when there is too little.

An estimate needs a preview of the data. So it is made only if less than ``CHECK_BELOW_FACTOR``
times the sources' size is free.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import NamedTuple

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.formatting import show_bytes
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.previews.estimate import make_preview, make_scale
from beam_pipelines.pipeline.run_options import RunOptions
from beam_pipelines.runners import run as run_module
from beam_pipelines.storage import files

# Text takes 2 to 3 times its size, Parquet up to 10 times, compressed text more.
CHECK_BELOW_FACTOR = 20
# A shortage below this share of the need may be an error of the estimate.
_ESTIMATE_ERROR = 0.1
_PREVIEWED_FILES = 2
_DISK_FULL_TEXTS = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT))


class DiskSpace(NamedTuple):
    """Estimate of the disk space that a conversion needs on this machine.

    Attributes:
      folder: a folder on that disk.
      temporary_bytes: peak of the temporary files.
      shard_bytes: of the shards; 0 if they are written elsewhere.
    """

    folder: str
    temporary_bytes: float
    shard_bytes: float

    def describe(self) -> str:
        """Returns ``the run is estimated to need 6.3 GB of …``."""
        total = self.temporary_bytes + self.shard_bytes
        return (
            f"the run is estimated to need {show_bytes(total)} of disk in all, "
            f"{show_bytes(self.temporary_bytes)} of it for temporary "
            "files that are removed at the end"
        )


@contextlib.contextmanager
def report_disk_space(
    plan: Plan, options: RunOptions, warn: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Warns if the disk is too small; explains a full disk.

    Args:
      plan, options: of the conversion, which is the body.
      warn: shows a warning before the body; ``None``: no warning.

    Raises:
      DataError: the body's error, with one more line if the disk is full and there is an estimate.
    """
    output = options.output
    beam_options = run_module.pipeline_options(options.beam_options, plan.size_bytes)
    is_local = run_module.is_local(beam_options)
    folder = output if files.is_local(output) else tempfile.gettempdir()
    if is_local and warn is not None and (message := _shortage(plan, output, folder)):
        warn(message)
    try:
        yield
    except DataError as error:
        is_full = is_local and any(text in str(error) for text in _DISK_FULL_TEXTS)
        needed = estimate_disk_space(plan, output, folder) if is_full else None
        if needed is None:
            raise
        free = show_bytes(files.free_bytes(folder))
        raise DataError(
            f"{error}\n{folder}: {needed.describe()}; {free} are free there now, without what the "
            "run had written."
        ) from error


def _shortage(plan: Plan, output: str, folder: str) -> str:
    """Returns a warning if the disk is too small, or ""."""
    free = files.free_bytes(folder)
    needed = (
        estimate_disk_space(plan, output, folder)
        if free < CHECK_BELOW_FACTOR * plan.size_bytes
        else None
    )
    if needed is None or free >= (1 - _ESTIMATE_ERROR) * (
        needed.temporary_bytes + needed.shard_bytes
    ):
        return ""
    cure = "another --output" if folder == output else "another folder for temporary files (TMPDIR)"
    return (
        f"{folder}: {needed.describe()}; found {show_bytes(free)} free. It starts all the same: "
        f"make room on the disk, or stop it and choose {cure}."
    )


def estimate_disk_space(plan: Plan, output: str, folder: str) -> DiskSpace | None:
    """Estimates the disk space of a conversion.

    Args:
      plan: of the conversion.
      output: folder of the dataset.
      folder: for temporary files.

    Returns:
      ``None`` if the data cannot be previewed; the run reports why.
    """
    try:
        scale = make_scale(plan, make_preview(plan, _PREVIEWED_FILES))
    except Exception:  # noqa: BLE001 - a failed estimate must not fail the run
        return None
    return DiskSpace(
        folder, scale.temporary_bytes, scale.shard_bytes if files.is_local(output) else 0.0
    )
