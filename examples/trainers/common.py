"""A model, batches and a record of rows, for all trainers."""

from __future__ import annotations

import argparse
import os
import pathlib
import time
from typing import Any

import torch

import beam_pipelines as bp

BATCH_SIZE, EPOCHS, SAVE_EVERY = 24, 2, 5


def arguments() -> argparse.Namespace:
    """Returns the dataset and the folder of checkpoints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("dataset")
    parser.add_argument("checkpoints", type=pathlib.Path)
    parser.add_argument("--workers", type=int, default=1, help="of Ray")
    found = parser.parse_args()
    found.checkpoints.mkdir(parents=True, exist_ok=True)
    return found


def open_batches(dataset: str, world_size: int, epochs: int = EPOCHS) -> bp.Reader[Any]:
    """Returns this rank's part of global batches of one size."""
    size = BATCH_SIZE // world_size
    opened = bp.open(dataset)
    return opened.batches("train", size, as_="torch", seed=1, remainder="drop", epochs=epochs)


class Model(torch.nn.Module):
    """A linear model of the columns ``x`` and ``y``."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2, 1)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Returns the loss of a batch, float32 []."""
        logits = self.linear(torch.stack([batch["x"], batch["y"]], 1)).view(-1)
        labels = batch["late"].float()
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, labels)


def remember(step: int, rows: list[int]) -> None:
    """Writes which rows a step sees, if TRAINED_ROWS names a file.

    A process waits behind the step WAIT_BEHIND, so that a test can kill it there.
    """
    if not (path := os.environ.get("TRAINED_ROWS")):
        return
    if step > int(os.environ.get("WAIT_BEHIND", "1000")):
        time.sleep(600)
    with open(f"{path}.{os.environ.get('RANK', '0')}", "a") as file:
        file.write(f"{step} {' '.join(map(str, rows))}\n")
