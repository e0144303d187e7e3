"""Measures how fast readers decode and resize JPEGs, on one core's time.

It compares ``Dataset.batches`` with tf.data, Pillow in threads, WebDataset, MosaicML Streaming,
LitData and Hugging Face's datasets, in one run on the same synthetic pictures: of 500 × 375 pixels
and about 110 KB, or of 16 × 16 (``BENCH_PICTURES=tiny``). The readers take turns, and the least CPU
time of all repeats counts. tf.data is measured with its own resize, which skips pixels, and with
its antialiased one, which is ours and Pillow's.

Readers that are not installed are left out; PYTHONPATH may name a folder that has them. A reader
that cannot be imported or fails ends the program with its error.

  python benchmarks/bench_read_images.py --pictures 400
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import PIL.Image

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# Name -> height and width, those of the result, rows of a batch.
PICTURES = {"photos": ((375, 500), 256, 32), "tiny": ((16, 16), 12, 512)}
SIZE, OUTPUT, BATCH = PICTURES[os.environ.get("BENCH_PICTURES", "photos")]
RECIPE = """\
name: pictures
sources: {{pictures: {{path: {path}, format: images}}}}
output: {{compression: none, num_shards: 4}}
"""


def picture(random: np.random.Generator) -> PIL.Image.Image:
    """Returns noise with the spectrum of photographs."""
    height, width = SIZE
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    frequency[0, 0] = 1
    grey = random.normal(size=SIZE)
    channels = []
    for _ in range(3):
        noise = np.fft.rfft2(0.8 * grey + 0.2 * random.normal(size=SIZE)) / frequency
        channel = np.fft.irfft2(noise, s=SIZE)
        channels.append(channel / channel.std() * 45 + 120)
    return PIL.Image.fromarray(np.clip(np.stack(channels, 2), 0, 255).astype(np.uint8))


def prepare(folder: pathlib.Path, count: int) -> None:
    """Writes missing pictures and the dataset."""
    files = folder / "files" / "all"
    if not files.exists():
        files.mkdir(parents=True)
        random = np.random.default_rng(1)
        for number in range(count):
            picture(random).save(files / f"{number:06}.jpg", quality=90)
    if not (folder / "ours").exists():
        recipe = folder / "recipe.yaml"
        recipe.write_text(RECIPE.format(path=files.parent))
        command = str(pathlib.Path(sys.executable).with_name("beam-pipelines"))
        arguments = ["convert", str(recipe), "--output", str(folder / "ours"), "--quiet"]
        subprocess.run([command, *arguments], check=True)


def contents(folder: pathlib.Path) -> list[bytes]:
    """Returns all files."""
    return [path.read_bytes() for path in sorted((folder / "files" / "all").iterdir())]


def by_pillow(content: bytes) -> np.ndarray:
    """Decodes and resizes as users of PyTorch do."""
    image = PIL.Image.open(io.BytesIO(content)).convert("RGB")
    return np.asarray(image.resize((OUTPUT, OUTPUT), PIL.Image.Resampling.BILINEAR))


def ours(folder: pathlib.Path) -> int:
    """Reads with ``Dataset.batches``."""
    import beam_pipelines as bp

    images = {"image/encoded": bp.Image((OUTPUT, OUTPUT))}
    with bp.open(folder / "ours").batches(None, BATCH, images=images) as reader:
        return sum(len(batch["image/encoded"]) for batch in reader)


def tf_data(folder: pathlib.Path, antialias: bool) -> int:
    """Reads, decodes, resizes and batches as TensorFlow's tutorials do."""
    import tensorflow as tf

    def parse(record: tf.Tensor) -> tf.Tensor:
        feature = tf.io.FixedLenFeature([], tf.string)
        content = tf.io.parse_single_example(record, {"image/encoded": feature})["image/encoded"]
        image = tf.io.decode_jpeg(content, channels=3)
        return tf.image.resize(image, [OUTPUT, OUTPUT], antialias=antialias)

    paths = [str(path) for path in (folder / "ours").glob("examples/*/*")]
    batches = tf.data.TFRecordDataset(paths).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return sum(len(batch) for batch in batches.batch(BATCH).prefetch(tf.data.AUTOTUNE))


def threads(folder: pathlib.Path) -> int:
    """Decodes files by Pillow in a thread a core."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return sum(len(batch) for batch in batched(pool.map(by_pillow, contents(folder))))


def webdataset(folder: pathlib.Path) -> int:
    """Reads a tar file with WebDataset."""
    import webdataset as wds

    path = folder / "pictures.tar"
    if not path.exists():
        with tarfile.open(path, "w") as tar:
            for file in sorted((folder / "files" / "all").iterdir()):
                tar.add(file, file.name)
    dataset = wds.WebDataset(str(path), shardshuffle=False).map_dict(jpg=by_pillow)
    return sum(len(batch[0]) for batch in dataset.to_tuple("jpg").batched(BATCH))


def streaming(folder: pathlib.Path) -> int:
    """Reads with MosaicML Streaming."""
    from streaming import MDSWriter, StreamingDataset

    path = folder / "mds"
    if not path.exists():
        with MDSWriter(out=str(path), columns={"jpg": "bytes"}) as out:
            for content in contents(folder):
                out.write({"jpg": content})
    dataset = StreamingDataset(local=str(path), shuffle=False, batch_size=BATCH)
    return sum(len(batch) for batch in batched(by_pillow(row["jpg"]) for row in dataset))


def litdata(folder: pathlib.Path) -> int:
    """Reads with LitData."""
    from litdata import StreamingDataset
    from litdata.streaming.cache import Cache

    path = folder / "litdata"
    if not path.exists():
        cache = Cache(str(path), chunk_bytes="64MB")
        for number, content in enumerate(contents(folder)):
            cache[number] = {"jpg": content}
        cache.done()
        cache.merge()
    dataset = StreamingDataset(str(path), shuffle=False)
    return sum(len(batch) for batch in batched(by_pillow(row["jpg"]) for row in dataset))


def hugging_face(folder: pathlib.Path) -> int:
    """Reads a saved dataset with Hugging Face's ``datasets``."""
    import datasets

    path = folder / "hugging_face"
    if not path.exists():
        datasets.Dataset.from_dict({"jpg": contents(folder)}).save_to_disk(str(path))
    dataset = datasets.load_from_disk(str(path))
    dataset = dataset.with_transform(lambda rows: {"pixels": [*map(by_pillow, rows["jpg"])]})
    return sum(len(np.stack(batch["pixels"])) for batch in dataset.iter(BATCH))


def batched(rows: object) -> object:
    """Yields arrays of ``BATCH`` rows."""
    batch = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH:
            yield np.stack(batch)
            batch = []
    if batch:
        yield np.stack(batch)


# Name -> package, and what reads an epoch.
READERS = {
    "batches": ("beam_pipelines", ours),
    "tf.data, not antialiased": ("tensorflow", lambda folder: tf_data(folder, antialias=False)),
    "tf.data, antialiased": ("tensorflow", lambda folder: tf_data(folder, antialias=True)),
    "Pillow in threads": ("PIL", threads),
    "WebDataset": ("webdataset", webdataset),
    "MosaicML Streaming": ("streaming", streaming),
    "LitData": ("litdata", litdata),
    "Hugging Face datasets": ("datasets", hugging_face),
}


def measure(name: str, folder: pathlib.Path, count: int) -> tuple[float, float]:
    """Returns CPU and wall time of a picture, in seconds.

    The reader has a process of its own, and reads an epoch before.
    """
    command = [sys.executable, __file__, "--one", name, "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name}: {done.stderr[-2000:]}")
    rows, cpu, wall = json.loads(done.stdout.splitlines()[-1])
    if rows != count:
        sys.exit(f"{name}: read {rows:,} pictures, expected {count:,}")
    return cpu / count, wall / count


def run_one(name: str, folder: pathlib.Path) -> None:
    """Reads two epochs, and prints rows and times of the second."""
    import time

    _, read = READERS[name]
    read(folder)
    wall, cpu = time.perf_counter(), time.process_time()
    rows = read(folder)
    print(json.dumps([rows, time.process_time() - cpu, time.perf_counter() - wall]), flush=True)
    os._exit(0)  # some readers leave threads behind


def table(names: Sequence[str], best: Sequence[tuple[float, float]]) -> None:
    """Prints a line for each reader."""
    print("| | pictures/s a core | CPU µs | wall µs | CPU, times the first |")
    print("|---|---:|---:|---:|---:|")
    for name, (cpu, wall) in zip(names, best, strict=True):
        times = cpu / best[0][0]
        print(f"| {name} | {1 / cpu:,.0f} | {cpu * 1e6:,.1f} | {wall * 1e6:,.1f} | {times:.2f} × |")


def main() -> None:
    """Measures the readers that are installed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pictures", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--one", choices=READERS, help="measures one reader, in this process")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(".bench"))
    arguments = parser.parse_args()
    if arguments.one:
        run_one(arguments.one, arguments.folder)
        return
    folder = arguments.folder.resolve() / f"{SIZE[0]}-{arguments.pictures}"
    folder.mkdir(parents=True, exist_ok=True)
    prepare(folder, arguments.pictures)
    names = [name for name, (package, _) in READERS.items() if importlib.util.find_spec(package)]
    runs = [
        [measure(name, folder, arguments.pictures) for name in names]
        for _ in range(arguments.repeats)
    ]
    best = [tuple(map(min, zip(*times, strict=True))) for times in zip(*runs, strict=True)]
    sizes = [len(content) for content in contents(folder)]
    print(
        f"{arguments.pictures:,} JPEGs of {sum(sizes) / len(sizes) / 1e3:.0f} KB to "
        f"{OUTPUT} × {OUTPUT}, batches of {BATCH}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f} after\n"
    )
    table(names, best)


if __name__ == "__main__":
    main()
