"""Measures joins over time, and with a frequent key.

DuckDB and Spark run the same joins:

  as_of   the newest row of the right side at the left row's time, at most 30 days old
  window  count, sum, largest and last value of the rows of the 30 days before
  hash    a row of the right side by its key

Each has even keys, and then a key that has --share of the left rows. Ours is the command: it also
shuffles, makes statistics and writes TFRecords. DuckDB and Spark run a query of the same files and
write Parquet, on as many cores. Spark is left out where ``--spark``, a Python with pyspark, is not
given. All take turns, --repeats times; a line has the median wall time, the CPU seconds of that
run, and the ratio of its wall time to that of even keys. --workers and --engines convert again, and
compare every byte of the shards.

  python benchmarks/bench_joins.py --workers 1 4 --engines prism flink
"""

from __future__ import annotations

import argparse
import hashlib
import os
import pathlib
import sys
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench_convert import Measured, measure
from bench_engines import STARTED_BY_COMMAND

HERE = pathlib.Path(__file__).resolve().parent
COMMAND = str(pathlib.Path(sys.executable).with_name("beam-pipelines"))
DAYS = 180
RECIPE = "name: big\nsources: {{left: {left}, right: {right}}}\nfrom: left\njoin:\n{join}\n"
JOINS = {
    "as_of": """\
  - source: right
    on: k
    as_of: {left: t, right: t, tie: n, tolerance: 30d}
    prefix: r_""",
    "window": """\
  - source: right
    on: k
    window: {left: t, right: t, over: 30d}
    features: {c: count(), s: sum(v), m: max(v), l: last(v)}""",
    "hash": "  - {source: right, on: u, prefix: r_, strategy: hash}",
}
BOTH = """SELECT k, t, n, NULL v, true is_left FROM {left}
    UNION ALL SELECT k, t, NULL, v, false FROM {right}"""
WINDOW = """FROM (
    SELECT n, is_left, count(v) OVER w c, sum(v) OVER w s, max(v) OVER w m, LAST OVER w l
    FROM (BOTH) WINDOW w AS (PARTITION BY k ORDER BY t
    RANGE BETWEEN INTERVAL 30 DAYS PRECEDING AND INTERVAL 1 MICROSECOND PRECEDING)
) WHERE is_left""".replace("BOTH", BOTH)
HASH = "SELECT l.*, r.w FROM {left} l LEFT JOIN {right} r ON l.u = r.u"
QUERIES = {
    "as_of": """SELECT l.*, CASE WHEN l.t - r.t <= INTERVAL 30 DAYS THEN r.v END r_v
    FROM {left} l ASOF LEFT JOIN {right} r ON l.k = r.k AND l.t >= r.t""",
    "window": "SELECT * " + WINDOW.replace("LAST", "last_value(v IGNORE NULLS)"),
    "hash": HASH,
}
# Spark has no as-of join: of both sides in order of time, the last value is the same.
SPARK_QUERIES = {
    "as_of": """SELECT * FROM (SELECT n, is_left, last(v, true) OVER (PARTITION BY k
    ORDER BY t, is_left ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) r_v FROM (BOTH))
    WHERE is_left""".replace("BOTH", BOTH),
    "window": "SELECT * "
    + WINDOW.replace("LAST", "last(v, true)")
    .replace("30 DAYS", "'30 00:00:00' DAY TO SECOND")
    .replace("1 MICROSECOND", "'0 00:00:00.000001' DAY TO SECOND"),
    "hash": HASH,
}
SPARK = """
import sys
from pyspark.sql import SparkSession
spark = (SparkSession.builder.master(f"local[{sys.argv[3]}]").config("spark.driver.memory", "6g")
    .config("spark.sql.shuffle.partitions", 8).config("spark.ui.enabled", "false").getOrCreate())
spark.sql(sys.argv[1]).write.mode("overwrite").parquet(sys.argv[2])
"""
DUCKDB = """
import sys, duckdb
duckdb.execute(f"SET threads = {sys.argv[3]}")
duckdb.execute(f"COPY ({sys.argv[1]}) TO '{sys.argv[2]}' (FORMAT parquet)")
"""


def write_tables(folder: pathlib.Path, rows: int, right_rows: int, share: float) -> None:
    """Writes the sides; one key has ``share`` of some left rows."""
    random, keys = np.random.default_rng(1), rows // 10

    def log(size: int, frequent: float, **more: object) -> pa.Table:
        key, unique = random.integers(0, keys, size), random.integers(0, right_rows, size)
        is_frequent = random.random(size) < frequent
        key[is_frequent], unique[is_frequent] = 7, 7
        milliseconds = random.integers(0, DAYS * 86_400_000, size)
        times = np.datetime64("2024-01-01", "us") + milliseconds * 1000
        return pa.table({"k": key, "t": times, "u": unique, "n": np.arange(size), **more})

    right = random.random(right_rows).round(4)
    pq.write_table(log(rows, 0.0), folder / "even.parquet")
    pq.write_table(log(rows, share), folder / "frequent.parquet")
    pq.write_table(log(right_rows, 0.0, v=right).drop_columns("u"), folder / "log.parquet")
    pq.write_table(pa.table({"u": np.arange(right_rows), "w": right}), folder / "keyed.parquet")


def commands(
    folder: pathlib.Path, name: str, keys: str, spark: str
) -> Iterator[tuple[str, list[str]]]:
    """Yields who runs a join, and the command."""
    left = folder / f"{keys}.parquet"
    right = folder / ("keyed.parquet" if name == "hash" else "log.parquet")
    recipe = folder / f"{name}-{keys}.yaml"
    recipe.write_text(RECIPE.format(left=left, right=right, join=JOINS[name]))
    yield "beam-pipelines", converting(recipe, folder / f"out-{name}-{keys}")
    cores = str(os.cpu_count())
    query = QUERIES[name].format(left=f"'{left}'", right=f"'{right}'")
    target = str(folder / f"peer-{name}-{keys}.parquet")
    yield "DuckDB", [sys.executable, "-c", DUCKDB, query, target, cores]
    if spark:
        query = SPARK_QUERIES[name].format(left=f"parquet.`{left}`", right=f"parquet.`{right}`")
        yield "Spark", [spark, "-c", SPARK, query, f"{target}.spark", cores]


def converting(recipe: pathlib.Path, output: pathlib.Path, *options: str) -> list[str]:
    """Returns the command that converts a recipe."""
    return [COMMAND, "convert", str(recipe), "--output", str(output), "--overwrite", *options]


def digest(output: pathlib.Path) -> str:
    """Returns a hash of all shards, schema and statistics."""
    found = hashlib.sha256()
    for path in sorted(path for path in output.rglob("*") if path.is_file()):
        if path.name.startswith("part-") or "-of-" in path.name or path.suffix == ".pbtxt":
            found.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:16]


def compare_bytes(folder: pathlib.Path, given: argparse.Namespace) -> None:
    """Converts by other workers and engines; prints times and hashes."""
    ways = {f"{number} workers": (f"--direct_num_workers={number}",) for number in given.workers}
    ways |= {name: STARTED_BY_COMMAND[name] for name in given.engines}
    for name in given.joins:
        recipe = folder / f"{name}-frequent.yaml"
        expected = digest(folder / f"out-{name}-frequent")
        for way, options in ways.items():
            output = folder / f"out-{name}-{way.replace(' ', '-')}"
            cost = measure(converting(recipe, output, *options), folder / "log.txt")
            same = "same bytes" if digest(output) == expected else "OTHER BYTES"
            seconds = f"{cost.wall_seconds:7.1f} s {cost.cpu_seconds:7.1f} CPU s"
            print(f"{name:8} {way:12} {seconds}  {same}", flush=True)


def main() -> None:
    """Measures in turns, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--right_rows", type=int, default=5_000_000)
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--joins", nargs="+", default=list(JOINS), choices=list(JOINS))
    parser.add_argument("--workers", nargs="*", type=int, default=[])
    parser.add_argument("--engines", nargs="*", default=[], choices=list(STARTED_BY_COMMAND))
    parser.add_argument("--spark", default="", help="a Python with pyspark")
    parser.add_argument("--folder", type=pathlib.Path, default=HERE.parent / ".bench" / "joins")
    given = parser.parse_args()
    folder = given.folder / f"{given.rows}-{given.right_rows}-{given.share}"
    if not folder.exists():
        folder.mkdir(parents=True)
        write_tables(folder, given.rows, given.right_rows, given.share)
    measured: dict[tuple[str, str, str], list[Measured]] = {}
    for _ in range(given.repeats):
        for name in given.joins:
            for keys in ("even", "frequent"):
                for who, command in commands(folder, name, keys, given.spark):
                    cost = measure(command, folder / "log.txt")
                    measured.setdefault((name, who, keys), []).append(cost)
                    seconds = f"{cost.wall_seconds:.1f} s, {cost.cpu_seconds:.1f} CPU s"
                    print(name, who, keys, seconds, file=sys.stderr, flush=True)
    print(f"load {os.getloadavg()[0]:.1f}; {given.rows:,} x {given.right_rows:,} rows")
    for (name, who, keys), costs in sorted(measured.items()):
        cost = sorted(costs)[len(costs) // 2]
        even = sorted(measured[name, who, "even"])[len(costs) // 2]
        print(
            f"{name:8} {who:16} {keys:9} {cost.wall_seconds:7.1f} s {cost.cpu_seconds:7.1f} CPU s "
            f"{cost.peak_bytes / 1e9:6.2f} GB  {cost.wall_seconds / even.wall_seconds:5.2f}",
            flush=True,
        )
    compare_bytes(folder, given)


if __name__ == "__main__":
    main()
