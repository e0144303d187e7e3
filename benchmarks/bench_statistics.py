"""Measures statistics: their rate by kind of column, and their memory.

Rates are from Arrow batches, in one thread, and from CSV. ``value_counts``, Arrow's own kernel, is
measured in the same run, so that rates of different machines compare: the table's target is 200,000
rows/s where ``value_counts`` takes 13 ns a value. The whole command's target is TFDV's 9,200 rows/s
from CSV on 2 cores, where a tutorial's loop does 6,500. The loop's rate in the same run scales this
target. Times are CPU time, except those of the command and the loop.

  python benchmarks/bench_statistics.py   # all but memory, some minutes
  python benchmarks/bench_statistics.py --only memory   # 20M distinct values, 5,000 columns
  python benchmarks/bench_statistics.py --only memory --distinct 100000000
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import pickle
import resource
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

import criteo_like
from beam_pipelines.analysis.statistics import StatisticsPlan, TableStatistics, to_proto
from beam_pipelines.transforms.meet import Node
from beam_pipelines.transforms.statistics import Tree
from bench_convert import HERE, measure, median_run

# About a range of 16 MiB of this table.
BATCH_ROWS = 60_000
REFERENCE_NANOSECONDS, REFERENCE_RATE = 13, 200_000
TFDV_RATE, LOOP_RATE = 9_200, 6_500
WIDE_COLUMNS, WIDE_ROWS = 5_000, 600


def cpu_seconds(work: Callable[[], object], repeats: int) -> float:
    """Returns the least CPU time of some repeats."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def merged(parts: Iterator[TableStatistics]) -> TableStatistics:
    """Merges parts as a run does."""
    tree = Tree()
    for place, part in enumerate(parts):
        tree.add(Node((place,), part))
    table: TableStatistics = tree.merged().value
    return table


def table_rates(rows: int, repeats: int) -> None:
    """Prints the table's rate from Arrow batches, with merges and the proto."""
    batches = [
        batch
        for chunk in criteo_like.chunks(rows, seed=7)
        for batch in chunk.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
    ]
    columns = batches[0].num_columns
    counting = cpu_seconds(
        lambda: [c.value_counts() for batch in batches for c in batch.columns], repeats
    )
    nanoseconds = counting / rows / columns * 1e9
    wanted = REFERENCE_RATE * REFERENCE_NANOSECONDS / nanoseconds
    print(f"{rows:,} rows, {columns} columns; value_counts takes {nanoseconds:.1f} ns a value\n")
    print("| from Arrow batches, one thread | rows/s | × wanted |\n|---|---:|---:|")
    plans = {
        "": StatisticsPlan(),
        ", weighted": StatisticsPlan("label"),
        ", 2 slices": StatisticsPlan(None, ("label",)),
    }
    for name, plan in plans.items():
        seconds = cpu_seconds(
            lambda plan=plan: to_proto(
                {"a": merged(TableStatistics.of(batch, plan) for batch in batches)}
            ),
            repeats,
        )
        print(
            f"| statistics, merges and proto{name} | {rows / seconds:,.0f} | "
            f"{rows / seconds / wanted:.1f} |",
            flush=True,
        )
    print(
        f"\nwanted: {REFERENCE_RATE:,} rows/s at {REFERENCE_NANOSECONDS} ns, here {wanted:,.0f}\n"
    )


def kind_rates(repeats: int) -> None:
    """Prints the cost of a value of each kind, next to ``value_counts``."""
    generator, size = np.random.default_rng(7), BATCH_ROWS
    vocabularies = [criteo_like.make_vocabulary(0, number) for number in (100, 100_000)]
    counts = np.floor(generator.lognormal(3, 2, size)).astype(np.int64)
    kinds = {
        "int, 2 values": pa.array(generator.integers(0, 2, size)),
        "int, thousands": pa.array(counts, mask=generator.random(size) < 0.1),
        "int, all distinct": pa.array(generator.permutation(size)),
        "float, continuous": pa.array(generator.normal(size=size)),
        "float, 10 values": pa.array(generator.integers(0, 10, size).astype(float)),
        "bool": pa.array(generator.random(size) < 0.5),
        "text, 100 values": vocabularies[0].draw(generator, size),
        "text, 100,000 values": vocabularies[1].draw(generator, size),
        "text, all distinct": pa.array(np.arange(size).astype(str)),
        "bytes, all distinct": pa.array([generator.bytes(16) for _ in range(size)]),
        "list of 3 ints": pa.ListArray.from_arrays(
            np.arange(0, size + 1, 3, dtype=np.int32), pa.array(counts)
        ),
    }
    print("| column | ns a value | weighted | value_counts |\n|---|---:|---:|---:|")
    for name, array in kinds.items():
        batch = pa.record_batch({"x": array})
        weighted = pa.record_batch({"x": array, "w": np.ones(len(array))})
        plain = pa.record_batch({"w": np.ones(len(array))})
        items = array.flatten() if pa.types.is_list(array.type) else array
        times = [
            cpu_seconds(lambda batch=batch: TableStatistics.of(batch), repeats),
            cpu_seconds(
                lambda batch=weighted: TableStatistics.of(batch, StatisticsPlan("w")), repeats
            )
            - cpu_seconds(
                lambda batch=plain: TableStatistics.of(batch, StatisticsPlan("w")), repeats
            ),
            cpu_seconds(lambda items=items: items.value_counts(), repeats),
        ]
        print(
            f"| {name} | " + " | ".join(f"{seconds / size * 1e9:.0f}" for seconds in times) + " |",
            flush=True,
        )
    print()


def command_rate(rows: int, loop_rows: int, repeats: int, folder: pathlib.Path) -> None:
    """Prints the rate of ``describe`` from CSV, next to the loop's."""
    data = folder / f"clicks-{rows}.csv"
    if not data.exists():
        criteo_like.write(data, rows, seed=7)
    loop = [
        sys.executable,
        str(HERE / "tutorial_loop.py"),
        "--input",
        str(data),
        "--rows",
        str(min(loop_rows, rows)),
    ]
    loop += ["--output", str(folder / "loop.tfrecord.gz")]
    command = [str(pathlib.Path(sys.executable).with_name("beam-pipelines")), "describe", str(data)]
    loops, runs = [], []
    for _ in range(repeats):
        loops.append(
            json.loads(measure(loop, folder / "loop.log").output.splitlines()[-1])[
                "rows_per_second"
            ]
        )
        runs.append(measure(command, folder / "describe.log"))
    loop_rate, run = sorted(loops)[len(loops) // 2], median_run(runs)
    rate, tfdv = rows / run.wall_seconds, TFDV_RATE * loop_rate / LOOP_RATE
    print(
        f"describe, {rows:,} rows of CSV, {os.cpu_count()} cores, start-up included: {rate:,.0f} "
        "rows/s"
    )
    print(
        f"peak {run.peak_bytes / 1e9:.2f} GB, {run.cpu_seconds:.1f} CPU s; the loop does "
        f"{loop_rate:,} rows/s"
    )
    print(f"TFDV would do {tfdv:,.0f} rows/s: {rate / tfdv:.1f} times as many, 8 are wanted\n")


def memory(distinct: int) -> None:
    """Prints a process's peak for many distinct values and for many columns."""
    print(
        "| peak RSS while merging, MB | before | after | accumulators, pickled "
        "|\n|---|---:|---:|---:|"
    )
    _print_memory(f"text, {distinct:,} distinct values", lambda: _distinct_texts(distinct))
    _print_memory(f"float, {distinct:,} distinct values", lambda: _distinct_floats(distinct))
    _print_memory(f"{WIDE_COLUMNS:,} columns of distinct floats and texts", _wide_parts)


def _print_memory(name: str, parts: Callable[[], Iterator[TableStatistics]]) -> None:
    """Measures in its own process, because a peak does not fall again."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        before = _peak()
        table = merged(parts())
        print(
            f"| {name} | {before:,.0f} | {_peak():,.0f} | {len(pickle.dumps(table)) / 1e6:,.1f} |",
            flush=True,
        )
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"memory, {name}: the process ended with status {status}")


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def _distinct_texts(distinct: int) -> Iterator[TableStatistics]:
    for start in range(0, distinct, BATCH_ROWS):
        numbers = pa.array(np.arange(start, min(start + BATCH_ROWS, distinct)) + 10**15)
        yield TableStatistics.of(pa.record_batch({"x": numbers.cast(pa.string())}))


def _distinct_floats(distinct: int) -> Iterator[TableStatistics]:
    for start in range(0, distinct, BATCH_ROWS):
        yield TableStatistics.of(
            pa.record_batch({"x": np.arange(start, min(start + BATCH_ROWS, distinct)) / 3})
        )


def _wide_parts() -> Iterator[TableStatistics]:
    """Yields ranges for two full tree levels; every value is new."""
    generator = np.random.default_rng(7)
    for _ in range(300):
        numbers = generator.integers(0, 1 << 62, (WIDE_COLUMNS, WIDE_ROWS))
        texts = pa.array(numbers[::2].ravel()).cast(pa.string())
        columns = {f"t{i}": texts.slice(i * WIDE_ROWS, WIDE_ROWS) for i in range(WIDE_COLUMNS // 2)}
        columns |= {f"f{i}": pa.array(row / 7) for i, row in enumerate(numbers[1::2])}
        yield TableStatistics.of(pa.record_batch(columns))


PARTS = ("table", "kinds", "command", "memory")


def main() -> None:
    """Measures what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--loop_rows", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--distinct", type=int, default=20_000_000, help="distinct values whose memory is measured"
    )
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=PARTS[:-1], help="parts to measure"
    )
    parser.add_argument(
        "--folder", type=pathlib.Path, default=pathlib.Path(".bench"), help="for data and output"
    )
    arguments = parser.parse_args()
    pa.set_cpu_count(1)
    print(f"load {os.getloadavg()[0]:.1f} before, best of {arguments.repeats}\n")
    if "memory" in arguments.only:  # first: a child begins with what this process has held
        memory(arguments.distinct)
    if "table" in arguments.only:
        table_rates(arguments.rows, arguments.repeats)
    if "kinds" in arguments.only:
        kind_rates(arguments.repeats)
    if "command" in arguments.only:
        folder = arguments.folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        command_rate(arguments.rows, arguments.loop_rows, arguments.repeats, folder)


if __name__ == "__main__":
    main()
