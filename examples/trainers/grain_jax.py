"""Trains with JAX and an iterator of Grain, as MaxText does.

RANK=0 WORLD_SIZE=2 MASTER_PORT=12345 python grain_jax.py DATASET CHECKPOINTS
"""

from __future__ import annotations

import json
import os

import jax
import numpy as np
from common import BATCH_SIZE, EPOCHS, SAVE_EVERY, arguments, remember
from jax.experimental import multihost_utils

from beam_pipelines.adapters.grain import GrainBatches

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def loss_of(weights: jax.Array, batch: dict[str, jax.Array]) -> jax.Array:
    """Returns the loss of a batch, float32 []."""
    logits = jax.numpy.stack([batch["x"], batch["y"]], 1) @ weights
    return (jax.nn.softplus(logits) - batch["late"] * logits).mean()


def main() -> None:
    """Trains from the last checkpoint on."""
    options = arguments()
    jax.distributed.initialize(f"127.0.0.1:{os.environ['MASTER_PORT']}", WORLD, RANK)
    mesh = jax.make_mesh((WORLD,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    kind = {"as_": "jax", "sharding": rows, "seed": 1, "remainder": "drop", "epochs": EPOCHS}
    batches = iter(GrainBatches(options.dataset, "train", BATCH_SIZE // WORLD, **kind))
    gradient = jax.jit(jax.grad(loss_of))
    weights, step, path = np.zeros(2, np.float32), 0, options.checkpoints / "last.json"
    if path.exists():
        state = json.loads(path.read_text())
        weights, step = np.array(state["weights"], np.float32), state["step"]
        batches.set_state(state["batches"])
    for batch in batches:
        step += 1
        weights = weights - 0.1 * np.asarray(gradient(weights, batch))
        remember(step, batch["id"].addressable_data(0).tolist())
        if step % SAVE_EVERY == 0:
            if RANK == 0:
                state = {"weights": weights.tolist(), "step": step, "batches": batches.get_state()}
                path.with_suffix(".new").write_text(json.dumps(state))
                os.replace(path.with_suffix(".new"), path)
            multihost_utils.sync_global_devices(str(step))


if __name__ == "__main__":
    main()
