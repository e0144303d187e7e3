"""Measures how fast readers read a dataset on one core's time.

It compares ``Dataset.batches`` with ``bp.load``, tf.data, the package ``tfrecord`` and Grain, in
one run on the same gzip shards: a Criteo-like table of 14 integers and 26 categoricals, which are
texts or, hashed as a trainer has them, integers; two lists of numbers a row; and the encoded
flights of examples/flights. PyTorch and JAX get hashes of the texts. Each reader runs alone in a
process of its own, on one core and on two, and reads an epoch before the measured one. The readers
take turns, and the least CPU time and wall time of all repeats count. Readers that are not
installed are left out.

All give batches, but ``tfrecord`` gives rows. TensorFlow consumes its own batches at once. The slow
readers read a part of the rows.

  python benchmarks/bench_read.py --rows 200000
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import itertools
import json
import os
import pathlib
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import beam_pipelines as bp
import criteo_like
from beam_pipelines.core.layout.dataset_layout import MANIFEST

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
CATEGORICALS = [f"C{number + 1}" for number in range(criteo_like.CATEGORICALS)]
RECIPE = """\
name: clicks
sources: {{clicks: {{path: {path}}}}}
label: label
output: {{compression: gzip, shuffle_seed: 7, num_shards: 8}}
"""
BUCKETS = 100_000
HASHED = "encode:\n" + "".join(f"  {name}: {{hash_bucket: {BUCKETS}}}\n" for name in CATEGORICALS)
SEQUENCE = "sequence: {features: [items, weights]}\n"
# Mean number of values of a list.
LIST_LENGTH = 20
# Of the rows, for readers that take long.
SLOW_SHARE = 10


class Times(NamedTuple):
    """Wall time and CPU time, in seconds a row."""

    wall: float
    cpu: float


class Task(NamedTuple):
    """A dataset to read.

    Attributes:
      folder: the dataset.
      paths: its shards.
      rows: to read, the first ones.
      batch_size: rows of a batch.
    """

    folder: str
    paths: list[str]
    rows: int
    batch_size: int


class Way(NamedTuple):
    """A way to read.

    Attributes:
      read: reads in batches, and returns the number of rows.
      package: that it needs besides this one.
      share: it reads one row in so many.
    """

    read: Callable[[Task], int]
    package: str = "numpy"
    share: int = 1


def native(kind: Any, is_keyed: bool, task: Task) -> int:
    """Reads by ``Dataset.batches``; frameworks get ids for texts."""
    dataset, options = bp.open(task.folder), dict[str, Any]()
    texts = [name for name, feature in dataset.features.items() if feature.dtype == "bytes"]
    if texts and (kind not in ("numpy", "arrow") or is_keyed):
        options["lookup"] = dict.fromkeys(texts, BUCKETS)
    if is_keyed:
        whole = [name for name, one in dataset.features.items() if one.dtype != "float32"]
        options["keyed"] = {"ids": whole[1:][-len(CATEGORICALS) :]}
    with dataset.batches("train", task.batch_size, as_=kind, **options) as reader:
        return sum(len(next(iter(batch.values()))) for batch in reader)


def load(task: Task) -> int:
    """Reads by ``bp.load``."""
    return consume(bp.load(task.folder, "train", batch_size=task.batch_size))


def tf_data(is_hashed: bool, task: Task) -> int:
    """Reads as the documentation of tf.data has it; texts may become ids."""
    import tensorflow as tf

    spec = bp.open(task.folder).feature_spec()

    def parse(batch: tf.Tensor) -> dict[str, Any]:
        found = tf.io.parse_example(batch, spec)
        return {
            name: tf.strings.to_hash_bucket_fast(value, BUCKETS)
            if is_hashed and value.dtype == tf.string
            else value
            for name, value in found.items()
        }

    records = tf.data.TFRecordDataset(task.paths, compression_type="GZIP").shuffle(10_000)
    return consume(records.batch(task.batch_size).map(parse).prefetch(tf.data.AUTOTUNE))


def consume(dataset: Any) -> int:
    """Reads a ``tf.data.Dataset`` of batches in TensorFlow, and returns its rows."""
    import tensorflow as tf

    def count(rows: tf.Tensor, *batch: Any) -> tf.Tensor:
        first = tf.nest.flatten(batch, expand_composites=False)[0]
        shape = first.dense_shape if isinstance(first, tf.SparseTensor) else tf.shape(first)
        return rows + tf.cast(shape[0], tf.int64)

    return int(dataset.reduce(tf.constant(0, tf.int64), count))


def by_tfrecord(task: Task) -> int:
    """Reads by the package ``tfrecord``, without CRCs and batches."""
    from tfrecord.reader import tfrecord_loader

    records = itertools.chain.from_iterable(
        tfrecord_loader(path, None, compression_type="gzip") for path in task.paths
    )
    return sum(1 for _ in itertools.islice(records, task.rows))


def by_data_loader(task: Task) -> int:
    """Reads by PyTorch's DataLoader over the package ``tfrecord``."""
    from tfrecord.torch.dataset import TFRecordDataset
    from torch.utils.data import ChainDataset, DataLoader

    shards = [TFRecordDataset(path, None, compression_type="gzip") for path in task.paths]
    loader = DataLoader(ChainDataset(shards), task.batch_size, collate_fn=list)
    batches = itertools.islice(loader, -(-task.rows // task.batch_size))
    return min(task.rows, sum(len(batch) for batch in batches))


def by_grain(task: Task) -> int:
    """Reads by Grain and protobuf's parser.

    Grain reads no gzip and checks no CRC. So its source here does not either.
    """
    import grain
    from tensorflow.core.example import example_pb2

    class Records(grain.DatasetIterator):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self._records = itertools.islice(gzip_records(task.paths), task.rows)

        def __next__(self) -> bytes:
            return next(self._records)

        def get_state(self) -> dict[str, int]:
            return {}

        def set_state(self, state: dict[str, int]) -> None:
            pass

    class Shards(grain.IterDataset):  # type: ignore[name-defined]
        def __iter__(self) -> Records:
            return Records()

    def parse(record: bytes) -> dict[str, Any]:
        features = example_pb2.Example.FromString(record).features.feature
        return {
            name: np.array(getattr(feature, feature.WhichOneof("kind")).value)
            for name, feature in features.items()
            if feature.WhichOneof("kind")
        }

    dataset = Shards().map(parse).batch(task.batch_size, batch_fn=list)
    return sum(len(batch) for batch in dataset)


def gzip_records(paths: list[str]) -> Iterator[bytes]:
    """Yields the records of gzip shards without a check."""
    for path in paths:
        with gzip.open(path) as file:
            while header := file.read(12):
                yield file.read(struct.unpack("<Q", header[:8])[0] + 4)[:-4]


WAYS = {
    "batches, numpy": Way(partial(native, "numpy", False)),
    "batches, arrow": Way(partial(native, "arrow", False)),
    "batches, numpy, keyed": Way(partial(native, "numpy", True)),
    "batches, torch": Way(partial(native, "torch", False), "torch"),
    "batches, torch, keyed": Way(partial(native, "torch", True), "torch"),
    "batches, jax": Way(partial(native, "jax", False), "jax"),
    "batches, jax, keyed": Way(partial(native, "jax", True), "jax"),
    "bp.load": Way(load, "tensorflow"),
    "tf.data: shuffle, batch, parse_example": Way(partial(tf_data, False), "tensorflow"),
    "tf.data, texts hashed": Way(partial(tf_data, True), "tensorflow"),
    "Grain, protobuf": Way(by_grain, "grain", SLOW_SHARE),
    "tfrecord": Way(by_tfrecord, "tfrecord", SLOW_SHARE),
    "DataLoader, tfrecord": Way(by_data_loader, "tfrecord", SLOW_SHARE),
}


def alone(name: str, folder: str, batch_size: int) -> Times:
    """Reads two epochs in this process, and measures the second one.

    Raises:
      SystemExit: the reader read other rows than it should.
    """
    # Without feature_spec(), which imports TensorFlow: its protos and those of ``tfrecord`` clash.
    train = json.loads((pathlib.Path(folder) / MANIFEST).read_text())["splits"]["train"]
    paths = [str(pathlib.Path(folder) / shard["path"]) for shard in train["shards"]]
    way = WAYS[name]
    task = Task(folder, paths, train["rows"] // way.share, batch_size)
    for _ in range(2):
        wall, cpu = time.perf_counter(), time.process_time()
        found = way.read(task)
        times = Times(time.perf_counter() - wall, time.process_time() - cpu)
        if found != task.rows:
            sys.exit(f"{name}: read {found:,} rows, expected {task.rows:,}")
    return Times(times.wall / task.rows, times.cpu / task.rows)


def read_alone(name: str, folder: str, batch_size: int, cores: int) -> Times:
    """Measures a reader in a process of its own, on some cores."""
    own = ",".join(str(core) for core in sorted(os.sched_getaffinity(0))[:cores])
    command = ["taskset", "--cpu-list", own, sys.executable, __file__, "--alone", name]
    options = ["--dataset", folder, "--batch_size", str(batch_size)]
    done = subprocess.run([*command, *options], check=False, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    wall, cpu = done.stdout.split()[-2:]
    return Times(float(wall), float(cpu))


def prepare_clicks(folder: pathlib.Path, rows: int, is_hashed: bool) -> str:
    """Returns the dataset of the table without nulls; makes it if missing."""
    target = folder / f"read-{rows}{'-hashed' if is_hashed else ''}"
    if not (target / MANIFEST).exists():
        data = folder / f"read-{rows}.csv"
        criteo_like.MISSING_INTEGERS = criteo_like.MISSING_CATEGORICALS = 0.0
        if not data.exists():
            criteo_like.write(data, rows, seed=7)
        recipe = folder / f"{target.name}.yaml"
        recipe.write_text(RECIPE.format(path=data) + (HASHED if is_hashed else ""))
        convert(recipe, target)
    return str(target)


def prepare_lists(folder: pathlib.Path, rows: int, is_sequence: bool) -> str:
    """Returns the dataset of two lists a row; makes it if missing."""
    data = folder / f"read-{rows}-lists.parquet"
    target = folder / f"read-{rows}-{'sequences' if is_sequence else 'lists'}"
    if not (target / MANIFEST).exists():
        random = np.random.default_rng(7)
        lengths = random.integers(1, 2 * LIST_LENGTH, rows)
        edges = pa.array(np.cumsum([0, *lengths]), pa.int32())
        ids = pa.array(random.integers(0, 100_000, edges[-1].as_py()))
        weights = pa.array(random.random(len(ids), np.float32))
        columns = {"id": np.arange(rows)}
        for name, values in (("items", ids), ("weights", weights)):
            columns[name] = pa.ListArray.from_arrays(edges, values)
        pq.write_table(pa.table(columns), data)
        recipe = folder / f"{target.name}.yaml"
        recipe.write_text(
            RECIPE.format(path=data).replace("label: label\n", SEQUENCE if is_sequence else "")
        )
        convert(recipe, target)
    return str(target)


def prepare_flights(folder: pathlib.Path) -> str:
    """Returns the dataset of the encoded flights; makes it if missing."""
    target, example = folder / "read-flights", REPOSITORY / "examples" / "flights"
    if not (target / MANIFEST).exists():
        data = str(REPOSITORY / ".demo" / "flights-data")
        get_data = [sys.executable, str(example / "get_data.py"), "--output", data]
        subprocess.run(get_data, check=True, stdout=subprocess.DEVNULL)
        convert(example / "encoded.yaml", target)
    return str(target)


def convert(recipe: pathlib.Path, target: pathlib.Path) -> None:
    """Converts a table."""
    command = [sys.executable, "-m", "beam_pipelines", "convert", str(recipe)]
    subprocess.run([*command, "--output", str(target), "--quiet"], check=True)


def compare(title: str, folder: str, batch_size: int, repeats: int) -> None:
    """Measures all readers of a dataset, and prints a line for each."""
    found: dict[str, list[list[Times]]] = {
        name: [] for name, way in WAYS.items() if importlib.util.find_spec(way.package)
    }
    for _ in range(repeats):
        for name, runs in found.items():
            runs.append([read_alone(name, folder, batch_size, cores) for cores in (1, 2)])
    print(f"\n{title}\n")
    print("| | rows/s a core | CPU µs/row | CPU, times the first | two cores, times one |")
    print("|---|---:|---:|---:|---:|", flush=True)
    first = 0.0
    for name, runs in found.items():
        one, two = (
            Times(*(min(values) for values in zip(*times, strict=True)))
            for times in zip(*runs, strict=True)
        )
        first = first or one.cpu
        print(
            f"| {name} | {1 / one.cpu:,.0f} | {one.cpu * 1e6:.2f} | {one.cpu / first:.2f} × | "
            f"{one.wall / two.wall:.2f} × |",
            flush=True,
        )


def main() -> None:
    """Measures four datasets."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--batch_size", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--folder", type=pathlib.Path, default=pathlib.Path(".bench"), help="for data and datasets"
    )
    parser.add_argument("--alone", choices=WAYS, help="only this reader, in this process")
    parser.add_argument("--dataset", help="to read with --alone")
    parser.add_argument("--only", nargs="*", default=[""], help="datasets whose titles begin so")
    arguments = parser.parse_args()
    size = arguments.batch_size
    if arguments.alone:
        print(*alone(arguments.alone, arguments.dataset, size))
        return
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    print(
        f"{arguments.rows:,} rows, batches of {size:,}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f} before"
    )
    for title, prepare in (
        ("40 integers", partial(prepare_clicks, folder, arguments.rows, True)),
        ("14 integers and 26 texts", partial(prepare_clicks, folder, arguments.rows, False)),
        (
            f"two lists of {LIST_LENGTH} numbers",
            partial(prepare_lists, folder, arguments.rows, False),
        ),
        (
            f"two feature lists of {LIST_LENGTH} steps",
            partial(prepare_lists, folder, arguments.rows, True),
        ),
        ("flights, encoded", partial(prepare_flights, folder)),
    ):
        if title.startswith(tuple(arguments.only)):
            compare(title, prepare(), size, arguments.repeats)


if __name__ == "__main__":
    main()
