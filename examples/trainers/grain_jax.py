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
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from beam_pipelines.adapters.grain import GrainBatches

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


@jax.jit
def update(weights: jax.Array, x: jax.Array, late: jax.Array) -> jax.Array:
    """Returns the weights behind a step; x is [batch, 2], late [batch]."""

    def loss(weights: jax.Array) -> jax.Array:
        logits = x @ weights
        return (jax.nn.softplus(logits) - late * logits).mean()

    return weights - 0.1 * jax.grad(loss)(weights)


def main() -> None:
    """Trains from the last checkpoint on."""
    options = arguments()
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{os.environ['MASTER_PORT']}", WORLD, RANK)
    rows = NamedSharding(
        jax.make_mesh((WORLD,), ("rows",), axis_types=(AxisType.Auto,)), PartitionSpec("rows")
    )
    data = GrainBatches(
        options.dataset,
        "train",
        BATCH_SIZE // WORLD,
        seed=1,
        remainder="drop",
        epochs=EPOCHS,
        rank=RANK,
        world_size=WORLD,
    )
    batches = iter(data)
    weights, step, path = np.zeros(2, np.float32), 0, options.checkpoints / "last.json"
    if path.exists():
        state = json.loads(path.read_text())
        weights, step = np.array(state["weights"], np.float32), state["step"]
        batches.set_state(state["batches"])
    for batch in batches:
        step += 1
        x = np.stack([batch["x"], batch["y"]], 1)
        x, late = (
            jax.make_array_from_process_local_data(rows, each) for each in (x, batch["late"])
        )
        weights = np.asarray(update(weights, x, late))
        remember(step, batch["id"].tolist())
        if step % SAVE_EVERY == 0:
            if RANK == 0:
                state = {"weights": weights.tolist(), "step": step, "batches": batches.get_state()}
                path.with_suffix(".new").write_text(json.dumps(state))
                os.replace(path.with_suffix(".new"), path)
            multihost_utils.sync_global_devices(str(step))


if __name__ == "__main__":
    main()
