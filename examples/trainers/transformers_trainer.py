"""Trains with Hugging Face's Trainer, which goes on where the reader was.

cd examples/trainers && torchrun --nproc_per_node=4 transformers_trainer.py DATASET CHECKPOINTS
"""

from __future__ import annotations

import json
from typing import Any

import torch
from common import EPOCHS, SAVE_EVERY, Model, arguments, open_batches, remember
from transformers import Trainer, TrainerCallback, TrainingArguments


class Keep(TrainerCallback):
    """Adds the place of the batches to each checkpoint."""

    def on_save(self, args: Any, state: Any, *_: Any, train_dataloader: Any, **__: Any) -> None:
        """Writes the state."""
        if state.is_world_process_zero:
            path = f"{args.output_dir}/checkpoint-{state.global_step}/batches.json"
            with open(path, "w") as file:
                json.dump(train_dataloader.state_dict(), file)


class Late(Trainer):
    """A trainer whose batches come from a reader."""

    def get_train_dataloader(self) -> Any:
        """Returns the batches of this rank; Accelerate would divide them again."""
        return self.train_dataset

    def compute_loss(self, model: torch.nn.Module, inputs: Any, **_: Any) -> torch.Tensor:
        """Returns the loss of a batch."""
        remember(self.state.global_step + 1, inputs["id"].tolist())
        return model(inputs)


def main() -> None:
    """Trains from the last checkpoint on."""
    options = arguments()
    settings = TrainingArguments(
        str(options.checkpoints), use_cpu=True, ddp_backend="gloo", num_train_epochs=EPOCHS,
        save_steps=SAVE_EVERY, ignore_data_skip=True, report_to=[], disable_tqdm=True,
    )  # fmt: skip
    batches = open_batches(options.dataset, settings.world_size, epochs=1)
    states = options.checkpoints.glob("checkpoint-*/batches.json")
    last = max(states, key=lambda path: int(path.parent.name.split("-")[1]), default=None)
    if last:
        batches.load_state_dict(json.loads(last.read_text()))
    trainer = Late(Model(), settings, train_dataset=batches, callbacks=[Keep()])
    trainer.train(resume_from_checkpoint=str(last.parent) if last else None)


if __name__ == "__main__":
    main()
