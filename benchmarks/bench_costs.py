"""Measures the fixed cost of a row: the constants of ``pipeline/previews/estimate.py``.

Each case converts the table of ``criteo_like.py`` at two sizes, in one process and one thread. The
difference of the CPU seconds, divided by the difference in rows, leaves out the start-up.
Differences between cases give the price of each stage. CPU time, unlike wall time, stays the same
on a busy machine.

With ``--sizes`` it prints the bytes that grow with ranges, chunks and shards instead.

  python benchmarks/bench_costs.py --rows 100000
  python benchmarks/bench_costs.py --sizes
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence

import criteo_like
from beam_pipelines.core.limits import MIB

ENCODE = "\n".join(
    [f"  I{number}: z_score" for number in range(1, 14)]
    + [f"  C{number}: vocabulary" for number in range(1, 27)]
)
USERS = criteo_like.LARGEST_VOCABULARY


@dataclasses.dataclass(frozen=True)
class Case:
    """A command on a recipe.

    Attributes:
      name: of its line.
      command: ``convert`` or ``describe``.
      more: lines of the recipe.
    """

    name: str
    command: str = "convert"
    more: str = ""


CASES = (
    Case("describe: read, split, statistics", "describe"),
    Case("convert, no compression", more="output: {compression: none}"),
    Case("convert, gzip"),
    Case("convert, gzip, z_score and vocabulary of 39 columns", more=f"encode:\n{ENCODE}"),
    Case(
        "convert, gzip, broadcast join",
        more="join: [{source: users, on: C26, strategy: broadcast}]",
    ),
    Case("convert, gzip, hash join", more="join: [{source: users, on: C26, strategy: hash}]"),
)


def main() -> None:
    """Prints a line for each case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rows",
        type=int,
        default=100_000,
        help="of the smaller table; the larger has four times as many",
    )
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="numbers of lines, from 0")
    parser.add_argument("--sizes", action="store_true", help="measure bytes, not seconds")
    parser.add_argument(
        "--folder", type=pathlib.Path, default=pathlib.Path(".bench"), help="for data and output"
    )
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    sizes = (arguments.rows, 4 * arguments.rows)
    for rows in sizes:
        path = folder / f"clicks-{rows}.csv"
        if not path.exists():
            criteo_like.write(path, rows, seed=7)
    if arguments.sizes:
        print_sizes()
        return
    write_users(folder / "users.csv")
    print(
        "| case | CPU s | CPU s | CPU µs/row | ns/value | peak MB |\n|---|---:|---:|---:|---:|---:|"
    )
    for number, case in enumerate(CASES):
        if not arguments.only or number in arguments.only:
            print_case(case, folder, sizes)


def write_users(path: pathlib.Path) -> None:
    """Writes the joins' right side: one column's values, and numbers."""
    values = criteo_like.make_vocabulary(criteo_like.CATEGORICALS - 1, USERS).values
    lines = [f"{value},{number}" for number, value in enumerate(values)]
    path.write_text("\n".join(["C26,weight", *lines]) + "\n")


def print_case(case: Case, folder: pathlib.Path, sizes: Sequence[int]) -> None:
    """Measures a case at both sizes and prints its line."""
    (small, _), (large, peak) = (measured(case, folder, rows) for rows in sizes)
    row = (large - small) / (sizes[1] - sizes[0])
    print(
        f"| {case.name} | {small:.2f} | {large:.2f} | {row * 1e6:.2f} | {row * 1e9 / 40:.0f} | "
        f"{peak:.0f} |",
        flush=True,
    )


def measured(case: Case, folder: pathlib.Path, rows: int) -> tuple[float, float]:
    """Runs a case in its own process.

    Returns:
      The CPU seconds of the process and its children, and the peak of its memory in MB.
    """
    recipe, output = folder / "costs.yaml", folder / "out-costs"
    sources = (
        f"sources:\n  clicks: {{path: clicks-{rows}.csv}}\n  users: {{path: users.csv, key: "
        f"C26}}\nfrom: clicks\n"
    )
    recipe.write_text(f"name: clicks\n{sources}split: {{train: 0.9, eval: 0.1}}\n{case.more}\n")
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, __file__, "--run", case.command, str(recipe), str(output)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    cpu, peak = run.stdout.split()[-2:]
    shutil.rmtree(output, ignore_errors=True)
    return float(cpu), float(peak)


def print_sizes() -> None:
    """Prints the bytes of an idle process."""
    print(f"PROCESS_BYTES {idle_bytes() / MIB:.0f} MiB")


def idle_bytes() -> int:
    """Returns the resident bytes of a process with a worker's imports."""
    code = (
        "import beam_pipelines.pipeline.convert, resource; "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    return 1024 * int(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
    )


def run_one(command: str, recipe: str, output: str) -> None:
    """Runs one command in this process, and prints what it has used."""
    from beam_pipelines.cli.main import run

    status = run([command, recipe, "--output", output, "--quiet", "--direct_num_workers=1"])
    if status:
        sys.exit(status)
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    print(own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime, own.ru_maxrss / 1024)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run_one(*sys.argv[2:5])
    else:
        main()
