"""Trains with Accelerate, which stores whatever has a state.

torchrun --standalone --nproc_per_node=4 accelerated.py DATASET CHECKPOINTS
"""

from __future__ import annotations

import os

import torch
from accelerate import Accelerator
from common import SAVE_EVERY, Model, arguments, open_batches, remember


class Step:
    """The number of steps, as a part of the state."""

    def __init__(self) -> None:
        self.value = 0

    def state_dict(self) -> dict[str, int]:
        """Returns the number."""
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Takes the number of a state."""
        self.value = state["value"]


def main() -> None:
    """Trains from the last checkpoint on."""
    options = arguments()
    accelerator = Accelerator(cpu=True)
    model = Model()
    # The batches stay as they are: the reader divides rows among ranks itself.
    model, optimizer = accelerator.prepare(model, torch.optim.Adam(model.parameters(), 0.01))
    batches, step = open_batches(options.dataset, accelerator.num_processes), Step()
    accelerator.register_for_checkpointing(batches, step)
    last = options.checkpoints / "last"
    if last.exists():
        accelerator.load_state(str(last.resolve()))
    for batch in batches:
        step.value += 1
        optimizer.zero_grad()
        accelerator.backward(model(batch))
        optimizer.step()
        remember(step.value, batch["id"].tolist())
        if step.value % SAVE_EVERY == 0:
            accelerator.save_state(str(options.checkpoints / f"step-{step.value}"))
            accelerator.wait_for_everyone()
            if accelerator.is_main_process:
                os.symlink(f"step-{step.value}", options.checkpoints / "new")
                os.replace(options.checkpoints / "new", last)
            accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
