"""Trains with FSDP2; another number of processes shards the model again.

torchrun --standalone --nproc_per_node=4 fsdp.py DATASET CHECKPOINTS
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from common import SAVE_EVERY, Model, arguments, open_batches, remember
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main() -> None:
    """Trains from the last checkpoint on."""
    options = arguments()
    dist.init_process_group("gloo")
    model = fully_shard(Model(), mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    batches = open_batches(options.dataset, dist.get_world_size())
    last, step = options.checkpoints / "last", 0
    if last.exists():
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": moments, "batches": batches.state_dict(), "step": 0}
        dcp.load(state, checkpoint_id=last.resolve())
        set_state_dict(
            model, optimizer, model_state_dict=weights, optim_state_dict=state["optimizer"]
        )
        batches.load_state_dict(state["batches"])
        step = state["step"]
    for batch in batches:
        step += 1
        optimizer.zero_grad()
        model(batch).backward()
        optimizer.step()
        remember(step, batch["id"].tolist())
        if step % SAVE_EVERY == 0:
            weights, moments = get_state_dict(model, optimizer)
            state = {"model": weights, "optimizer": moments, "step": step}
            state["batches"] = batches.state_dict()
            dcp.save(state, checkpoint_id=options.checkpoints / f"step-{step}")
            if dist.get_rank() == 0:
                os.symlink(f"step-{step}", options.checkpoints / "new")
                os.replace(options.checkpoints / "new", last)
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
