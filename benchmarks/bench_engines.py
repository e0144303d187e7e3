"""Measures the cost of a million rows on each engine.

It prints the table of docs/runners.md, which has Beam's local runner too. Each conversion is a
command of its own, at two sizes. A cluster starts before the first conversion and stops after the
last one. The difference of the CPU seconds, divided by the difference in rows, leaves out an
engine's start. Each size is measured several times in turns, and the least counts. CPU seconds are
the sum over all processes: the command, the engine's JVMs, the workers. Memory is the peak of the
proportional set size at the larger size, of the JVMs (or Prism) and of all other processes apart.

  python benchmarks/bench_engines.py --rows 1000000 --turns 2
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

import psutil
import pyarrow as pa
import pyarrow.csv

import criteo_like
from bench_convert import SAMPLES_PER_SECOND, ended_cpu_seconds

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from tests.engines import engines

SMALLER = 5  # times fewer rows
RECIPE = "name: clicks\nsources: {clicks: {path: %s}}\nsplit: {train: 0.9, eval: 0.1}\n"
STARTED_BY_COMMAND = {
    "local": (),
    "prism": ("--runner=PrismRunner", f"--prism_location={engines.PRISM}"),
    "flink": (
        "--runner=FlinkRunner",
        f"--flink_job_server_jar={engines.FLINK_JOB_SERVER}",
        "--parallelism=2",
    ),
    "spark": (
        "--runner=SparkRunner",
        f"--spark_job_server_jar={engines.SPARK_JOB_SERVER}",
        "--spark_master_url=local[2]",
    ),
}
CLUSTERS = {"flink_cluster": engines.flink_cluster, "spark_cluster": engines.spark_cluster}
TITLES = {
    "local": "Beam's local runner, 2 processes",
    "prism": "Prism",
    "flink": "Flink inside its job server",
    "spark": "Spark inside its job server",
    "flink_cluster": "Flink cluster, 2 TaskManagers",
    "spark_cluster": "Spark cluster, 2 workers",
}


class Usage(NamedTuple):
    """The cost of one conversion.

    These are CPU seconds, wall seconds, and the peak bytes of the engine and of all other
    processes.
    """

    cpu_seconds: float
    wall_seconds: float
    engine_bytes: int
    other_bytes: int

    def best(self, other: Usage) -> Usage:
        """Returns the least of both, figure by figure."""
        return Usage(*map(min, zip(self, other, strict=True)))


@contextlib.contextmanager
def running(name: str) -> Iterator[tuple[str, ...]]:
    """Starts a cluster if need be, and yields the engine's options."""
    if name in STARTED_BY_COMMAND:
        yield STARTED_BY_COMMAND[name]
        return
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        CLUSTERS[name](pathlib.Path(folder)) as engine,
    ):
        yield engine.options


def convert(options: tuple[str, ...], recipe: pathlib.Path, output: pathlib.Path) -> Usage:
    """Converts once."""
    before, start = cpu_seconds(), time.perf_counter()
    engine_bytes = other_bytes = 0
    command = [
        sys.executable,
        "-m",
        "beam_pipelines",
        "convert",
        str(recipe),
        "--output",
        str(output),
    ]
    process = subprocess.Popen([*command, "--overwrite", "--quiet", *options])
    while process.poll() is None:
        engine, others = sample()
        engine_bytes, other_bytes = max(engine_bytes, engine), max(other_bytes, others)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1 / SAMPLES_PER_SECOND)
    wall_seconds = time.perf_counter() - start
    if process.returncode:
        sys.exit(f"{shlex.join(process.args)} ended with exit status {process.returncode}")
    return Usage(cpu_seconds() - before, wall_seconds, engine_bytes, other_bytes)


def cpu_seconds() -> float:
    """Returns the CPU time of all running and all awaited descendants."""
    total = ended_cpu_seconds()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            total += sum(
                process.cpu_times()[:4]
            )  # its own, and that of its children that it has waited for
    return total


def sample() -> tuple[int, int]:
    """Returns the bytes of the engine's processes and of all other descendants."""
    sizes = {True: 0, False: 0}
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            sizes[process.name() in ("java", "prism")] += process.memory_full_info().pss
    return sizes[True], sizes[False]


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument(
        "--engines", nargs="+", default=[*STARTED_BY_COMMAND, *CLUSTERS], choices=[*TITLES]
    )
    arguments = parser.parse_args()
    names = list(dict.fromkeys(["local", *arguments.engines]))
    sizes = (arguments.rows // SMALLER, arguments.rows)
    found: dict[tuple[str, int], Usage] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for rows in sizes:
            table = pa.concat_tables(criteo_like.chunks(rows, seed=1))
            pa.csv.write_csv(table, folder / f"clicks-{rows}.csv")
            (folder / f"{rows}.yaml").write_text(RECIPE % (folder / f"clicks-{rows}.csv"))
        with contextlib.ExitStack() as stack:
            options = {engine: stack.enter_context(running(engine)) for engine in names}
            for _ in range(arguments.turns):
                for engine, rows in itertools.product(names, sizes):
                    usage = convert(options[engine], folder / f"{rows}.yaml", folder / "out")
                    found[engine, rows] = usage.best(found.get((engine, rows), usage))
                    print(engine, rows, *map("{:,.1f}".format, usage), file=sys.stderr, flush=True)
    print_table(names, sizes, found)


def print_table(
    names: list[str], sizes: tuple[int, int], found: dict[tuple[str, int], Usage]
) -> None:
    """Prints a Markdown table."""
    small, large = sizes
    print(
        f"| | {large:,} rows, wall s | CPU s a million rows | × the local runner | engine, GB | "
        "workers and command, GB |"
    )
    print("|---|---:|---:|---:|---:|---:|")

    def cost(name: str) -> float:
        return (
            (found[name, large].cpu_seconds - found[name, small].cpu_seconds)
            * 1e6
            / (large - small)
        )

    for name in names:
        usage = found[name, large]
        figures = [
            f"{usage.wall_seconds:.1f}",
            f"{cost(name):.1f}",
            f"{cost(name) / cost('local'):.2f}",
        ]
        figures += [f"{size / 1e9:.2f}" for size in usage[2:]]
        print("| " + " | ".join([TITLES[name], *figures]) + " |")


if __name__ == "__main__":
    main()
