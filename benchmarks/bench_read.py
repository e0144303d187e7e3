"""Measures how fast readers read a dataset on one core's time.

It compares ``Dataset.batches`` with ``bp.load``, tf.data and the package ``tfrecord``, in one run
on the same gzip shards of a Criteo-like table: 14 integers and 26 categoricals, which are texts or,
hashed as a trainer has them, integers. The readers take turns, and the least CPU time and wall time
of all repeats count. Every reader gives batches; TensorFlow consumes its own batches at once.

  python benchmarks/bench_read.py --rows 200000
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import beam_pipelines as bp
import criteo_like
from beam_pipelines.core.dataset_layout import MANIFEST

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

CATEGORICALS = [f"C{number + 1}" for number in range(criteo_like.CATEGORICALS)]
RECIPE = """\
name: clicks
sources: {{clicks: {{path: {path}}}}}
label: label
output: {{compression: gzip, shuffle_seed: 7, num_shards: 8}}
"""
HASHED = "encode:\n" + "".join(f"  {name}: {{hash_bucket: 100000}}\n" for name in CATEGORICALS)
# Of the rows, for the reader that takes longest.
SLOW_SHARE = 10


BY_TFRECORD = """
import itertools, sys, time
from tfrecord.reader import tfrecord_loader

rows = int(sys.argv[1])
records = itertools.chain.from_iterable(
    tfrecord_loader(path, None, compression_type="gzip") for path in sys.argv[2:]
)
wall, cpu = time.perf_counter(), time.process_time()
assert sum(1 for _ in itertools.islice(records, rows)) == rows
print(time.perf_counter() - wall, time.process_time() - cpu)
"""


class Way(NamedTuple):
    """A way to read.

    Attributes:
      name: of the reader.
      measure: returns wall time and CPU time, in seconds a row.
    """

    name: str
    measure: Callable[[], tuple[float, float]]


def prepare(folder: pathlib.Path, rows: int, is_hashed: bool) -> str:
    """Makes a missing dataset without nulls, and returns its folder."""
    target = folder / f"read-{rows}{'-hashed' if is_hashed else ''}"
    if not (target / MANIFEST).exists():
        data = folder / f"read-{rows}.csv"
        criteo_like.MISSING_INTEGERS = criteo_like.MISSING_CATEGORICALS = 0.0
        if not data.exists():
            criteo_like.write(data, rows, seed=7)
        recipe = folder / f"{target.name}.yaml"
        recipe.write_text(RECIPE.format(path=data) + (HASHED if is_hashed else ""))
        command = str(pathlib.Path(sys.executable).with_name("beam-pipelines"))
        arguments = ["convert", str(recipe), "--output", str(target), "--quiet"]
        subprocess.run([command, *arguments], check=True)
    return str(target)


def ways(folder: str, batch_size: int) -> list[Way]:
    """Returns the readers that are installed."""
    dataset, info = bp.open(folder), bp.info(folder)
    rows = dataset.splits["train"]
    spec, paths = info.feature_spec(), [shard.path for shard in info.split("train").shards]
    kinds = ["numpy", *(["torch"] if is_installed("torch") else []), "arrow"]
    reads: dict[str, Callable[[], int]] = {
        f"batches, {kind}": partial(native, dataset, batch_size, kind) for kind in kinds
    }
    reads["bp.load"] = lambda: consume(bp.load(folder, batch_size=batch_size))
    reads["tf.data: shuffle, batch, parse_example"] = partial(tf_data, paths, spec, batch_size)
    found = [Way(name, partial(measure, name, read, rows)) for name, read in reads.items()]
    if is_installed("tfrecord"):
        found.append(Way("tfrecord", partial(by_tfrecord, paths, rows // SLOW_SHARE)))
    return found


def tf_data(paths: Sequence[str], spec: Any, batch_size: int) -> int:
    """Reads an epoch as the documentation of tf.data has it."""
    import tensorflow as tf

    records = tf.data.TFRecordDataset(paths, compression_type="GZIP").shuffle(10_000)
    batches = records.batch(batch_size).map(lambda batch: tf.io.parse_example(batch, spec))
    return consume(batches.prefetch(tf.data.AUTOTUNE))


def is_installed(package: str) -> bool:
    """Whether a package is installed."""
    return importlib.util.find_spec(package) is not None


def native(dataset: bp.Dataset, batch_size: int, kind: Any) -> int:
    """Reads an epoch by ``Dataset.batches``."""
    with dataset.batches("train", batch_size, as_=kind) as reader:
        return sum(len(batch["label"]) for batch in reader)


def consume(dataset: Any) -> int:
    """Reads a ``tf.data.Dataset`` of batches in TensorFlow, and returns its rows."""
    import tensorflow as tf

    def count(rows: tf.Tensor, *batch: Any) -> tf.Tensor:
        first = tf.nest.flatten(batch)[-1]
        return rows + tf.shape(first, tf.int64)[0]

    return int(dataset.reduce(tf.constant(0, tf.int64), count))


def by_tfrecord(paths: Sequence[str], rows: int) -> tuple[float, float]:
    """Measures the package ``tfrecord`` on the first rows; it checks no CRC.

    It runs in a process of its own, because its protos and TensorFlow's have the same names.
    """
    command = [sys.executable, "-c", BY_TFRECORD, str(rows), *paths]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    wall, cpu = done.stdout.split()
    return float(wall) / rows, float(cpu) / rows


def measure(name: str, read: Callable[[], int], expected: int) -> tuple[float, float]:
    """Returns an epoch's wall time and CPU time, in seconds a row.

    Raises:
      SystemExit: it read other rows than it should.
    """
    wall, cpu = time.perf_counter(), time.process_time()
    rows = read()
    found = (time.perf_counter() - wall) / expected, (time.process_time() - cpu) / expected
    if rows != expected:
        sys.exit(f"{name}: read {rows:,} rows, expected {expected:,}")
    return found


def main() -> None:
    """Measures both tables and prints a line for each reader."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--batch_size", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--folder", type=pathlib.Path, default=pathlib.Path(".bench"), help="for data and datasets"
    )
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    print(
        f"{arguments.rows:,} rows, batches of {arguments.batch_size:,}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f} before"
    )
    for is_hashed in (True, False):
        compared = ways(prepare(folder, arguments.rows, is_hashed), arguments.batch_size)
        runs = [[way.measure() for way in compared] for _ in range(arguments.repeats)]
        best = [tuple(map(min, zip(*times, strict=True))) for times in zip(*runs, strict=True)]
        print(f"\n{'40 integers' if is_hashed else '14 integers and 26 texts'}\n")
        print("| | rows/s a core | CPU µs/row | wall µs/row | CPU, times the first |")
        print("|---|---:|---:|---:|---:|")
        for way, (wall, cpu) in zip(compared, best, strict=True):
            print(
                f"| {way.name} | {1 / cpu:,.0f} | {cpu * 1e6:.2f} | {wall * 1e6:.2f} | "
                f"{cpu / best[0][1]:.2f} × |"
            )


if __name__ == "__main__":
    main()
