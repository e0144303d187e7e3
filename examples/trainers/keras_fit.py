"""Trains with Keras on JAX, which resumes between short epochs.

KERAS_BACKEND=jax RANK=0 WORLD_SIZE=2 MASTER_PORT=12345 python keras_fit.py DATASET CHECKPOINTS
"""

from __future__ import annotations

import os
from typing import Any

import keras
from common import BATCH_SIZE, SAVE_EVERY, arguments, open_batches, remember

from beam_pipelines.adapters.keras import KerasBatches

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class Rows(KerasBatches):
    """Batches that keep the ids of the last one."""

    def __getitem__(self, index: int) -> Any:
        features, label = super().__getitem__(index)
        self.ids = features.pop("id")
        return features, label


def main() -> None:
    """Trains from the last checkpoint on."""
    options = arguments()
    keras.distribution.initialize(f"127.0.0.1:{os.environ['MASTER_PORT']}", WORLD, RANK)
    keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
    inputs = {name: keras.Input((), name=name) for name in ("x", "y")}
    columns = keras.ops.stack(list(inputs.values()), 1)
    model = keras.Model(inputs, keras.layers.Dense(1)(columns))
    model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
    model.optimizer.build(model.trainable_variables)
    path = options.checkpoints / "last.weights.h5"
    if path.exists():
        model.load_weights(path)
    how = {"steps_per_epoch": SAVE_EVERY, "seed": 1, "remainder": "drop"}
    batches = Rows(options.dataset, "train", BATCH_SIZE // WORLD, **how)
    batches.epoch = int(model.optimizer.iterations) // SAVE_EVERY

    def note(batch: int, **_: Any) -> None:
        remember(batches.epoch * SAVE_EVERY + batch + 1, batches.ids.tolist())

    def save(*_: Any, **__: Any) -> None:
        new = path.with_name(f"new-{RANK}.weights.h5")
        model.save_weights(new)  # JAX waits for all processes here
        if RANK == 0:
            os.replace(new, path)

    epochs = len(open_batches(options.dataset, WORLD)) // SAVE_EVERY
    calls = keras.callbacks.LambdaCallback(on_train_batch_end=note, on_epoch_end=save)
    model.fit(batches, epochs=epochs, initial_epoch=batches.epoch, shuffle=False, callbacks=[calls])


if __name__ == "__main__":
    main()
