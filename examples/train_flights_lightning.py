"""Trains a model that predicts whether a flight arrives late, with Lightning.

  beam-pipelines convert examples/flights/encoded.yaml --output out/flights-encoded
  python examples/train_flights_lightning.py

The network is that of train_flights_torch.py. A training that was killed goes on after its last
checkpoint: Lightning stores the state of a StatefulDataLoader.
"""

from __future__ import annotations

import lightning
import numpy as np
import torch
from feeding import Inputs, area_under_curve, find_inputs, one_line_errors, training_parser
from lightning.pytorch.callbacks import ModelCheckpoint
from torchdata.stateful_dataloader import StatefulDataLoader
from train_flights_torch import Batch, Network

import beam_pipelines as bp
from beam_pipelines.adapters.pytorch import TorchBatches


class Flights(lightning.LightningDataModule):
    """The batches of a dataset, divided among processes."""

    def __init__(self, dataset: bp.Dataset, inputs: Inputs, batch_size: int) -> None:
        super().__init__()
        self.dataset, self.columns, self.batch_size = dataset, inputs.columns, batch_size

    def train_dataloader(self) -> StatefulDataLoader:
        """Returns the loader of ``train``, whose state is in checkpoints."""
        batches = TorchBatches(
            self.dataset,
            "train",
            self.batch_size // self.trainer.world_size,
            columns=self.columns,
            seed=7,
            remainder="drop",
        )
        return StatefulDataLoader(batches, batch_size=None)

    def val_dataloader(self) -> StatefulDataLoader:
        """Returns the loader of ``eval``, in stored order."""
        batches = TorchBatches(self.dataset, "eval", 4096, columns=self.columns, shuffle=False)
        return StatefulDataLoader(batches, batch_size=None)


class Late(lightning.LightningModule):
    """The network with its loss and score."""

    def __init__(self, inputs: Inputs) -> None:
        super().__init__()
        self.network, self.label = Network(inputs), inputs.label
        self.scored: list[tuple[np.ndarray, np.ndarray]] = []

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Returns the optimizer."""
        return torch.optim.Adam(self.parameters(), lr=0.001)

    def training_step(self, batch: Batch, _: int) -> torch.Tensor:
        """Returns the loss of a batch."""
        labels = batch[self.label].view(-1).float()
        return torch.nn.functional.binary_cross_entropy_with_logits(self.network(batch), labels)

    def validation_step(self, batch: Batch, _: int) -> None:
        """Scores a batch."""
        labels, logits = batch[self.label].view(-1), self.network(batch)
        self.scored.append((labels.cpu().numpy(), logits.cpu().numpy()))

    def on_validation_epoch_end(self) -> None:
        """Prints the score of this process' rows."""
        labels, logits = (np.concatenate(parts) for parts in zip(*self.scored, strict=True))
        self.scored.clear()
        print(f"on eval: AUC {area_under_curve(labels, logits):.4f} of {len(labels):,} rows")


def main() -> None:
    """Trains, evaluates after each epoch, and writes the model."""
    arguments = training_parser(__doc__, "out/flights-model-lightning").parse_args()
    with one_line_errors():
        dataset = bp.open(arguments.folder)
        inputs = find_inputs(dataset)
    torch.manual_seed(7)
    checkpoints = ModelCheckpoint(
        arguments.output,
        "checkpoint",
        every_n_train_steps=arguments.save_every,
        enable_version_counter=False,
    )
    trainer = lightning.Trainer(
        max_epochs=arguments.epochs,
        callbacks=[checkpoints],
        logger=False,
        num_sanity_val_steps=0,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model, path = Late(inputs), arguments.output / "checkpoint.ckpt"
    trainer.fit(
        model,
        datamodule=Flights(dataset, inputs, arguments.batch_size),
        ckpt_path=path if path.exists() else None,
    )
    torch.save(model.network.state_dict(), arguments.output / "model.pt")
    path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
