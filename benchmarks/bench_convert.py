"""Measures a whole conversion, and a tutorial's loop, in one run.

Each runs in its own process, so start-up counts. The loop's speed does not depend on the rows, so
it gets fewer of them. The table gives the loop's rate with its start-up and without it. Memory is
the proportional set size (PSS: processes that share a page split it between them), summed over the
process and all its descendants, and sampled 4 times a second. The peak is the largest sample. CPU
seconds are user and system time of the same processes: the last sample before each process ended,
or the system's count for processes that were waited for, whichever is more.

The conversion and the loop take turns, and the table gives the run of median wall time of each.
Other work on the machine slows both, but not equally. The load is printed, so that a reader can
tell which numbers come from a busy machine.

  python benchmarks/bench_convert.py --rows 1000000 --workers 2
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import resource
import subprocess
import sys
import time
from typing import NamedTuple

import psutil

import criteo_like

HERE = pathlib.Path(__file__).resolve().parent
SAMPLES_PER_SECOND = 4
RECIPE = """\
name: clicks
sources: {{clicks: {{path: {path}}}}}
label: label
output: {{compression: gzip, shuffle_seed: 7}}
"""
# The plain table, and the same table with the most expensive split: by a hash of every cell of a
# row.
RECIPE_FOR_NAME = {
    "convert": RECIPE,
    "convert, split by whole row": RECIPE + "split: {{train: 0.9, eval: 0.1}}\n",
}


class Measured(NamedTuple):
    """The cost of one command.

    Attributes:
      wall_seconds: from its start to its end.
      cpu_seconds: of all its processes.
      peak_bytes: largest sampled sum of PSS over all its processes.
      output: its standard output.
    """

    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: str


def measure(command: list[str], log: pathlib.Path) -> Measured:
    """Runs a command and samples its memory and CPU time.

    The command writes its output to ``log``.

    Raises:
      SystemExit: the command failed.
    """
    cpu_seconds: dict[tuple[int, float], float] = {}
    peak_bytes = 0
    start, ended = time.perf_counter(), ended_cpu_seconds()
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, text=True)
        root = psutil.Process(process.pid)
        while process.poll() is None:
            peak_bytes = max(peak_bytes, sample(root, cpu_seconds))
            with contextlib.suppress(
                subprocess.TimeoutExpired
            ):  # the end is not to wait for the next sample
                process.wait(1 / SAMPLES_PER_SECOND)
    wall_seconds = time.perf_counter() - start
    text = log.read_text()
    if process.returncode:
        sys.exit(f"{' '.join(command)}\nended with exit status {process.returncode}:\n{text}")
    cpu = max(sum(cpu_seconds.values()), ended_cpu_seconds() - ended)
    return Measured(wall_seconds, cpu, peak_bytes, text)


def ended_cpu_seconds() -> float:
    """Returns the CPU time of all ended and awaited descendants."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def sample(root: psutil.Process, cpu_seconds: dict[tuple[int, float], float]) -> int:
    """Notes CPU times under ``root`` and returns the summed PSS in bytes."""
    total = 0
    try:
        processes = [root, *root.children(recursive=True)]
    except psutil.Error:
        return 0
    for process in processes:
        try:
            times = process.cpu_times()
            cpu_seconds[process.pid, process.create_time()] = times.user + times.system
            total += process.memory_full_info().pss
        except psutil.Error:  # it ended between being listed and being looked at
            continue
    return total


def table_rows(
    rows: int, loop: Measured, loop_rows: int, converts: dict[str, Measured]
) -> list[list[str]]:
    """Returns the report's lines.

    The cells are name, rows, wall time, rows/s, ratio to the loop without start-up, CPU and memory.
    """
    report = json.loads(loop.output.splitlines()[-1])
    pure_seconds = report["seconds"]
    pure_rate = loop_rows / pure_seconds

    def line(name: str, rows: int, seconds: float, measured: Measured | None) -> list[str]:
        cpu = f"{measured.cpu_seconds:.1f}" if measured else ""
        memory = f"{measured.peak_bytes / 1e9:.2f}" if measured else ""
        rate = rows / seconds
        return [
            name,
            f"{rows:,}",
            f"{seconds:.1f}",
            f"{rate:,.0f}",
            f"{rate / pure_rate:.1f}",
            cpu,
            memory,
        ]

    return [
        line("loop, start-up included", loop_rows, loop.wall_seconds, loop),
        line("loop, start-up excluded", loop_rows, pure_seconds, None),
        *(
            line(f"beam-pipelines {name}, start-up included", rows, convert.wall_seconds, convert)
            for name, convert in converts.items()
        ),
    ]


def median_run(runs: list[Measured]) -> Measured:
    """Returns the run of median wall time.

    Of an even number of runs, it returns the slower of the two in the middle.
    """
    return sorted(runs, key=lambda run: run.wall_seconds)[len(runs) // 2]


def print_table(lines: list[list[str]]) -> None:
    """Prints a Markdown table."""
    header = [
        "",
        "rows",
        "wall s",
        "rows/s",
        "× the loop without start-up",
        "CPU s",
        "peak PSS, GB",
    ]
    print("| " + " | ".join(header) + " |")
    print("|---" + "|---:" * (len(header) - 1) + "|")
    for line in lines:
        print("| " + " | ".join(line) + " |")


def main() -> None:
    """Makes missing data, measures both, prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--loop_rows", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--folder", type=pathlib.Path, default=pathlib.Path(".bench"), help="for data and output"
    )
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    data = folder / f"clicks-{arguments.rows}.csv"
    if not data.exists():
        criteo_like.write(data, arguments.rows, seed=7)
    loop_rows = min(arguments.loop_rows, arguments.rows)
    tutorial = [
        sys.executable,
        str(HERE / "tutorial_loop.py"),
        "--input",
        str(data),
        "--rows",
        str(loop_rows),
    ]
    tutorial += ["--output", str(folder / "loop.tfrecord.gz")]
    command = [
        str(pathlib.Path(sys.executable).with_name("beam-pipelines")),
        "convert",
        "--overwrite",
    ]
    command += ["--output", str(folder / "clicks"), f"--direct_num_workers={arguments.workers}"]
    recipe = folder / "recipe.yaml"
    load = os.getloadavg()[0]
    runs: dict[str, list[Measured]] = {"loop": [], **{name: [] for name in RECIPE_FOR_NAME}}
    for _ in range(arguments.repeats):
        runs["loop"].append(measure(tutorial, folder / "loop.log"))
        for name, text in RECIPE_FOR_NAME.items():
            recipe.write_text(text.format(path=data))
            runs[name].append(measure([*command, str(recipe)], folder / "convert.log"))

    print(
        f"{data.stat().st_size / 1e6:,.0f} MB of CSV, {os.cpu_count()} cores, {arguments.workers} "
        f"workers, load {load:.1f} before"
    )
    for name, measured in runs.items():
        print(
            f"{name}: {arguments.repeats} runs of "
            f"{', '.join(f'{run.wall_seconds:.1f}' for run in measured)} s"
        )
    print()
    loop, *converts = (median_run(measured) for measured in runs.values())
    print_table(
        table_rows(
            arguments.rows, loop, loop_rows, dict(zip(RECIPE_FOR_NAME, converts, strict=True))
        )
    )


if __name__ == "__main__":
    main()
