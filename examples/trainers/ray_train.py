"""Trains with Ray Train, whose workers are ranks.

python ray_train.py DATASET CHECKPOINTS --workers 4
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

import ray
import torch
from common import SAVE_EVERY, Model, arguments, open_batches, remember
from ray import train
from ray.train.torch import TorchTrainer


def loop(config: dict[str, Any]) -> None:
    """Trains as one rank, from the last checkpoint on."""
    context = train.get_context()
    os.environ["RANK"] = str(context.get_world_rank())
    model = train.torch.prepare_model(Model())
    inner = getattr(model, "module", model)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    batches, step = open_batches(config["dataset"], context.get_world_size()), 0
    if checkpoint := train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"))
        inner.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        batches.load_state_dict(state["batches"])
        step = state["step"]
    for batch in batches:
        step += 1
        optimizer.zero_grad()
        model(batch).backward()
        optimizer.step()
        remember(step, batch["id"].tolist())
        if step % SAVE_EVERY == 0:
            with tempfile.TemporaryDirectory() as folder:
                state = {"model": inner.state_dict(), "optimizer": optimizer.state_dict()}
                state |= {"batches": batches.state_dict(), "step": step}
                torch.save(state, os.path.join(folder, "state.pt"))
                is_first = context.get_world_rank() == 0
                train.report({}, checkpoint=train.Checkpoint(folder) if is_first else None)


def main() -> None:
    """Runs the workers, behind the last checkpoint of the name."""
    options = arguments()
    ray.init(include_dashboard=False, log_to_driver=False)
    run = train.RunConfig(name="late", storage_path=str(options.checkpoints.resolve()))
    workers = train.ScalingConfig(num_workers=options.workers, resources_per_worker={"CPU": 0.1})
    config = {"dataset": options.dataset}
    TorchTrainer(loop, train_loop_config=config, scaling_config=workers, run_config=run).fit()


if __name__ == "__main__":
    main()
