"""Measures how long a GPU waits for batches.

A model like DLRM trains on the hashed table of bench_read.py: with batches that are on the device
already, with ``device="cuda"``, and with tensors that the training copies itself. With
``--pictures``, ResNet-50 trains on the pictures of bench_read_images.py, which the device or the
CPU decodes. The ways take turns. Medians of all turns count. A step that takes longer than one
without a reader has waited. Readers without a model give the rate that a faster model would reach.

The datasets may come from another machine, as this script needs only the reader, PyTorch and
torchvision:

  python benchmarks/bench_gpu.py .bench/read-200000-hashed --pictures .bench/pictures/ours
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

import beam_pipelines as bp
import criteo_like

INTEGERS = [f"I{number + 1}" for number in range(criteo_like.INTEGERS)]
CATEGORICALS = [f"C{number + 1}" for number in range(criteo_like.CATEGORICALS)]
COLUMNS = ["label", *INTEGERS, *CATEGORICALS]
BUCKETS, WIDTH = 100_000, 128
PICTURE = "image/encoded"
Batch = dict[str, torch.Tensor]
Step = Callable[[Batch], None]


class Dlrm(nn.Module):
    """Embeddings and numbers, all their dot products, and a network over them.

    As in "Deep Learning Recommendation Model for Personalization and Recommendation Systems"
    (Naumov et al., 2019), in the sizes of MLPerf Training, with one table for all categoricals.
    """

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(BUCKETS * len(CATEGORICALS), WIDTH, sparse=True)
        self.bottom = layers(len(INTEGERS), 512, 256, WIDTH)
        vectors = len(CATEGORICALS) + 1
        self.top = layers(WIDTH + vectors * (vectors - 1) // 2, 1024, 1024, 512, 256, 1)
        self.register_buffer("firsts", torch.arange(len(CATEGORICALS)) * BUCKETS)
        self.register_buffer("pairs", torch.tril_indices(vectors, vectors, -1))

    def forward(self, batch: Batch) -> torch.Tensor:
        """Returns the logit of each row, float [batch]."""
        numbers = torch.stack([batch[name] for name in INTEGERS], dim=1).float()
        dense = self.bottom(torch.log1p(numbers))
        ids = torch.stack([batch[name] for name in CATEGORICALS], dim=1) + self.firsts
        vectors = torch.cat([dense[:, None], self.embeddings(ids)], dim=1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        found = products[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([dense, found], dim=1))[:, 0]


def layers(*sizes: int) -> nn.Sequential:
    """Returns linear layers with ReLUs between them."""
    found: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        found += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*found[:-1])


def make_step(device: torch.device) -> Step:
    """Returns a function that trains a new model on a batch."""
    torch.manual_seed(7)
    model = Dlrm().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(batch: Batch) -> None:
        with torch.autocast(device.type, torch.bfloat16):
            logits = model(batch)
        labels = batch["label"].float()
        loss = nn.functional.binary_cross_entropy_with_logits(logits.float(), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def measure(batches: Iterator[Batch], step: Step, steps: int) -> tuple[float, float]:
    """Returns seconds a step, and those in ``next``.

    A fifth of the steps come before, and are not measured.
    """
    for batch in itertools.islice(batches, steps // 4):
        step(batch)
    synchronize()
    waited, start = 0.0, time.perf_counter()
    for _ in range(steps):
        asked = time.perf_counter()
        batch = next(batches)
        waited += time.perf_counter() - asked
        step(batch)
    synchronize()
    return (time.perf_counter() - start) / steps, waited / steps


def synchronize() -> None:
    """Waits until the device has done all."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def make_resnet_step(device: torch.device) -> Step:
    """Returns a function that trains a new ResNet-50 on pictures."""
    import torchvision

    torch.manual_seed(7)
    model = torchvision.models.resnet50().to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(batch: Batch) -> None:
        pixels = batch[PICTURE].permute(0, 3, 1, 2).float() / 255
        with torch.autocast(device.type, torch.bfloat16):
            loss = nn.functional.cross_entropy(
                model(pixels), torch.zeros(len(pixels), device=device).long()
            )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def sources(
    folder: str, batch_size: int, device: torch.device, options: dict[str, Any]
) -> dict[str, Callable[[], Iterator[Batch]]]:
    """Returns the ways to get batches on the device."""
    dataset = bp.open(folder)

    def read(**more: Any) -> bp.Reader:
        return dataset.batches(
            "train", batch_size, as_="torch", seed=7, epochs=1 << 20, remainder="drop",
            **(options | more),
        )  # fmt: skip

    def copied() -> Iterator[Batch]:
        with read() as reader:
            for batch in reader:
                yield {name: values.to(device) for name, values in batch.items()}

    def ahead(**more: Any) -> Iterator[Batch]:
        with read(device="cuda", **more) as reader:
            yield from reader

    kept = list(itertools.islice(copied(), 8))
    found: dict[str, Callable[[], Iterator[Batch]]] = {
        "on the device already": lambda: itertools.cycle(kept)
    }
    if torch.cuda.is_available():
        found['device="cuda"'] = ahead
        if "images" in options:
            on_device = {
                name: image._replace(device="cuda") for name, image in options["images"].items()
            }
            found['device="cuda", also of bp.Image'] = lambda: ahead(images=on_device)
    return {**found, ".to(device)": copied}


def main() -> None:
    """Measures batches of several sizes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", help="the dataset, or a pattern of several")
    parser.add_argument("--pictures", metavar="FOLDER", help="a dataset of pictures")
    parser.add_argument("--batch_sizes", type=int, nargs="+", default=[2048, 8192, 32768])
    parser.add_argument("--rows", type=int, default=2_000_000, help="to train on, in each turn")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--int32", action="store_true", help="narrow all integers")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    cores = len(os.sched_getaffinity(0))
    print(f"{name}, {cores} cores, PyTorch {torch.__version__}\n")
    print("| batch | batches | ms/step | rows/s | in next | waited | rows/s without a model |")
    print("|---:|---|---:|---:|---:|---:|---:|", flush=True)
    table: dict[str, Any] = {"columns": COLUMNS}
    if arguments.int32:
        table["types"] = dict.fromkeys(COLUMNS, "int32")
    for size in arguments.batch_sizes:
        compare(arguments, arguments.folder, device, size, arguments.rows, table, make_step)
    if arguments.pictures:
        cut = {"columns": [PICTURE], "images": {PICTURE: bp.Image((224, 224), crop="random")}}
        size, rows = min(128, arguments.rows // 64), min(10_000, arguments.rows)
        compare(arguments, arguments.pictures, device, size, rows, cut, make_resnet_step)


def compare(
    arguments: argparse.Namespace,
    folder: str,
    device: torch.device,
    size: int,
    rows: int,
    options: dict[str, Any],
    make: Callable[[torch.device], Step],
) -> None:
    """Prints a line of the table for each way to get batches."""
    steps = max(8, rows // size)
    ways = sources(folder, size, device, options)
    step = make(device)
    turns = [
        {
            way: (measure(begin(), step, steps), measure(begin(), lambda _: None, steps)[0])
            for way, begin in ways.items()
        }
        for _ in range(arguments.repeats)
    ]
    least = 0.0
    for way in ways:
        seconds = statistics.median(turn[way][0][0] for turn in turns)
        inside = statistics.median(turn[way][0][1] for turn in turns)
        alone = statistics.median(turn[way][1] for turn in turns)
        least = least or seconds
        rate = "" if way.startswith("on the") else f"{size / alone:,.0f}"
        print(
            f"| {size:,} | {way} | {seconds * 1e3:.2f} | {size / seconds:,.0f} | "
            f"{inside / seconds:.1%} | {max(0.0, 1 - least / seconds):.1%} | {rate} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
