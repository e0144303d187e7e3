"""Trains a model that predicts whether a flight arrives late, with JAX.

  beam-pipelines convert examples/flights/encoded.yaml --output out/flights-encoded
  python examples/train_flights_jax.py

It divides the rows of each batch among all devices. To try it out, set XLA_FLAGS to
--xla_force_host_platform_device_count=2, which makes two of the CPU. A training that was killed
goes on after its last checkpoint, also with another number of devices. It needs neither TensorFlow
nor Beam.
"""

from __future__ import annotations

import argparse
import itertools
import json
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from feeding import (
    Inputs,
    Waiting,
    area_under_curve,
    embedding_size,
    find_inputs,
    one_line_errors,
    training_parser,
)
from jax.sharding import NamedSharding, PartitionSpec

import beam_pipelines as bp

# Of Adam: the learning rate, the decay of both means, and the least divisor.
RATE, DECAYS, LEAST = 0.001, (0.9, 0.999), 1e-8


class State(NamedTuple):
    """The weights, and the optimizer's means of gradients and of their squares."""

    weights: dict[str, Any]
    means: dict[str, Any]
    squares: dict[str, Any]
    step: Any


def main() -> None:
    """Trains, evaluates and writes the model."""
    arguments = read_arguments()
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("rows",))
    with one_line_errors():
        dataset = bp.open(arguments.folder)
        inputs = find_inputs(dataset)
        # JAX has no int64 by default.
        narrow = dict.fromkeys(inputs.integers, "int32")
        # Batches that are full are compiled once, and can be divided.
        batches = dataset.batches(
            "train",
            arguments.batch_size,
            columns=inputs.columns,
            types=narrow,
            as_="jax",
            sharding=NamedSharding(mesh, PartitionSpec("rows")),
            seed=7,
            epochs=arguments.epochs,
            remainder="drop",
        )
        held_back = dataset.batches(
            "eval", 4096, columns=inputs.columns, types=narrow, as_="jax", shuffle=False
        )
        weights = train(inputs, batches, mesh, arguments)
        labels, scores = evaluate(inputs, weights, held_back)
    print(f"on eval: AUC {area_under_curve(labels, scores):.4f} of {len(labels):,} rows")


def read_arguments() -> argparse.Namespace:
    """Returns the command line's arguments."""
    arguments = training_parser(__doc__, "out/flights-model-jax").parse_args()
    if arguments.batch_size % jax.device_count():
        raise SystemExit(f"--batch_size: expected a multiple of the {jax.device_count()} devices")
    return arguments


def train(
    inputs: Inputs, batches: bp.Reader, mesh: jax.sharding.Mesh, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Trains all epochs, or the part after the last checkpoint."""
    weights = initial_weights(inputs)
    zeros = jax.tree.map(jnp.zeros_like, weights)
    state = State(weights, zeros, zeros, jnp.zeros((), jnp.int32))
    path = arguments.output / "checkpoint.npz"
    step, steps = 0, len(batches)
    if path.exists():
        state = load(path, state, batches)
        step = int(state.step)
        print(f"goes on after step {step}", flush=True)
    update = make_update(inputs)
    state = jax.device_put(state, NamedSharding(mesh, PartitionSpec()))
    total = jnp.zeros(())  # of the losses since the last checkpoint
    with batches:
        waiting = Waiting(batches)
        for batch in waiting:
            state, loss = update(state, batch)
            total += loss
            step += 1
            if step % arguments.save_every == 0 and step < steps:
                save(path, state, batches)
                mean = float(total) / arguments.save_every
                print(f"step {step} of {steps}, loss {mean:.6f}", flush=True)
                total = jnp.zeros(())
        jax.block_until_ready(state)
    print(waiting)
    write(arguments.output / "model.npz", state.weights)
    path.unlink(missing_ok=True)
    return state.weights


def initial_weights(inputs: Inputs) -> dict[str, Any]:
    """Returns embeddings, and the layers of a small network."""
    random = np.random.default_rng(7)

    def normal(rows: int, columns: int, scale: float) -> jax.Array:
        return jnp.asarray(scale * random.standard_normal((rows, columns)), jnp.float32)

    sizes = (inputs.width, 64, 32, 1)
    return {
        "embeddings": {
            name: normal(size, embedding_size(size), 1.0) for name, (size, _) in inputs.ids.items()
        },
        "layers": [
            {"matrix": normal(rows, columns, (2 / rows) ** 0.5), "bias": jnp.zeros(columns)}
            for rows, columns in itertools.pairwise(sizes)
        ],
    }


def logits_of(inputs: Inputs, weights: dict[str, Any], batch: Mapping[str, Any]) -> jax.Array:
    """Returns the logit of each row, float32 [batch]."""
    rows = len(batch[inputs.label])
    parts = [weights["embeddings"][name][batch[name]].reshape(rows, -1) for name in inputs.ids]
    parts += [batch[name].reshape(rows, -1) for name in inputs.numbers]
    hidden = jnp.concatenate(parts, axis=1)
    *layers, last = weights["layers"]
    for layer in layers:
        hidden = jax.nn.relu(hidden @ layer["matrix"] + layer["bias"])
    return (hidden @ last["matrix"] + last["bias"])[:, 0]


def make_update(inputs: Inputs) -> Any:
    """Returns a compiled step of Adam.

    It takes state and batch, and returns state and loss.
    """

    def loss_of(weights: dict[str, Any], batch: Mapping[str, Any]) -> jax.Array:
        logits = logits_of(inputs, weights, batch)
        labels = batch[inputs.label].reshape(-1)
        return jnp.mean(jax.nn.softplus(logits) - labels * logits)

    def update(state: State, batch: Mapping[str, Any]) -> tuple[State, jax.Array]:
        loss, slopes = jax.value_and_grad(loss_of)(state.weights, batch)
        step, (keep, keep_square) = state.step + 1, DECAYS
        means = jax.tree.map(lambda a, b: keep * a + (1 - keep) * b, state.means, slopes)
        squares = jax.tree.map(
            lambda a, b: keep_square * a + (1 - keep_square) * b * b, state.squares, slopes
        )
        scale, scale_square = 1 / (1 - keep**step), 1 / (1 - keep_square**step)
        weights = jax.tree.map(
            lambda a, b, c: a - RATE * scale * b / (jnp.sqrt(scale_square * c) + LEAST),
            state.weights,
            means,
            squares,
        )
        return State(weights, means, squares, step), loss

    return jax.jit(update)


def save(path: pathlib.Path, state: State, batches: bp.Reader) -> None:
    """Writes the state and the place in the dataset."""
    write(path, {"state": state, "batches": np.array(json.dumps(batches.state_dict()))})


def load(path: pathlib.Path, state: State, batches: bp.Reader) -> State:
    """Returns a checkpoint's state, and goes to its place in the dataset.

    Args:
      path: of the checkpoint.
      state: of the same structure.
      batches: the reader.
    """
    arrays = np.load(path)
    tree = {"state": state, "batches": np.array("")}
    leaves = [arrays[str(number)] for number in range(len(arrays.files))]
    found = jax.tree.unflatten(jax.tree.structure(tree), leaves)
    batches.load_state_dict(json.loads(str(found["batches"])))
    return found["state"]


def write(path: pathlib.Path, tree: Any) -> None:
    """Writes the arrays of a tree.

    A kill leaves the old file or the new one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new.npz")
    np.savez(new, **{str(number): leaf for number, leaf in enumerate(jax.tree.leaves(tree))})
    new.replace(path)


def evaluate(
    inputs: Inputs, weights: dict[str, Any], batches: bp.Reader
) -> tuple[np.ndarray, np.ndarray]:
    """Returns labels and logits of all rows."""
    score = jax.jit(lambda batch: logits_of(inputs, weights, batch))
    labels, logits = [], []
    with batches:
        for batch in batches:
            labels.append(batch[inputs.label].reshape(-1))
            logits.append(score(batch))
    return np.concatenate(labels), np.concatenate(logits)


if __name__ == "__main__":
    main()
