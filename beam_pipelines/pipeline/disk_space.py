"""Room on this machine's disk: what a conversion is estimated to need, said before it starts where
there is too little, and again when the disk is full.

An estimate costs a preview of the data. So it is made only where less is free than
``CHECK_BELOW_FACTOR`` times what the sources take on disk.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import NamedTuple

from beam_pipelines.core import files
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.formatting import show_bytes
from beam_pipelines.pipeline.estimate import make_scale
from beam_pipelines.pipeline.plan import Plan
from beam_pipelines.pipeline.preview import make_preview
from beam_pipelines.pipeline.run_options import RunOptions
from beam_pipelines.runners import run as run_module

# A table of text takes 2 to 3 times its size, of Parquet up to 10 times, what is compressed more.
CHECK_BELOW_FACTOR = 20
# Of what is needed, so much has to be missing that the estimate's own error does not explain it.
_TOLERANCE = 0.1
_PREVIEWED_FILES = 2
_FULL = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT))


class Room(NamedTuple):
    """What a conversion needs on a disk of this machine, as far as a preview of some rows tells.

    Attributes:
      folder: on that disk.
      temporary_bytes: of temporary files, at the moment when they are the most.
      shard_bytes: of shards, 0 if they are written elsewhere.
    """

    folder: str
    temporary_bytes: float
    shard_bytes: float

    def describe(self) -> str:
        """Returns
        ``the run is estimated to need 6.3 GB of disk in all, 4.2 GB of it for temporary files``.
        """
        total = self.temporary_bytes + self.shard_bytes
        return (
            f"the run is estimated to need {show_bytes(total)} of disk in all, "
            f"{show_bytes(self.temporary_bytes)} of it for temporary "
            "files that are removed at the end"
        )


@contextlib.contextmanager
def watched(
    plan: Plan, options: RunOptions, warn: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Says how much room the conversion inside needs: before it, where that is clearly too little,
    and when it fails because a disk is full.

    Args:
      plan, options: of the conversion.
      warn: tells the user; default: nobody is told before it fails.

    Raises:
      DataError: the one that is raised inside, with one more line if there is an estimate.
    """
    output = options.output
    beam_options = run_module.pipeline_options(options.beam_options, plan.size_bytes)
    is_local = run_module.is_local(beam_options)
    folder = output if files.is_local(output) else tempfile.gettempdir()
    if is_local and warn is not None and (message := _too_little(plan, output, folder)):
        warn(message)
    try:
        yield
    except DataError as error:
        is_full = is_local and any(text in str(error) for text in _FULL)
        room = estimate(plan, output, folder) if is_full else None
        if room is None:
            raise
        free = show_bytes(files.free_bytes(folder))
        raise DataError(
            f"{error}\n{folder}: {room.describe()}; {free} are free there now, without what the "
            "run had written."
        ) from error


def _too_little(plan: Plan, output: str, folder: str) -> str:
    """Returns what to tell the user if there is clearly too little room; else an empty text."""
    free = files.free_bytes(folder)
    room = estimate(plan, output, folder) if free < CHECK_BELOW_FACTOR * plan.size_bytes else None
    if room is None or free >= (1 - _TOLERANCE) * (room.temporary_bytes + room.shard_bytes):
        return ""
    cure = "another --output" if folder == output else "another folder for temporary files (TMPDIR)"
    return (
        f"{folder}: {room.describe()}; found {show_bytes(free)} free. It starts all the same: "
        f"make room on the disk, or stop it and choose {cure}."
    )


def estimate(plan: Plan, output: str, folder: str) -> Room | None:
    """Returns what a conversion needs on the disk of a folder, or ``None`` if its data cannot be
    previewed, which the run will explain.

    Args:
      plan, output: as of ``pipeline.convert``.
      folder: for temporary files.
    """
    try:
        scale = make_scale(plan, make_preview(plan, _PREVIEWED_FILES))
    except Exception:  # noqa: BLE001 - an estimate is no reason for a run to fail
        return None
    return Room(folder, scale.temporary_bytes, scale.shard_bytes if files.is_local(output) else 0.0)
