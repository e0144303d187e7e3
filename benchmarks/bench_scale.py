"""Measures conversions that are large in one way each.

They have many rows, files or columns, a large row group, or a frequent join key. Shuffle and
statistics are on.

Sections, each with its own table:

  rows     --rows N …, --format parquet csv: the Criteo-like table in many files. Rates and memory
           should not depend on the rows.
  files    --files N: a table in N files of 1 KB, and the same rows in 10 files.
  columns  --columns N …: numbers and texts in turn, in Parquet.
  group    --megabytes N …: a Parquet file of one row group of N MB, uncompressed.
  key      --rows N: a hash join without a frequent key, and with one that has --share of the rows
           of the left side, or of the right one.
  join     --rows N …: a hash join of N rows with N rows.
  gzip     --gzip N …: one gzip file of N MB of CSV.
  splits   --splits N: a million rows in N splits, with slices of the statistics.
  shards   --shards N …: a million rows in N shards.

Each conversion is a command of its own. Memory is the peak of the proportional set size of all its
processes, as in bench_convert.py. Disk is the peak size of the output's ``_temporary``. Both are
sampled. The table of ``rows`` has at most --distinct different rows: further files are hard links
to the first ones, so that the input takes the disk space of the first ones only. Its vocabularies
are therefore those of fewer rows.

  python benchmarks/bench_scale.py rows --rows 1000000 10000000 --format csv
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import pathlib
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import bench_convert
import criteo_like

FILE_ROWS = 200_000
TINY_ROWS, TINY_CELLS = 20, 5  # a file of about 1 KB
COMMAND = str(pathlib.Path(sys.executable).with_name("beam-pipelines"))


class Case(NamedTuple):
    """One conversion: its name, its number of rows, and its recipe."""

    name: str
    rows: int
    recipe: str


class Usage(NamedTuple):
    """The cost of a conversion, with its temporary files' peak bytes."""

    measured: bench_convert.Measured
    temporary_bytes: int


@contextlib.contextmanager
def watched(folder: pathlib.Path) -> Iterator[list[int]]:
    """Samples the disk space of a folder twice a second.

    The list that it yields holds one number, the largest sum.
    """
    peak, ended = [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.5):
            peak[0] = max(peak[0], disk_bytes(folder))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


def disk_bytes(folder: pathlib.Path) -> int:
    """Returns the disk space under a folder; files that vanish count 0."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(root, name)).st_blocks * 512
    return total


def convert(case: Case, folder: pathlib.Path, workers: int) -> Usage:
    """Converts, checks the number of rows, and removes what was written."""
    recipe, output = folder / "recipe.yaml", folder / "out"
    recipe.write_text(case.recipe)
    command = [COMMAND, "convert", str(recipe), "--output", str(output), "--overwrite", "--quiet"]
    with watched(output / "_temporary") as peak:
        measured = bench_convert.measure(
            [*command, f"--direct_num_workers={workers}"], folder / "convert.log"
        )
    manifest = json.loads((output / "dataset.json").read_text())
    if manifest["counts"]["read"] != case.rows:
        sys.exit(f"{case.name}: found {manifest['counts']}, expected {case.rows:,} rows read")
    report = (output / "report.html").stat().st_size
    print(
        f"{case.name}: {manifest['counts']['written']:,} rows written, report.html "
        f"{report / 1e6:.1f} MB",
        file=sys.stderr,
    )
    shutil.rmtree(output)
    return Usage(measured, peak[0])


def rows_cases(
    folder: pathlib.Path, rows: list[int], formats: list[str], distinct: int
) -> Iterator[Case]:
    """The Criteo-like table in files of 200,000 rows."""
    for format_ in formats:
        for number in rows:
            own = folder / f"rows-{number}-{format_}"
            link_files(folder, own, number, format_, distinct)
            recipe = bench_convert.RECIPE.format(path=f"'{own}/*.{format_}'")
            yield Case(f"{number:,} rows, {format_}", number, recipe)


def link_files(
    folder: pathlib.Path, own: pathlib.Path, rows: int, format_: str, distinct: int
) -> None:
    """Makes a folder of files with ``rows`` rows in all.

    From ``distinct`` rows on, the files are links to earlier ones.
    """
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir(parents=True)
    for number, start in enumerate(range(0, rows, FILE_ROWS)):
        size = min(FILE_ROWS, rows - start)
        seed = number % max(1, distinct // FILE_ROWS)
        file = folder / "distinct" / f"{seed}-{size}.{format_}"
        if not file.exists():
            criteo_like.write(file, size, seed)
        os.link(file, own / f"{number:04}.{format_}")


def files_cases(folder: pathlib.Path, files: int) -> Iterator[Case]:
    """Yields the same rows in tiny files and in ten files."""
    for number in (10, files):
        own = folder / f"files-{number}-of-{files}"
        if not own.exists():
            write_tiny(own, files, number)
        path = f"'{own}/*/*.csv'"
        yield Case(
            f"{number:,} files",
            files * TINY_ROWS,
            bench_convert.RECIPE.format(path=path).replace("label: label\n", ""),
        )


def write_tiny(own: pathlib.Path, parts: int, files: int) -> None:
    """Writes ``parts`` files of 20 rows, a thousand files a folder."""
    rng = np.random.default_rng(3)
    header = ",".join(f"c{number}" for number in range(TINY_CELLS)) + "\n"
    for number in range(files):
        path = own / f"{number // 1000:04}" / f"{number:06}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as file:
            file.write(header)
            for _ in range(parts // files):
                numbers = rng.integers(0, 10**9, (TINY_ROWS, TINY_CELLS)).tolist()
                file.write("".join("{},a{},{},b{},{}\n".format(*row) for row in numbers))


def columns_cases(folder: pathlib.Path, counts: list[int], cells: int) -> Iterator[Case]:
    """Yields tables of equal size with more and more columns.

    Numbers and texts take turns.
    """
    for count in counts:
        rows = max(1, cells // count)
        path = folder / f"columns-{count}-{rows}.parquet"
        if not path.exists():
            write_wide(path, count, rows)
        yield Case(f"{count:,} columns", rows, f"name: wide\nsources: {{wide: {path}}}\n")


def write_wide(path: pathlib.Path, count: int, rows: int) -> None:
    """Writes a table by row groups of at most 4 million cells."""
    rng, texts = np.random.default_rng(5), pa.array([f"v{value}" for value in range(100)])
    kinds = [pa.float64() if number % 2 else pa.string() for number in range(count)]
    schema = pa.schema([(f"c{number:05}", kind) for number, kind in enumerate(kinds)])
    size = max(1, 4_000_000 // count)
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, size):
            own = min(size, rows - start)
            arrays = [
                pa.array(rng.normal(size=own))
                if number % 2
                else texts.take(pa.array(rng.integers(0, 100, own)))
                for number in range(count)
            ]
            writer.write_table(pa.table(arrays, schema=schema))


def group_cases(folder: pathlib.Path, sizes: list[int]) -> Iterator[Case]:
    """Yields files of one row group each.

    The sizes are megabytes of Arrow data.

    A row has ten numbers, which do not compress.
    """
    for size in sizes:
        rows = size * 1_000_000 // 80
        path = folder / f"group-{size}.parquet"
        if not path.exists():
            rng = np.random.default_rng(6)
            schema = pa.schema([(f"c{number}", pa.int64()) for number in range(10)])
            with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
                arrays = [rng.integers(0, 1 << 62, rows) for _ in schema]
                writer.write_table(pa.table(arrays, schema=schema), row_group_size=rows)
        yield Case(f"row group of {size:,} MB", rows, f"name: group\nsources: {{group: {path}}}\n")


def key_cases(folder: pathlib.Path, rows: int, share: float) -> Iterator[Case]:
    """Yields hash joins of clicks with users.

    The table has a quarter as many users as clicks.

    One user may have many rows on either side.
    """
    for name, left, right in (
        ("no hot key", 0.0, 0.0),
        (f"{share:.0%} of the left rows have one key", share, 0.0),
        (f"{share:.0%} of the right rows have one key, and three left ones", 0.0, share),
    ):
        own = folder / f"key-{rows}-{left}-{right}"
        if not own.exists():
            write_tables(own, rows, left, right)
        yield Case(
            name,
            rows,
            f"name: key\nsources: {{clicks: {own}/clicks.parquet, users: "
            f"{own}/users.parquet}}\nfrom: clicks\n"
            "join: [{source: users, on: user, strategy: hash}]\n",
        )


def join_cases(folder: pathlib.Path, sizes: list[int]) -> Iterator[Case]:
    """Yields hash joins of as many users as clicks."""
    for rows in sizes:
        own = folder / f"join-{rows}"
        if not own.exists():
            write_tables(own, rows, 0.0, 0.0, rows)
        yield Case(
            "a hash join with as many rows",
            rows,
            f"name: join\nsources: {{clicks: {own}/clicks.parquet, users: {own}/users.parquet}}\n"
            "from: clicks\njoin: [{source: users, on: user, strategy: hash}]\n",
        )


def gzip_cases(folder: pathlib.Path, sizes: list[int]) -> Iterator[Case]:
    """Yields gzip files, which are one range each.

    The files of the Criteo-like table repeat in them; gzip members follow each other.
    """
    folder.joinpath("distinct").mkdir(exist_ok=True)
    member = folder / "distinct" / "gzip.csv"
    if not member.exists():
        criteo_like.write(member, FILE_ROWS, 0)
    header, _, body = member.read_bytes().partition(b"\n")
    for size in sizes:
        times = max(1, size * 1_000_000 // len(body))
        path = folder / f"gzip-{size}.csv.gz"
        if not path.exists():
            packed = gzip.compress(body, 1)
            with path.open("wb") as file:
                file.write(gzip.compress(header + b"\n", 1))
                for _ in range(times):
                    file.write(packed)
        recipe = bench_convert.RECIPE.format(path=path)
        yield Case(f"one gzip file of {size:,} MB of CSV", times * FILE_ROWS, recipe)


def splits_cases(folder: pathlib.Path, splits: int) -> Iterator[Case]:
    """Yields a million rows in many splits, with statistics of slices."""
    path, rows = folder / "splits.parquet", 1_000_000
    write_numbers(path, rows)
    for number in (2, splits):
        shares = ", ".join(f"part{part}: {1 / number:.6f}" for part in range(number - 1))
        rest = 1 - (number - 1) * float(f"{1 / number:.6f}")
        yield Case(
            f"{number:,} splits with 20 slices",
            rows,
            f"name: splits\nsources: {{rows: {path}}}\nstatistics: {{slice_by: kind}}\n"
            f"split: {{{shares}, rest: {rest:.6f}, by: id}}\n",
        )


def shards_cases(folder: pathlib.Path, counts: list[int]) -> Iterator[Case]:
    """Yields a million rows in many shards."""
    path, rows = folder / "splits.parquet", 1_000_000
    write_numbers(path, rows)
    for number in counts:
        recipe = f"name: shards\nsources: {{rows: {path}}}\noutput: {{num_shards: {number}}}\n"
        yield Case(f"{number:,} shards", rows, recipe)


def write_numbers(path: pathlib.Path, rows: int) -> None:
    """Writes an id, a kind of twenty, and eight numbers."""
    if path.exists():
        return
    rng = np.random.default_rng(9)
    numbers = {f"x{number}": rng.normal(size=rows) for number in range(8)}
    table = pa.table({"id": np.arange(rows), "kind": rng.integers(0, 20, rows), **numbers})
    pq.write_table(table, path, row_group_size=100_000)


def write_tables(
    own: pathlib.Path, rows: int, left: float, right: float, right_rows: int | None = None
) -> None:
    """Writes clicks and users; one user has a share of the rows.

    Of users there are ``right_rows``, or a quarter as many as clicks.
    """
    own.mkdir(parents=True)
    rng = np.random.default_rng(8)
    size = right_rows or rows // 4
    clicks, users = rng.integers(0, size, rows), np.arange(size)
    clicks[rng.random(rows) < left] = 7
    users[rng.random(len(users)) < right] = -1
    if right:
        clicks[[0, rows // 2, rows - 1]] = -1
    for name, ids in (("clicks", clicks), ("users", users)):
        numbers = {f"{name}{number}": rng.integers(0, 1 << 40, len(ids)) for number in range(8)}
        pq.write_table(
            pa.table({"user": ids, **numbers}), own / f"{name}.parquet", row_group_size=100_000
        )


SECTIONS: dict[str, Callable[[argparse.Namespace, pathlib.Path], Iterator[Case]]] = {
    "rows": lambda arguments, folder: rows_cases(
        folder, arguments.rows, arguments.format, arguments.distinct
    ),
    "files": lambda arguments, folder: files_cases(folder, arguments.files),
    "columns": lambda arguments, folder: columns_cases(folder, arguments.columns, arguments.cells),
    "group": lambda arguments, folder: group_cases(folder, arguments.megabytes),
    "key": lambda arguments, folder: key_cases(folder, arguments.rows[0], arguments.share),
    "join": lambda arguments, folder: join_cases(folder, arguments.rows),
    "gzip": lambda arguments, folder: gzip_cases(folder, arguments.gzip),
    "splits": lambda arguments, folder: splits_cases(folder, arguments.splits),
    "shards": lambda arguments, folder: shards_cases(folder, arguments.shards),
}


def main() -> None:
    """Makes missing data, measures, prints a line after each conversion."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="+", choices=SECTIONS)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument(
        "--format", nargs="+", choices=["parquet", "csv"], default=["parquet", "csv"]
    )
    parser.add_argument(
        "--distinct",
        type=int,
        default=2_000_000,
        help="rows; what is more are links to the same files",
    )
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--columns", type=int, nargs="+", default=[50, 500, 5_000])
    parser.add_argument("--cells", type=int, default=10_000_000)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[500, 2_000])
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--gzip", type=int, nargs="+", default=[1_000])
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--shards", type=int, nargs="+", default=[10, 1_000])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--folder",
        type=pathlib.Path,
        default=pathlib.Path(".bench/scale"),
        help="for data and output",
    )
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    print(
        f"{os.cpu_count()} cores, {arguments.workers} workers, load {os.getloadavg()[0]:.1f}, "
        f"{time.strftime('%Y-%m-%d')}"
    )
    print(
        "| | rows | wall s | rows/s | CPU s | rows per CPU s | peak PSS, GB | temporary files, GB "
        "|\n|---" + "|---:" * 7 + "|"
    )
    for section in arguments.sections:
        for case in SECTIONS[section](arguments, folder):
            usage = convert(case, folder, arguments.workers)
            seconds = usage.measured.wall_seconds
            cells = [
                case.name,
                f"{case.rows:,}",
                f"{seconds:.1f}",
                f"{case.rows / seconds:,.0f}",
                f"{usage.measured.cpu_seconds:.1f}",
                f"{case.rows / usage.measured.cpu_seconds:,.0f}",
                f"{usage.measured.peak_bytes / 1e9:.2f}",
                f"{usage.temporary_bytes / 1e9:.2f}",
            ]
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
