"""The measurements of ``compare.py`` that concern our conversion only.

They are its distance from the kernels' time, its scaling, its start and its memory.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from bench_convert import Measured, measure, median_run
from contenders import COMMAND, HERE, Job, recipe_text
from measuring import print_line

GZIP = Job("csv", "gzip", statistics=True)
# By our levels of gzip: the name, and the kernel of ideal.py.
KERNEL_FOR_LEVEL = {None: ("our default", "gzip"), 6: ("gzip 6", "gzip 6")}
BEFORE_COMPRESSION = ("parse", "statistics", "serialize")
DataFile = Callable[[pathlib.Path, int, str], pathlib.Path]
POLL_SECONDS = 0.002


def convert(
    folder: pathlib.Path, data: pathlib.Path, workers: int, level: int | None = None, *more: str
) -> list[str]:
    """Returns the command that converts a table to shuffled gzip records.

    It computes statistics and writes into a new folder.
    """
    output = folder / "compare" / "ours"
    shutil.rmtree(output, ignore_errors=True)
    output.parent.mkdir(parents=True, exist_ok=True)
    recipe = output.with_suffix(".yaml")
    recipe.write_text(recipe_text(GZIP, data, level))
    return [
        COMMAND,
        "convert",
        str(recipe),
        "--output",
        str(output),
        f"--direct_num_workers={workers}",
        *more,
    ]


def warm(path: pathlib.Path) -> None:
    """Reads a file, so that it is in the page cache."""
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass


def run_once(arguments: argparse.Namespace, data: pathlib.Path, *options: object) -> Measured:
    """Converts once, with the file in the page cache.

    ``options`` are those of ``convert`` after the file.
    """
    warm(data)
    command = convert(arguments.folder, data, *options)  # type: ignore[arg-type]
    return measure(command, arguments.folder / "compare" / "ours.log")


def print_header(*cells: str) -> None:
    """Prints the head of a Markdown table."""
    print_line(cells)
    print("|---" + "|---:" * (len(cells) - 1) + "|")


def ideal(arguments: argparse.Namespace, data_file: DataFile) -> None:
    """Prints wall time next to the kernels' time divided by the cores.

    The source counts once, as in our conversion, and twice, as in a design without kept rows.
    """
    data = data_file(arguments.folder, arguments.rows, "csv")
    runs: dict[int | None, list[Measured]] = {level: [] for level in KERNEL_FOR_LEVEL}
    for _ in range(arguments.repeats):
        for level in KERNEL_FOR_LEVEL:
            runs[level].append(run_once(arguments, data, arguments.cores, level))
    command = [
        sys.executable,
        str(HERE / "ideal.py"),
        "--rows",
        str(arguments.rows),
        "--repeats",
        str(arguments.repeats),
    ]
    log = arguments.folder / "compare" / "ideal.log"
    took = json.loads(
        measure([*command, "--folder", str(arguments.folder)], log).output.splitlines()[-1]
    )
    print(
        f"\n### Beside the ideal: {arguments.rows:,} rows, kernels alone in one thread, divided by "
        f"{arguments.cores}\n"
    )
    print_header(
        "",
        "parse s",
        "statistics s",
        "serialize s",
        "gzip s",
        "ideal s",
        "ours, wall s",
        "×",
        "ideal s, parsed twice",
        "×",
    )
    for level, (name, kernel) in KERNEL_FOR_LEVEL.items():
        parts = [took[part]["wall"] for part in (*BEFORE_COMPRESSION, kernel)]
        once, twice = sum(parts) / arguments.cores, (sum(parts) + parts[0]) / arguments.cores
        wall = median_run(runs[level]).wall_seconds
        figures = (*parts, once, wall, wall / once, twice, wall / twice)
        print_line([name, *(f"{figure:.2f}" for figure in figures)])
    busy = [name for name, timed in took.items() if timed["wall"] > 1.1 * timed["cpu"]]
    if busy:
        print(
            f"\nThe machine was busy: {', '.join(busy)} took over a tenth longer than its CPU "
            "time. Measure again."
        )


def scaling(arguments: argparse.Namespace, data_file: DataFile) -> None:
    """Prints rows a second with one worker and with all.

    The rate is the difference of the rows of two sizes, divided by that of their seconds.

    Each gets as many cores as it has workers: a worker alone would use a second one for its
    threads. Start-up and end do not grow with the rows. They are the same in both sizes and drop
    out of the difference, so nothing has to know when one ends and the other begins. The larger
    size has several times the rows of the smaller, because the errors of both add up in the
    difference.
    """
    available = sorted(os.sched_getaffinity(0))
    small, large = arguments.scaling_rows
    seconds: dict[tuple[int, int], list[float]] = {}
    for _ in range(arguments.repeats):
        for workers in (1, arguments.cores):
            mode = [f"--direct_running_mode={arguments.running_mode}"] if workers > 1 else []
            os.sched_setaffinity(0, available[:workers])
            for rows in (small, large):
                run = run_once(
                    arguments, data_file(arguments.folder, rows, "csv"), workers, None, *mode
                )
                seconds.setdefault((workers, rows), []).append(run.wall_seconds)
    os.sched_setaffinity(0, available)
    took = {key: statistics.median(found) for key, found in seconds.items()}
    print(
        f"\n### Workers: each with a core, start-up excluded, by the difference of {small:,} and "
        f"{large:,} rows ({arguments.running_mode})\n"
    )
    print_header(
        "workers", f"{small:,} rows, s", f"{large:,} rows, s", "rows/s between them", "× one worker"
    )
    rates = {
        workers: (large - small) / (took[workers, large] - took[workers, small])
        for workers in (1, arguments.cores)
    }
    for workers, rate in rates.items():
        times = [f"{took[workers, rows]:.2f}" for rows in (small, large)]
        print_line([str(workers), *times, f"{rate:,.0f}", f"{rate / rates[1]:.2f}"])


def start(arguments: argparse.Namespace, data_file: DataFile) -> None:
    """Prints the time from the command's start to a worker's first batch."""
    data = data_file(arguments.folder, arguments.rows, "csv")
    modes = {
        mode: [f"--direct_running_mode={mode}"] if mode else []
        for mode in ("", "multi_processing", "multi_threading")
    }
    found: dict[str, list[float]] = {mode: [] for mode in modes}
    for _ in range(arguments.repeats):
        for mode, options in modes.items():
            warm(data)
            found[mode].append(
                first_batch(
                    convert(arguments.folder, data, arguments.cores, None, *options),
                    arguments.folder,
                )
            )
    print(
        f"\n### Start: seconds to the first batch read, {arguments.cores} workers, "
        f"{arguments.rows:,} rows\n"
    )
    print_header("running mode", "median s", "all runs")
    for mode, times in found.items():
        print_line(
            [
                mode or "as chosen by size",
                f"{statistics.median(times):.2f}",
                ", ".join(f"{time:.2f}" for time in times),
            ]
        )


def first_batch(command: Sequence[str], folder: pathlib.Path) -> float:
    """Starts a conversion; returns the seconds until its first progress note.

    The note is that of beam_pipelines/runners/progress.py. The function waits for the end of the
    conversion.

    Raises:
      SystemExit: the conversion failed.
    """
    notes = folder / "compare" / "ours" / "_temporary" / "progress"
    seconds = 0.0
    begin = time.perf_counter()
    with (folder / "compare" / "ours.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        while process.poll() is None:
            if not seconds and has_note(notes):
                seconds = time.perf_counter() - begin
            time.sleep(POLL_SECONDS)
    if process.returncode or not seconds:
        sys.exit(
            f"{' '.join(command)}\nended with exit status {process.returncode} and "
            f"{'a' if seconds else 'no'} first batch"
        )
    return seconds


def has_note(folder: pathlib.Path) -> bool:
    """Whether a worker has noted progress."""
    try:
        return any(entry.stat().st_size for entry in os.scandir(folder))
    except FileNotFoundError:
        return False


def memory(arguments: argparse.Namespace, data_file: DataFile) -> None:
    """Prints the peak memory of all processes at two sizes.

    It must not grow with the rows.
    """
    runs: dict[int, list[Measured]] = {arguments.rows: [], arguments.large_rows: []}
    for rows, found in runs.items():
        repeats = arguments.repeats if rows == arguments.rows else 1
        found.extend(
            run_once(arguments, data_file(arguments.folder, rows, "csv"), arguments.cores)
            for _ in range(repeats)
        )
    print("\n### Memory: csv to gzip, statistics\n")
    print_header("rows", "wall s", "rows/s", "CPU s", "peak PSS, GB, largest of all runs")
    for rows, found in runs.items():
        run, peak = median_run(found), max(run.peak_bytes for run in found)
        rate = f"{rows / run.wall_seconds:,.0f}"
        print_line(
            [
                f"{rows:,}",
                f"{run.wall_seconds:.1f}",
                rate,
                f"{run.cpu_seconds:.1f}",
                f"{peak / 1e9:.2f}",
            ]
        )


PARTS = {"ideal": ideal, "scaling": scaling, "start": start, "memory": memory}
