"""Trains with Lightning, whose checkpoints have the state of the batches.

torchrun --standalone --nproc_per_node=4 lightning_ddp.py DATASET CHECKPOINTS
"""

from __future__ import annotations

import os

import lightning
import torch
from common import SAVE_EVERY, Model, arguments, open_batches, remember
from lightning.pytorch.callbacks import ModelCheckpoint


class Late(lightning.LightningModule):
    """The model as Lightning wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Returns the optimizer."""
        return torch.optim.Adam(self.parameters(), 0.01)

    def training_step(self, batch: dict[str, torch.Tensor], _: int) -> torch.Tensor:
        """Returns the loss of a batch."""
        remember(self.global_step + 1, batch["id"].tolist())
        return self.model(batch)


def main() -> None:
    """Trains from the last checkpoint on; the reader counts the epochs."""
    options = arguments()
    saved = ModelCheckpoint(
        options.checkpoints, "last", every_n_train_steps=SAVE_EVERY, enable_version_counter=False
    )
    trainer = lightning.Trainer(
        accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), max_epochs=1,
        strategy="ddp", use_distributed_sampler=False, logger=False, callbacks=[saved],
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    batches = open_batches(options.dataset, int(os.environ["WORLD_SIZE"]))
    path = options.checkpoints / "last.ckpt"
    trainer.fit(Late(), batches, ckpt_path=path if path.exists() else None)


if __name__ == "__main__":
    main()
