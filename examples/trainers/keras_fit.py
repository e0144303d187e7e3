"""Trains with Keras, which goes on at whole epochs.

KERAS_BACKEND=torch python keras_fit.py DATASET CHECKPOINTS
"""

from __future__ import annotations

from typing import Any

import keras
from common import BATCH_SIZE, EPOCHS, arguments, remember

from beam_pipelines.adapters.keras import KerasBatches


class Late(keras.Model):
    """A linear model of the columns ``x`` and ``y``."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, inputs: dict[str, Any]) -> Any:
        """Returns logits, float32 [batch, 1]."""
        return self.dense(keras.ops.stack([inputs["x"], inputs["y"]], 1))

    def train_step(self, data: Any) -> Any:
        """Trains on a batch."""
        remember(int(self.optimizer.iterations) + 1, data[0]["id"].tolist())
        return super().train_step(data)


class SameEpoch(keras.callbacks.Callback):
    """Reads the epoch that Keras trains, also behind a restart."""

    def __init__(self, batches: KerasBatches) -> None:
        super().__init__()
        self.batches = batches

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Sets the epoch."""
        self.batches.epoch = epoch


def main() -> None:
    """Trains from the last whole epoch on."""
    options = arguments()
    batches = KerasBatches(options.dataset, "train", BATCH_SIZE, seed=1, remainder="drop")
    model = Late()
    model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True), run_eagerly=True)
    backup = keras.callbacks.BackupAndRestore(str(options.checkpoints), delete_checkpoint=False)
    model.fit(
        batches, epochs=EPOCHS, shuffle=False, verbose=0, callbacks=[backup, SameEpoch(batches)]
    )


if __name__ == "__main__":
    main()
