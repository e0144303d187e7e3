"""Trains a model that predicts whether a flight arrives late, with PyTorch.

  beam-pipelines convert examples/flights/encoded.yaml --output out/flights-encoded
  python examples/train_flights_torch.py
  export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
  torchrun --standalone --nproc_per_node=2 --max_restarts=3 examples/train_flights_torch.py

Each process trains on its part of every batch, on a GPU of its own or on the CPU. A training that
was killed goes on after its last checkpoint, also with another number of processes. After a
restart by torchrun, gloo needs the variable: else it looks for the processes of before. The example
needs neither TensorFlow nor Beam.
"""

from __future__ import annotations

import argparse
import os
import pathlib
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from feeding import (
    Inputs,
    Waiting,
    area_under_curve,
    embedding_size,
    find_inputs,
    one_line_errors,
    training_parser,
)
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import beam_pipelines as bp

Batch = dict[str, torch.Tensor]


class Network(nn.Module):
    """A small network that takes embedded ids, and numbers."""

    def __init__(self, inputs: Inputs) -> None:
        super().__init__()
        self.inputs = inputs
        tables = {name: (size, embedding_size(size)) for name, (size, _) in inputs.ids.items()}
        self.embeddings = nn.ModuleDict(
            {name: nn.Embedding(*table) for name, table in tables.items()}
        )
        self.layers = nn.Sequential(
            nn.Linear(inputs.width, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1)
        )

    def forward(self, batch: Batch) -> torch.Tensor:
        """Returns the logit of each row, float32 [batch]."""
        rows = len(batch[self.inputs.label])
        parts = [self.embeddings[name](batch[name]).view(rows, -1) for name in self.inputs.ids]
        parts += [batch[name].view(rows, -1) for name in self.inputs.numbers]
        return self.layers(torch.cat(parts, dim=1))[:, 0]


def main() -> None:
    """Trains, evaluates and writes the model."""
    arguments = read_arguments()
    device = start_process()
    torch.manual_seed(7)
    with one_line_errors():
        dataset = bp.open(arguments.folder)
        inputs = find_inputs(dataset)
        # A reader finds its rank by itself. Batches that are full have the mean of their rows as
        # the mean of the processes' means.
        batches = dataset.batches(
            "train",
            arguments.batch_size // world_size(),
            columns=inputs.columns,
            as_="torch",
            seed=7,
            epochs=arguments.epochs,
            remainder="drop",
            device="cuda" if device.type == "cuda" else None,
        )
        held_back = dataset.batches(
            "eval", 4096, columns=inputs.columns, as_="torch", shuffle=False
        )
        model = Network(inputs).to(device)
        train(model, batches, device, arguments)
        labels, scores = evaluate(model, held_back, device)
    say(f"on eval: AUC {area_under_curve(labels, scores):.4f} of {len(labels):,} rows")
    if dist.is_initialized():
        dist.destroy_process_group()


def read_arguments() -> argparse.Namespace:
    """Returns the command line's arguments."""
    arguments = training_parser(__doc__, "out/flights-model-torch").parse_args()
    if arguments.batch_size % world_size():
        raise SystemExit(f"--batch_size: expected a multiple of the {world_size()} processes")
    return arguments


def start_process() -> torch.device:
    """Joins the other processes of torchrun, and returns the device."""
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    if world_size() > 1:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return device


def world_size() -> int:
    """Returns the number of processes."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """Whether this is the process that prints and writes."""
    return os.environ.get("RANK", "0") == "0"


def train(
    model: Network, batches: bp.Reader, device: torch.device, arguments: argparse.Namespace
) -> None:
    """Trains all epochs, or the part behind the last checkpoint."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    path = arguments.output / "checkpoint.pt"
    step, steps = 0, len(batches)
    if path.exists():
        state = torch.load(path, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        batches.load_state_dict(state["batches"])
        step = state["step"]
        say(f"goes on after step {step}")
    network = DistributedDataParallel(model) if dist.is_initialized() else model
    total = torch.zeros((), device=device)  # of the losses since the last checkpoint
    with batches:
        waiting = Waiting(batches)
        for batch in waiting:
            rows = {name: values.to(device) for name, values in batch.items()}
            labels = rows[model.inputs.label].view(-1).float()
            loss = nn.functional.binary_cross_entropy_with_logits(network(rows), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
            step += 1
            if step % arguments.save_every == 0 and step < steps:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                save({**state, "batches": batches.state_dict(), "step": step}, path)
                say(f"step {step} of {steps}, loss {mean(total) / arguments.save_every:.6f}")
                total.zero_()
    say(str(waiting))
    save(model.state_dict(), arguments.output / "model.pt")
    if is_first():
        path.unlink(missing_ok=True)


def save(state: Any, path: pathlib.Path) -> None:
    """Writes a file in the first process.

    A kill leaves the old one or the new one.
    """
    if is_first():
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(state, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)


def mean(number: torch.Tensor) -> float:
    """Returns the mean of all processes' numbers."""
    found = number.clone()
    if dist.is_initialized():
        dist.all_reduce(found)
    return found.item() / world_size()


def say(text: str) -> None:
    """Prints a line in the first process."""
    if is_first():
        print(text, flush=True)


def evaluate(
    model: Network, batches: bp.Reader, device: torch.device
) -> tuple[np.ndarray, np.ndarray]:
    """Returns labels and logits of all rows.

    Each process computes a part of them.
    """
    parts = []
    with batches, torch.no_grad():
        for batch in batches:
            logits = model({name: values.to(device) for name, values in batch.items()})
            parts.append((batch[model.inputs.label].view(-1).numpy(), logits.cpu().numpy()))
    if dist.is_initialized():
        everyone: list[Any] = [None] * world_size()
        dist.all_gather_object(everyone, parts)
        parts = [part for parts in everyone for part in parts]
    labels, logits = zip(*parts, strict=True)
    return np.concatenate(labels), np.concatenate(logits)


if __name__ == "__main__":
    main()
