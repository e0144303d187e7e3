"""Trains with DistributedDataParallel, and goes on with any number of processes.

torchrun --standalone --nproc_per_node=4 ddp.py DATASET CHECKPOINTS
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from common import SAVE_EVERY, Model, arguments, open_batches, remember


def main() -> None:
    """Trains from the last checkpoint on."""
    options = arguments()
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(Model())
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    batches = open_batches(options.dataset, dist.get_world_size())
    path, step = options.checkpoints / "last.pt", 0
    if path.exists():
        state = torch.load(path)
        model.module.load_state_dict(state["model"])
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
            if dist.get_rank() == 0:
                state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
                state |= {"batches": batches.state_dict(), "step": step}
                torch.save(state, path.with_suffix(".new"))
                os.replace(path.with_suffix(".new"), path)
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
