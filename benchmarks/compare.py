"""Compares this package with other tools that turn tables into TFRecords.

Each contender is a process of its own, and its start-up counts. All run on the same cores, with
their input in the page cache. They take turns; a line is the run of median wall time. Memory is the
peak of the proportional set size over all processes of a run, and CPU seconds are theirs too
(bench_convert.py). TensorFlow reads each contender's output once and counts it.

The table has a section for each job: CSV or Parquet in, gzip or no compression, with and without
statistics and schema, with and without encodings. A contender takes part in the jobs that it can
do; the table names the others with the reason. Slow ones get fewer rows (--few_rows, --rows_of);
ours is measured on as many, too. Three ratios say how many times as fast ours is: on the same rows,
with the start-ups of both sides; the same with ours at gzip level 6, the level of TensorFlow, TFX
and Hadoop; and ours at full size with its start-up, against a peer's own clock without start-up.

Other parts: 'ideal' (wall time next to the sum of the kernels, measured alone), 'scaling' (1 and 2
workers), 'start' (until the first batch), 'memory' (peaks of two sizes).

  python benchmarks/compare.py --install   # environments of peers, in .bench/peers
  python benchmarks/compare.py --list      # contenders of each job
  python benchmarks/compare.py             # everything: hours
  python benchmarks/compare.py --jobs "csv to gzip" --peers loop spark --repeats 1
  python benchmarks/compare.py --parts ideal scaling start memory
"""

from __future__ import annotations

import argparse
import compileall
import fnmatch
import functools
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

import criteo_like
import install_peers
import limits
from bench_convert import Measured, measure, median_run
from contenders import FEW, FULL, HERE, JOBS, Contender, Job, Places, contenders
from measuring import print_line

COLUMNS = (
    "label",
    *(f"I{number + 1}" for number in range(criteo_like.INTEGERS)),
    *(f"C{number + 1}" for number in range(criteo_like.CATEGORICALS)),
)
PARTS = ("table", "ideal", "scaling", "start", "memory")
HEADER = (
    *("", "rows", "wall s", "rows/s", "CPU s", "peak PSS, GB"),
    *("speed-up", "speed-up at gzip 6", "start of the other not counted", "rows out", ""),
)


class Entry(NamedTuple):
    """Someone on some rows."""

    contender: Contender
    rows: int


class Result(NamedTuple):
    """The outcome of an entry.

    Attributes:
      runs: one for each repeat; none if it failed.
      counted: the counts of ``count_records.py`` in its output, or nothing if it writes no records.
      failure: where it says why it failed, or an empty text.
    """

    runs: list[Measured]
    counted: dict[str, Any]
    failure: str

    @property
    def median(self) -> Measured:
        """The run of median wall time."""
        return median_run(self.runs)

    @property
    def report(self) -> dict[str, Any]:
        """A peer's last line: ``seconds``, by its own clock, without imports."""
        said: dict[str, Any] = json.loads(
            [line for line in self.median.output.splitlines() if line.startswith("{")][-1]
        )
        return said


Results = dict[Entry, Result]


@functools.cache
def data_file(folder: pathlib.Path, rows: int, suffix: str) -> pathlib.Path:
    """Makes a table, unless it is there."""
    path = folder / f"clicks-{rows}.{suffix}"
    if not path.exists():
        criteo_like.write(path, rows, seed=7)
    return path


@functools.cache
def values_in(path: pathlib.Path) -> int:
    """Counts the values that are there in a table."""
    if path.suffix == ".parquet":
        return sum(len(column) - column.null_count for column in pq.read_table(path).columns)
    texts = dict.fromkeys(COLUMNS, pa.string())
    options = pa_csv.ConvertOptions(column_types=texts, strings_can_be_null=True, null_values=[""])
    with pa_csv.open_csv(path, convert_options=options) as batches:
        return sum(len(column) - column.null_count for batch in batches for column in batch.columns)


def entries_of(job: Job, chosen: Sequence[Contender], arguments: argparse.Namespace) -> list[Entry]:
    """Returns the contenders and their rows; ours runs at every peer's size."""
    sizes = {FULL: arguments.rows, FEW: min(arguments.few_rows, arguments.rows)}
    own_rows = dict(arguments.rows_of)
    able = [
        contender for contender in chosen if not contender.cannot(job) and not contender.missing
    ]
    peers = [
        Entry(peer, own_rows.get(peer.key, sizes[peer.rows(job)]))
        for peer in able
        if not peer.is_ours
    ]
    if not peers and any(not contender.is_ours for contender in chosen):
        return []
    needed = sorted({arguments.rows, *(entry.rows for entry in peers)}, reverse=True)
    return [*(Entry(ours, rows) for ours in able if ours.is_ours for rows in needed), *peers]


def run_job(job: Job, entries: Sequence[Entry], arguments: argparse.Namespace) -> Results:
    """Runs all entries in turns; failed or long ones run only once."""
    results = {entry: Result([], {}, "") for entry in entries}
    for repeat in range(arguments.repeats):
        for entry, result in results.items():
            slow = bool(result.runs) and result.runs[0].wall_seconds > arguments.once_above
            if not result.failure and not slow:
                results[entry] = run_once(job, entry, result, arguments, is_first=repeat == 0)
    return results


def run_once(
    job: Job, entry: Entry, before: Result, arguments: argparse.Namespace, is_first: bool
) -> Result:
    """Runs an entry once more, and reads its first output back."""
    data = data_file(arguments.folder, entry.rows, job.source)
    output = arguments.folder / "compare" / entry.contender.key
    log = output.with_suffix(".log")
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    limits.warm(data)
    print(f"  {job.name}: {entry.contender.key}, {entry.rows:,} rows", file=sys.stderr, flush=True)
    failed = log.with_name(f"{entry.contender.key}-failed.log")
    try:
        measured = measure(entry.contender.command(job, data, entry.rows, output), log)
        counted = (
            count(output, entry.contender.records)
            if is_first and job.compression
            else before.counted
        )
    except SystemExit as error:
        failed.write_text(str(error))
        return Result([], {}, str(failed))
    finally:
        shutil.rmtree(output, ignore_errors=True)
    return Result([*before.runs, measured], counted, "")


def count(folder: pathlib.Path, pattern: str) -> dict[str, Any]:
    """Counts the records of a folder in a process of its own.

    Raises:
      SystemExit: they could not be read.
    """
    command = [sys.executable, str(HERE / "count_records.py"), str(folder), "--pattern", pattern]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    if found.returncode:
        sys.exit(f"what was written cannot be read:\n{found.stderr}")
    counted: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
    return counted


def print_job(job: Job, results: Results, arguments: argparse.Namespace) -> None:
    """Prints a section of the table."""
    print(f"\n### {job.name}\n")
    print_line(HEADER)
    print("|---" + "|---:" * (len(HEADER) - 2) + "|---|")
    for entry in results:
        print_line(line(job, entry, results, arguments))
    print(flush=True)


def line(job: Job, entry: Entry, results: Results, arguments: argparse.Namespace) -> list[str]:
    """Returns the cells of an entry."""
    contender, rows = entry
    result = results[entry]
    if result.failure:
        return [
            contender.title,
            f"{rows:,}",
            *[""] * (len(HEADER) - 3),
            f"failed: {result.failure}",
        ]
    run = result.median
    took = [
        f"{run.wall_seconds:.1f}",
        f"{rows / run.wall_seconds:,.0f}",
        f"{run.cpu_seconds:.1f}",
        f"{run.peak_bytes / 1e9:.2f}",
    ]
    notes = [
        contender.about,
        contender.gzip if job.compression == "gzip" else "",
        "one run" if len(result.runs) == 1 else "",
    ]
    if job.compression:
        outcome = rows_out(result.counted, job, entry, arguments.folder)
    else:
        outcome = "" if contender.is_ours else f"{result.report['rows']:,} in the statistics"
    return [
        contender.title,
        f"{rows:,}",
        *took,
        *ratios(entry, results, arguments.rows),
        outcome,
        "; ".join(filter(None, notes)),
    ]


def ratios(entry: Entry, results: Results, full_rows: int) -> list[str]:
    """Returns the module's three ratios of our speed to a peer's.

    A ratio without a counterpart is empty.
    """
    if entry.contender.is_ours:
        return ["", "", ""]
    peer = results[entry]
    seconds = {
        (other.contender.key, other.rows): found.median.wall_seconds
        for other, found in results.items()
        if other.contender.is_ours and found.runs
    }

    def ratio(ours: str, rows: int, peer_seconds: float) -> str:
        own = seconds.get((ours, rows))
        return f"{peer_seconds / entry.rows / (own / rows):.1f}" if own else ""

    wall = peer.median.wall_seconds
    return [
        ratio("ours", entry.rows, wall),
        ratio("ours-6", entry.rows, wall),
        ratio("ours", full_rows, peer.report["seconds"]),
    ]


def rows_out(counted: dict[str, Any], job: Job, entry: Entry, folder: pathlib.Path) -> str:
    """Returns the rows of the output, and its differences from the input."""
    cells = [f"{counted['rows']:,}"]
    if counted["rows"] != entry.rows:
        cells.append(f"{entry.rows - counted['rows']:,} LOST")
    missing = set(COLUMNS) - set(counted["columns"])
    if missing:
        cells.append(f"{len(missing)} of {len(COLUMNS)} columns MISSING")
    expected = values_in(data_file(folder, entry.rows, job.source))
    if not job.encodings and counted["rows"] == entry.rows and counted["values"] != expected:
        cells.append(f"{counted['values'] / expected - 1:+.2%} of the values")
    return ", ".join(cells)


def print_absent(job: Job, chosen: Sequence[Contender]) -> None:
    """Prints who takes no part, and why."""
    reasons = [
        (peer.title, peer.cannot(job) or peer.missing)
        for peer in chosen
        if peer.cannot(job) or peer.missing
    ]
    if reasons:
        print(
            "Not here: " + "; ".join(f"{title} ({reason})" for title, reason in reasons) + ".",
            flush=True,
        )


def print_table(arguments: argparse.Namespace, chosen: Sequence[Contender]) -> None:
    """Measures and prints all chosen sections; with --list, only the contenders."""
    for job in JOBS:
        if not any(fnmatch.fnmatchcase(job.name, pattern) for pattern in arguments.jobs):
            continue
        entries = entries_of(job, chosen, arguments)
        if not entries:
            print(f"\n### {job.name}: nobody else")
        elif arguments.list:
            print(
                f"\n### {job.name}\n\n"
                + ", ".join(f"{entry.contender.title} ({entry.rows:,})" for entry in entries)
            )
            print_absent(job, chosen)
        else:
            results = run_job(job, entries, arguments)
            print_job(job, results, arguments)
            print_absent(job, chosen)
            print_extrapolated(results, arguments.large_rows)


def print_extrapolated(results: Results, large_rows: int) -> None:
    """Prints how long TFX would take for more rows.

    The estimate is its start-up once, and its own seconds for each row. It needs TFX among the
    results.
    """
    for (contender, rows), result in results.items():
        if contender.key == "tfx" and result.runs:
            own = result.report["seconds"]
            seconds = result.median.wall_seconds - own + own * large_rows / rows
            print(
                f"\nTFX at {large_rows:,} rows, extrapolated from {rows:,}: {seconds:,.0f} s.",
                flush=True,
            )


def pair(text: str) -> tuple[str, int]:
    """Reads ``PEER=ROWS``."""
    name, _, rows = text.partition("=")
    return name, int(rows)


def read_arguments() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [contender.key for contender in contenders(Places(pathlib.Path(), 1))]
    parser.add_argument(
        "--install",
        nargs="*",
        metavar="PEER",
        help="make environments of peers (without names: all), and stop",
    )
    parser.add_argument(
        "--list", action="store_true", help="print who takes part in what, measure nothing"
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument(
        "--peers",
        nargs="+",
        choices=names,
        default=names,
        help="beside ours; only ours: --peers ours ours-6",
    )
    parser.add_argument(
        "--jobs",
        nargs="+",
        default=["*"],
        metavar="NAME",
        help="sections, also by patterns: 'csv to gzip*'",
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--few_rows", type=int, default=100_000, help="for those that are slow")
    parser.add_argument(
        "--rows_of", type=pair, nargs="+", default=[], metavar="PEER=ROWS", help="rows of one peer"
    )
    parser.add_argument(
        "--large_rows", type=int, default=10_000_000, help="of the second size of 'memory'"
    )
    parser.add_argument(
        "--scaling_rows",
        type=int,
        nargs=2,
        default=[1_000_000, 3_000_000],
        help="two sizes of 'scaling'",
    )
    parser.add_argument(
        "--running_mode", default="multi_processing", help="of 'scaling', with more than one worker"
    )
    parser.add_argument(
        "--cores",
        type=int,
        default=2,
        help="everything runs on so many cores, with as many workers",
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--once_above",
        type=float,
        default=120,
        metavar="SECONDS",
        help="no repeats of what takes longer",
    )
    parser.add_argument(
        "--folder",
        type=pathlib.Path,
        default=pathlib.Path(".bench"),
        help="for data, output, environments",
    )
    parser.add_argument(
        "--tfx",
        default="",
        metavar="COMMAND",
        help="Python with TFX and TFDV: '../enter .venv-tfx/bin/python'",
    )
    arguments = parser.parse_args()
    arguments.folder = arguments.folder.resolve()
    return arguments


def main() -> None:
    """Does what the command line asks for."""
    arguments = read_arguments()
    peers = arguments.folder / "peers"
    if arguments.install is not None:
        install_peers.install(peers, arguments.install)
        return
    available = sorted(os.sched_getaffinity(0))
    if len(available) < arguments.cores:
        sys.exit(
            f"--cores: found {arguments.cores}, expected at most the {len(available)} that there "
            "are"
        )
    os.sched_setaffinity(0, available[: arguments.cores])
    compileall.compile_dir(
        HERE.parent / "beam_pipelines", quiet=1
    )  # as pip does with all that the others are made of
    chosen = [
        contender
        for contender in contenders(
            Places(peers, arguments.cores, tuple(shlex.split(arguments.tfx)))
        )
        if contender.key in arguments.peers or contender.is_ours
    ]
    if arguments.peers and all(name.startswith("ours") for name in arguments.peers):
        chosen = [contender for contender in chosen if contender.is_ours]
    print(
        f"{arguments.cores} of {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before",
        flush=True,
    )
    if "table" in arguments.parts:
        print_table(arguments, chosen)
    if not arguments.list:
        for part in PARTS[1:]:
            if part in arguments.parts:
                limits.PARTS[part](arguments, data_file)


if __name__ == "__main__":
    main()
