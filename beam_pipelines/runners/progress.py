"""Records the progress of a run and shows it.

Local workers append records to files, and the launcher shows their sums. Workers may be threads or
processes, and Beam's runners do not report progress. Each process appends records of fixed size to
its own file, one small write a chunk or shard; the launcher reads the files as they grow. A record
that cannot be written is dropped, and the run goes on.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import shutil
import struct
import sys
import threading
import time
from collections.abc import Iterator
from typing import Literal, NamedTuple

from beam_pipelines.core.formatting import show_secs

# Rows as they are read, those that are left for the splits, as they are serialized,
# compressed and written, and of whole shards.
Kind = Literal["read", "written", "kept", "packed"]

_CODE_FOR_KIND: dict[Kind, int] = {"read": 0, "written": 1, "kept": 2, "packed": 3}
# kind, rows, bytes
_RECORD = struct.Struct("<Bqq")
_SUFFIX = ".progress"
# The first that leaves room for the text.
_BAR_WIDTHS = (24, 12, 6)
_ERASE_LINE = "\x1b[K"

POLL_SECONDS = 0.5
LINE_SECONDS = 10.0
# A rate is that of the last seconds, of one phase.
_RATE_SECONDS = 30.0
# (process, folder) -> file descriptor. A fork has another key, so that processes share no file.
_descriptors: dict[tuple[int, str], int] = {}
_lock = threading.Lock()


class Totals(NamedTuple):
    """Rows, bytes and shards that all processes have read or written.

    Attributes:
      rows_read, bytes_read: of the base source.
      rows_written, bytes_written, shards: of complete shards.
      rows_kept: of all splits, after joins and filter.
      rows_packed: serialized, compressed, and in their shards' files.
    """

    rows_read: int = 0
    bytes_read: int = 0
    rows_written: int = 0
    bytes_written: int = 0
    shards: int = 0
    rows_kept: int = 0
    rows_packed: int = 0


@dataclasses.dataclass(frozen=True)
class ProgressLog:
    """Appends and sums progress records.

    The object is small, picklable and the same for all workers.

    Attributes:
      folder: a local folder; empty: no progress is recorded (workers on other machines).
    """

    folder: str

    def add(self, rows: int, size_bytes: int, kind: Kind) -> None:
        """Records the rows of one chunk, or one shard that was written."""
        if not self.folder:
            return
        with contextlib.suppress(OSError):
            # Appends of 17 bytes by several threads do not interleave.
            os.write(self._descriptor(), _RECORD.pack(_CODE_FOR_KIND[kind], rows, size_bytes))

    def _descriptor(self) -> int:
        key = (os.getpid(), self.folder)
        with _lock:
            if key not in _descriptors:
                os.makedirs(self.folder, exist_ok=True)
                path = os.path.join(self.folder, f"{key[0]}{_SUFFIX}")
                _descriptors[key] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            return _descriptors[key]

    def totals(self) -> Totals:
        """Returns the sums of the records of all processes."""
        rows, sizes, numbers = ([0] * len(_CODE_FOR_KIND) for _ in range(3))
        for data in self._files():
            for kind, row_count, size in _RECORD.iter_unpack(
                data[: len(data) // _RECORD.size * _RECORD.size]
            ):
                rows[kind] += row_count
                sizes[kind] += size
                numbers[kind] += 1
        return Totals(rows[0], sizes[0], rows[1], sizes[1], numbers[1], *rows[2:])

    def _files(self) -> Iterator[bytes]:
        with contextlib.suppress(OSError):
            for entry in os.scandir(self.folder):
                if entry.name.endswith(_SUFFIX):
                    with open(entry.path, "rb") as file:
                        yield file.read()

    def close(self) -> None:
        """Closes this process's file of the folder, if it has one."""
        with _lock:
            descriptor = _descriptors.pop((os.getpid(), self.folder), None)
        if descriptor is not None:
            os.close(descriptor)


@contextlib.contextmanager
def show_progress(log: ProgressLog, total_bytes: int, quiet: bool = False) -> Iterator[None]:
    """Shows progress on standard error while the body runs.

    A terminal shows a bar. Other streams get a line every 10 s. Standard output is the command's
    result.

    Args:
      log: of the workers.
      total_bytes: bytes of all sources, times how often they are read.
      quiet: show nothing.
    """
    if quiet or not log.folder:
        yield
        return
    is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    phases, stop, last = Phases(total_bytes), threading.Event(), time.monotonic()

    def update() -> None:
        nonlocal last
        now = time.monotonic()
        text, share = phases.find(log.totals(), now)
        if is_terminal:
            _draw(text, share)
        elif now - last >= LINE_SECONDS:
            last = now
            sys.stderr.write(f"{text}\n")

    def poll() -> None:
        while not stop.wait(POLL_SECONDS):
            update()

    thread = threading.Thread(target=poll, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        update()
        if is_terminal:
            _draw("", 0)
        log.close()


def _draw(text: str, share: float) -> None:
    """Writes a bar and a text over the current line."""
    # A line that fills the terminal would begin another.
    room = shutil.get_terminal_size().columns - 1
    width = next((one for one in _BAR_WIDTHS if text and one + 1 + len(text) <= room), 0)
    done = round(width * min(share, 1))
    line = f"{'━' * done}{'─' * (width - done)} {text}" if width else text
    sys.stderr.write(f"\r{_ERASE_LINE}{line[:room]}")
    sys.stderr.flush()


class Phases:
    """Tells the phases of a run apart, with the rate of each."""

    def __init__(self, total_bytes: int) -> None:
        self._total_bytes = total_bytes
        self._name = ""
        # (time, rows, share) within the phase, of the last seconds.
        self._seen: collections.deque[tuple[float, int, float]] = collections.deque()

    def find(self, totals: Totals, now: float) -> tuple[str, float]:
        """Returns the progress in words, and the share done of the phase.

        Args:
          totals: so far.
          now: seconds.
        """
        name, rows, share, text = _phase_of(totals, self._total_bytes)
        if name != self._name:
            self._name = name
            self._seen.clear()
        self._seen.append((now, rows, share))
        while len(self._seen) > 2 and now - self._seen[1][0] >= _RATE_SECONDS:
            self._seen.popleft()
        then, rows_then, share_then = self._seen[0]
        secs = now - then
        if secs > 0 and name in ("reading", "writing"):
            text += f", {(rows - rows_then) / secs:,.0f} rows/s"
            if share_then < share < 1:
                text += f", {show_secs((1 - share) * secs / (share - share_then))} left"
        if totals.shards:
            text += f", {totals.shards:,} shard{'' if totals.shards == 1 else 's'} written"
        return text, share


def _phase_of(totals: Totals, total_bytes: int) -> tuple[str, int, float, str]:
    """Returns a phase: its name, rows, share done, and words."""
    if rows := totals.rows_packed:
        share = min(1.0, rows / max(totals.rows_kept, 1))
        name = "finishing" if share == 1 else "writing"
        return name, rows, share, f"{name}: {rows:,} of {totals.rows_kept:,} rows ({share:.0%})"
    rows, done = totals.rows_read, totals.bytes_read
    if not (rows or done):
        return "starting", 0, 0.0, "starting"
    share = min(1.0, done / total_bytes) if total_bytes else 1.0
    if share == 1:
        return "fitting", rows, share, f"fitting: {rows:,} rows read, {totals.rows_kept:,} kept"
    size = f"{done / 1e6:,.1f} of {total_bytes / 1e6:,.1f} MB"
    return "reading", rows, share, f"reading: {rows:,} rows, {size} ({share:.0%})"
