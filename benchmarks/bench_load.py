"""Measures how fast a trainer reads a dataset.

It compares ``bp.load`` with handwritten loaders on the same shards, in one run. The table is the
Criteo-like one, with 40 columns, in two forms: with nulls in 39 columns, which are parsed as sparse
tensors, and without nulls, where all columns are dense. All ways shuffle, and give batches of the
same features and label. The ways take turns, and the least time of all repeats counts. TensorFlow
consumes each batch at once, so that only reading is measured.

  python benchmarks/bench_load.py --rows 200000
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

import beam_pipelines as bp
import criteo_like
from beam_pipelines.core.layout.dataset_layout import MANIFEST
from beam_pipelines.dataset import loader
from measuring import Timed, Work, measure, print_line

RECIPE = """\
name: clicks
sources: {{clicks: {{path: {path}}}}}
label: label
output: {{compression: gzip, shuffle_seed: 7, num_shards: 8}}
"""
BUFFER = 10_000  # the default of make_batched_features_dataset
# Of the rows, for the ways that parse record by record.
SLOW_SHARE = 10
AUTOTUNE = tf.data.AUTOTUNE


class Way(NamedTuple):
    """A way to read: its name, its dataset, its share of rows."""

    name: str
    make: Callable[[], tf.data.Dataset]
    rows: int


def ways(folder: str, batch_size: int) -> list[Way]:
    """Returns what is compared."""
    dataset = bp.open(folder)
    spec, paths, rows = dataset.feature_spec(), dataset.shards("train"), dataset.splits["train"]
    cores = os.cpu_count() or 1

    def parse_one(record: tf.Tensor) -> Any:
        features = tf.io.parse_single_example(record, spec)
        return features, features.pop("label")

    def parse_batch(records: tf.Tensor) -> Any:
        features = tf.io.parse_example(records, spec)
        return features, features.pop("label")

    def per_record(calls: int | None) -> tf.data.Dataset:
        records = tf.data.TFRecordDataset(paths, compression_type="GZIP").take(rows // SLOW_SHARE)
        return (
            records.map(parse_one, num_parallel_calls=calls)
            .shuffle(BUFFER)
            .batch(batch_size)
            .prefetch(AUTOTUNE)
        )

    def batched_features(**options: Any) -> tf.data.Dataset:
        return tf.data.experimental.make_batched_features_dataset(
            paths, batch_size, spec, _gzip_reader, label_key="label", num_epochs=1, **options
        )

    def whole_batches() -> tf.data.Dataset:
        records = tf.data.TFRecordDataset(paths, "GZIP", num_parallel_reads=cores)
        batches = records.batch(batch_size).map(parse_batch, num_parallel_calls=AUTOTUNE)
        return batches.prefetch(AUTOTUNE)

    return [
        Way("bp.load", lambda: loader.load(folder, batch_size=batch_size), rows),
        Way("bp.load, seed=1", lambda: loader.load(folder, batch_size=batch_size, seed=1), rows),
        Way(
            "bp.load, shuffle=False",
            lambda: loader.load(folder, batch_size=batch_size, shuffle=False),
            rows,
        ),
        Way("make_batched_features_dataset", batched_features, rows),
        Way(
            f"make_batched_features_dataset, {cores} readers, {cores} parsers, sloppy",
            lambda: batched_features(
                reader_num_threads=cores, parser_num_threads=cores, sloppy_ordering=True
            ),
            rows,
        ),
        Way("map(parse_single_example), batch", lambda: per_record(None), rows // SLOW_SHARE),
        Way(
            "map(parse_single_example) in parallel, batch",
            lambda: per_record(AUTOTUNE),
            rows // SLOW_SHARE,
        ),
        Way("whole batches of tf.data, in stored order", whole_batches, rows),
    ]


def _gzip_reader(paths: tf.Tensor) -> tf.data.Dataset:
    return tf.data.TFRecordDataset(paths, compression_type="GZIP")


def consume(way: Way) -> int:
    """Reads a whole epoch and returns its rows.

    Raises:
      SystemExit: they are not those that were expected.
    """

    def count(rows: tf.Tensor, *batch: Any) -> tf.Tensor:
        return rows + tf.shape(batch[-1], tf.int64)[0]

    rows = int(
        way.make().reduce(
            tf.constant(0, tf.int64),
            lambda rows, batch: count(rows, *(batch if isinstance(batch, tuple) else (batch,))),
        )
    )
    if rows != way.rows:
        sys.exit(f"{way.name}: read {rows:,} rows, expected {way.rows:,}")
    return rows


def prepare(folder: pathlib.Path, rows: int, nulls: bool) -> str:
    """Makes missing tables and datasets and returns the dataset's folder."""
    name = f"load-{rows}" + ("" if nulls else "-dense")
    target = folder / name
    if not (target / MANIFEST).exists():
        data = folder / f"{name}.csv"
        criteo_like.MISSING_INTEGERS, criteo_like.MISSING_CATEGORICALS = (
            (0.10, 0.05) if nulls else (0.0, 0.0)
        )
        criteo_like.write(data, rows, seed=7)
        recipe = folder / f"{name}.yaml"
        recipe.write_text(RECIPE.format(path=data))
        command = [
            str(pathlib.Path(sys.executable).with_name("beam-pipelines")),
            "convert",
            str(recipe),
            "--output",
            str(target),
            "--quiet",
        ]
        subprocess.run(command, check=True)
    return str(target)


def best_in_turns(compared: list[Way], repeats: int) -> list[Timed]:
    """Measures the ways in turns.

    Returns:
      The least wall time and the least CPU time of each way, perhaps from different repeats.
    """
    runs = [
        [measure(Work(lambda way=way: consume(way), way.rows, 0)) for way in compared]
        for _ in range(repeats)
    ]
    return [
        Timed(min(one.wall for one in timed), min(one.cpu for one in timed), None)
        for timed in zip(*runs, strict=True)
    ]


def main() -> None:
    """Measures both tables and prints a line for each way."""
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
    print(
        f"{arguments.rows:,} rows, batches of {arguments.batch_size:,}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f} before"
    )
    for nulls in (True, False):
        compared = ways(prepare(folder, arguments.rows, nulls), arguments.batch_size)
        timed = best_in_turns(compared, arguments.repeats)
        first = timed[0].wall / compared[0].rows, timed[0].cpu / compared[0].rows
        print(f"\n{'39 of 40 columns sparse' if nulls else 'all columns dense'}\n")
        print_line(["", "rows/s", "µs/row", "CPU µs/row", "load is faster, by wall", "by CPU"])
        print_line(["---", *["---:"] * 5])
        for way, best in zip(compared, timed, strict=True):
            wall, cpu = best.wall / way.rows, best.cpu / way.rows
            print_line(
                [
                    way.name,
                    f"{1 / wall:,.0f}",
                    f"{wall * 1e6:.2f}",
                    f"{cpu * 1e6:.2f}",
                    f"{wall / first[0]:.2f} ×",
                    f"{cpu / first[1]:.2f} ×",
                ]
            )


if __name__ == "__main__":
    main()
