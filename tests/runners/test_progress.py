"""Tests of noting progress in workers and showing it in the launcher."""

from __future__ import annotations

import io
import multiprocessing
import pathlib
import pickle
import re
import shutil
import threading
import time
from contextlib import redirect_stderr

import pytest

from beam_pipelines.runners import progress
from beam_pipelines.runners.progress import Phases, ProgressLog, Totals, show_progress


class Terminal(io.StringIO):
    """A text stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def note(folder: str, times: int) -> None:
    log = ProgressLog(folder)
    for _ in range(times):
        log.add(rows=3, size_bytes=100, kind="read")
        log.add(rows=2, size_bytes=0, kind="kept")
    log.add(rows=7, size_bytes=50, kind="written")
    log.add(rows=1, size_bytes=0, kind="packed")


def test_totals_over_threads_and_processes(tmp_path: pathlib.Path) -> None:
    """The notes of threads and processes are added up without loss."""
    folder = str(tmp_path / "progress")
    log = pickle.loads(pickle.dumps(ProgressLog(folder)))  # noqa: S301 - as Beam sends it to workers
    note(folder, 1)
    workers = [
        multiprocessing.get_context("spawn").Process(target=note, args=(folder, 200))
        for _ in range(2)
    ]
    workers += [threading.Thread(target=note, args=(folder, 200)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert log.totals() == Totals(3 * 1201, 100 * 1201, 7 * 7, 50 * 7, 7, 2 * 1201, 7)
    assert len(list((tmp_path / "progress").iterdir())) == 3
    log.close()


def test_record_in_the_making_is_left_for_later(tmp_path: pathlib.Path) -> None:
    """A partial record does not disturb the sum."""
    log = ProgressLog(str(tmp_path))
    log.add(5, 6, "read")
    log.close()
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes() + b"\0\1\2")
    assert log.totals() == Totals(5, 6, 0, 0, 0)


@pytest.mark.parametrize("folder", ["", "/dev/null/no-folder"])
def test_nowhere_to_note(folder: str) -> None:
    """Notes without a folder, or with a read-only one, are dropped silently."""
    log = ProgressLog(folder)
    log.add(1, 1, "read")
    assert log.totals() == Totals()


def texts(*seen: tuple[float, Totals], total_bytes: int = 620_000_000) -> list[str]:
    """Returns the texts at some times."""
    phases = Phases(total_bytes)
    return [phases.find(totals, now)[0] for now, totals in seen]


def test_phases_have_rates_of_their_own() -> None:
    """The rate of a phase does not count the time before it."""
    read = Totals(rows_read=1_200_000, bytes_read=620_000_000, rows_kept=1_000_000)
    assert texts(
        (0, Totals()),
        (5, Totals(rows_read=100_000, bytes_read=62_000_000)),
        (10, Totals(rows_read=600_000, bytes_read=310_000_000, rows_kept=500_000)),
        (20, read),
        (40, read._replace(rows_packed=100_000)),
        (44, read._replace(rows_packed=300_000, shards=1)),
        (60, read._replace(rows_packed=1_000_000, shards=3)),
    ) == [
        "starting",
        "reading: 100,000 rows, 62.0 of 620.0 MB (10%)",
        "reading: 600,000 rows, 310.0 of 620.0 MB (50%), 100,000 rows/s, 6.2 s left",
        "fitting: 1,200,000 rows read, 1,000,000 kept",
        "writing: 100,000 of 1,000,000 rows (10%)",
        "writing: 300,000 of 1,000,000 rows (30%), 50,000 rows/s, 14 s left, 1 shard written",
        "finishing: 1,000,000 of 1,000,000 rows (100%), 3 shards written",
    ]


def test_the_rate_is_that_of_the_last_seconds() -> None:
    """A long pause does not slow the rate down for good."""
    seen = [
        (second, Totals(rows_read=rows, bytes_read=rows))
        for second, rows in ((0, 1), (10, 1001), (3600, 2001), (3620, 4001), (3640, 6001))
    ]
    assert texts(*seen, total_bytes=10_001)[-1] == (
        "reading: 6,001 rows, 0.0 of 0.0 MB (60%), 100 rows/s, 40 s left"
    )


@pytest.mark.parametrize(
    ("totals", "total_bytes", "text"),
    [
        (Totals(rows_read=5, bytes_read=15), 10, "fitting: 5 rows read, 0 kept"),
        (Totals(rows_read=5), 0, "fitting: 5 rows read, 0 kept"),
        (Totals(rows_read=5), 10, "reading: 5 rows, 0.0 of 0.0 MB (0%)"),
        (Totals(rows_packed=7, rows_kept=5), 0, "finishing: 7 of 5 rows (100%)"),
    ],
)
def test_numbers_that_do_not_add_up(totals: Totals, total_bytes: int, text: str) -> None:
    """Tasks that an engine repeats, and sources without bytes, break nothing."""
    assert texts((0, totals), total_bytes=total_bytes) == [text]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows progress more often than people want it."""
    monkeypatch.setattr(progress, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.05)


def until_shown(stream: io.StringIO, pattern: str) -> None:
    """Waits until a stream has what a pattern finds."""
    end = time.monotonic() + 120
    while not re.search(pattern, stream.getvalue()):
        assert time.monotonic() < end, stream.getvalue()
        time.sleep(0.01)


@pytest.mark.usefixtures("quick")
def test_lines_in_a_log(tmp_path: pathlib.Path) -> None:
    """A stream that is no terminal gets whole lines.

    It gets no more of them than the interval allows.
    """
    stream, log = io.StringIO(), ProgressLog(str(tmp_path))
    start = time.monotonic()
    with redirect_stderr(stream), show_progress(log, 1000):
        log.add(10, 500, "read")
        until_shown(stream, "(.*\n){3}")
    lines = stream.getvalue().splitlines()
    assert len(lines) <= (time.monotonic() - start) / 0.05
    assert all(re.fullmatch(r"reading: 10 rows, .*\(50%\).* rows/s.*", line) for line in lines)


def test_short_run_prints_nothing_in_a_log(tmp_path: pathlib.Path) -> None:
    """A run of less than ten seconds logs no lines."""
    stream = io.StringIO()
    with redirect_stderr(stream), show_progress(ProgressLog(str(tmp_path)), 1000):
        time.sleep(0.05)
    assert stream.getvalue() == ""


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("width", "bar"), [(100, "━{12}─{12} "), (60, "━{6}─{6} "), (50, "━{3}─{3} "), (45, "")]
)
def test_bar_on_a_terminal(width, bar, tmp_path, monkeypatch):
    """A terminal gets a bar of the room that words leave.

    The bar is gone in the end.
    """
    monkeypatch.setenv("COLUMNS", str(width))
    stream, log = Terminal(), ProgressLog(str(tmp_path))
    with redirect_stderr(stream), show_progress(log, 1000):
        log.add(10, 500, "read")
        until_shown(stream, f"{bar}reading: 10 rows")
    *drawn, last = stream.getvalue().split("\r\x1b[K")[1:]
    assert last == ""
    assert max(map(len, drawn)) < shutil.get_terminal_size().columns


@pytest.mark.usefixtures("quick")
def test_a_terminal_without_escapes_gets_lines(tmp_path, monkeypatch):
    """Nothing is redrawn where the terminal says that it cannot."""
    monkeypatch.setenv("TERM", "dumb")
    stream, log = Terminal(), ProgressLog(str(tmp_path))
    with redirect_stderr(stream), show_progress(log, 1000):
        until_shown(stream, "\n")
    assert "\x1b" not in stream.getvalue()


@pytest.mark.usefixtures("quick")
def test_quiet_and_errors_leave_no_thread(tmp_path: pathlib.Path) -> None:
    """Nothing is shown when quiet.

    An error in the body passes through, and the thread ends.
    """
    stream = io.StringIO()
    with redirect_stderr(stream), show_progress(ProgressLog(str(tmp_path)), 1000, quiet=True):
        time.sleep(0.1)
    with (
        redirect_stderr(stream),
        pytest.raises(KeyError),
        show_progress(ProgressLog(str(tmp_path)), 1000),
    ):
        raise KeyError
    assert stream.getvalue() == ""
    assert "progress" not in {thread.name for thread in threading.enumerate()}
