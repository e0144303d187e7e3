"""Measures the adapters, and the readers that other packages have themselves.

All read the same gzip shards of a Criteo-like table of 40 integers. Each way is a process of its
own, and they take turns; the least CPU time and wall time of all repeats count, without the start
and the imports. CPU time is that of all processes, but for Ray's, which are not children. A way
whose package is missing is left out.

  python benchmarks/bench_adapters.py --rows 200000
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import itertools
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import beam_pipelines as bp
from bench_read import prepare_clicks

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
SIZE = 1024
BASE = "batches, numpy"
# Shares of the rows: for ways that read a row at a time, and for those that look for each row.
FEW = 10
Batches = Iterable[Any]


class Way(NamedTuple):
    """A way to read.

    Attributes:
      package: that it needs.
      open: dataset's folder -> batches of an epoch, with imports.
      share: one in so many rows is read.
    """

    package: str
    open: Callable[[pathlib.Path], Batches]
    share: int = 1


def native(kind: Any) -> Callable[[pathlib.Path], Batches]:
    """Returns a way without an adapter."""
    return lambda folder: bp.open(folder).batches("train", SIZE, as_=kind)


def torch_batches(workers: int, loader: str) -> Callable[[pathlib.Path], Batches]:
    """Returns a way of ``TorchBatches``."""

    def open_(folder: pathlib.Path) -> Batches:
        from beam_pipelines.adapters.pytorch import TorchBatches

        module, name = loader.rsplit(".", 1)
        make = getattr(importlib.import_module(module), name)
        return make(TorchBatches(folder, "train", SIZE), batch_size=None, num_workers=workers)

    return open_


def grain_batches(folder: pathlib.Path) -> Batches:
    """Opens ``GrainBatches``."""
    from beam_pipelines.adapters.grain import GrainBatches

    return GrainBatches(folder, "train", SIZE)


def hugging_face(kind: str) -> Callable[[pathlib.Path], Batches]:
    """Returns a way of the adapter's ``IterableDataset``, with batches of a format."""

    def open_(folder: pathlib.Path) -> Batches:
        from beam_pipelines.adapters import huggingface

        return huggingface.iterable(folder, "train", SIZE).with_format(kind).iter(SIZE)

    return open_


def hugging_face_rows(folder: pathlib.Path) -> Batches:
    """Opens the same dataset, as examples of Python objects."""
    from beam_pipelines.adapters import huggingface

    return ({"label": [row["label"]]} for row in huggingface.iterable(folder, "train", SIZE))


def keras_batches(folder: pathlib.Path) -> Batches:
    """Opens a ``PyDataset``, read as ``fit`` reads it without workers."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    from beam_pipelines.adapters.keras import KerasBatches

    dataset = KerasBatches(folder, "train", SIZE)
    return (dataset[number] for number in range(len(dataset)))


def ray_batches(folder: pathlib.Path) -> Batches:
    """Opens a Ray dataset of the adapter."""
    import ray

    from beam_pipelines.adapters.ray import RayDatasource

    ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    return ray.data.read_datasource(RayDatasource(folder, "train")).iter_batches(batch_size=SIZE)


def tfrecord(folder: pathlib.Path) -> Batches:
    """Opens the ``TFRecordDataset`` of the package ``tfrecord``, which checks no CRC."""
    from tfrecord.torch.dataset import TFRecordDataset
    from torch.utils.data import DataLoader

    dataset = TFRecordDataset(shards(folder)[0], None, compression_type="gzip")
    return DataLoader(dataset, batch_size=SIZE)


def grain_tfrecord(folder: pathlib.Path) -> Batches:
    """Opens Grain's dataset of a shard without gzip, with protobuf."""
    from grain import experimental
    from tensorflow.core.example import example_pb2

    def parse(record: bytes) -> dict[str, Any]:
        import numpy as np

        features = example_pb2.Example.FromString(record).features.feature
        return {name: np.array(value.int64_list.value) for name, value in features.items()}

    plain = folder.with_suffix(".tfrecord")
    if not plain.exists():
        with gzip.open(shards(folder)[0]) as source, plain.open("wb") as target:
            shutil.copyfileobj(source, target)
    return experimental.TFRecordIterDataset(str(plain)).map(parse).batch(SIZE)


def parquet(folder: pathlib.Path) -> Batches:
    """Opens the rows as Parquet by ``datasets``, streamed."""
    import datasets
    import pyarrow as pa
    from pyarrow import parquet as files

    path = folder.with_suffix(".parquet")
    if not path.exists():
        with bp.open(folder).batches("train", 16384, as_="arrow") as reader:
            files.write_table(pa.concat_tables([pa.table(batch) for batch in reader]), path)
    found = datasets.load_dataset("parquet", data_files=str(path), split="train", streaming=True)
    return found.with_format("torch").iter(SIZE)


def shards(folder: pathlib.Path) -> list[str]:
    """Returns the paths of all shards."""
    return [str(path) for path in sorted((folder / "examples").glob("Split-train/*"))]


LOADER = "torch.utils.data.DataLoader"
STATEFUL = "torchdata.stateful_dataloader.StatefulDataLoader"
WAYS = {
    BASE: Way("numpy", native("numpy")),
    "batches, torch": Way("torch", native("torch")),
    "batches, arrow": Way("pyarrow", native("arrow")),
    "TorchBatches, DataLoader": Way("torch", torch_batches(0, LOADER)),
    "TorchBatches, DataLoader, 1 worker": Way("torch", torch_batches(1, LOADER)),
    "TorchBatches, StatefulDataLoader": Way("torchdata", torch_batches(0, STATEFUL)),
    "package tfrecord, DataLoader": Way("tfrecord", tfrecord, FEW),
    "GrainBatches": Way("grain", grain_batches),
    "Grain: TFRecordIterDataset, protobuf, batch": Way("grain", grain_tfrecord, FEW),
    "huggingface.iterable, Arrow batches": Way("datasets", hugging_face("arrow")),
    "huggingface.iterable, torch batches": Way("datasets", hugging_face("torch")),
    "datasets: Parquet, streamed, torch batches": Way("datasets", parquet),
    "huggingface.iterable, examples": Way("datasets", hugging_face_rows, FEW),
    "KerasBatches": Way("torch", keras_batches),
    "RayDatasource": Way("ray", ray_batches),
}


def rows_of(batches: Batches) -> Iterator[int]:
    """Yields the rows of each batch."""
    for batch in batches:
        columns = batch[0] if isinstance(batch, tuple) else batch
        yield len(columns["C1"] if "C1" in columns else columns["label"])


def cpu_seconds() -> float:
    """Returns the CPU time of this process and ended children."""
    used = [resource.getrusage(kind) for kind in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in used)


def measure(name: str, folder: pathlib.Path, expected: int) -> None:
    """Reads in one way, and prints its cost as JSON.

    Raises:
      SystemExit: it read other rows than it should.
    """
    way = WAYS[name]
    batches = way.open(folder)
    wanted = expected // way.share
    wall, cpu = time.perf_counter(), cpu_seconds()
    counts = itertools.accumulate(rows_of(batches))
    rows = next((count for count in counts if count >= wanted), 0)
    del counts, batches  # ends workers, whose time is counted then
    found = {"wall": time.perf_counter() - wall, "cpu": cpu_seconds() - cpu, "rows": rows}
    if rows < wanted or (way.share == 1 and rows != expected):
        sys.exit(f"{name}: read {rows:,} rows, expected {wanted:,}")
    print(json.dumps(found))


def main() -> None:
    """Measures all ways and prints a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[""], help="ways that begin so")
    parser.add_argument(
        "--folder", type=pathlib.Path, default=pathlib.Path(".bench"), help="for data and datasets"
    )
    parser.add_argument("--run", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    dataset = pathlib.Path(prepare_clicks(folder, arguments.rows, is_hashed=True))
    if arguments.run:
        measure(arguments.run, dataset, arguments.rows)
        return
    names = [
        name
        for name, way in WAYS.items()
        if importlib.util.find_spec(way.package)
        and (name == BASE or name.startswith(tuple(arguments.only)))
    ]
    print(
        f"{arguments.rows:,} rows, batches of {SIZE:,}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f} before\n"
    )
    command = [sys.executable, __file__, "--folder", str(folder), "--rows", str(arguments.rows)]
    best: dict[str, tuple[float, float]] = {}
    for _ in range(arguments.repeats):
        for name in names:
            done = subprocess.run(
                [*command, "--run", name], stdout=subprocess.PIPE, text=True, check=False
            )
            if done.returncode:
                sys.exit(f"{name}: exit status {done.returncode}")
            found = json.loads(done.stdout.splitlines()[-1])
            cost = found["wall"] / found["rows"], found["cpu"] / found["rows"]
            best[name] = tuple(map(min, cost, best.get(name, cost)))
            print(f"{name}: {cost[1] * 1e6:.2f} µs/row", file=sys.stderr, flush=True)
    print("| | rows/s | CPU µs/row | CPU, times the first |")
    print("|---|---:|---:|---:|")
    for name, (wall, cpu) in best.items():
        cells = ["", ""]
        if WAYS[name].package != "ray":
            cells = [f"{cpu * 1e6:.2f}", f"{cpu / best[BASE][1]:.2f}"]
        print(f"| {name} | {1 / wall:,.0f} | {cells[0]} | {cells[1]} |")


if __name__ == "__main__":
    main()
