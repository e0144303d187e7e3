"""Trains with torchtitan's data loader and checkpoints.

torchrun --standalone --nproc_per_node=4 torchtitan_loop.py DATASET CHECKPOINTS
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from common import SAVE_EVERY, Model, arguments, open_batches, remember
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torchtitan.components.checkpoint import CheckpointManager
from torchtitan.components.dataloader import BaseDataLoader


class Rows(BaseDataLoader):
    """Batches with the same state on all ranks."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        """``dataset_path`` is the dataset's folder."""

    def __init__(self, config: Config, *, dp_world_size: int) -> None:
        self._batches = open_batches(config.dataset_path, dp_world_size)
        self.state_dict = self._batches.state_dict
        self.load_state_dict = self._batches.load_state_dict

    def __iter__(self) -> Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]:
        return ((batch, batch["late"]) for batch in self._batches)


def main() -> None:
    """Trains from the last checkpoint on."""
    options = arguments()
    dist.init_process_group("gloo")
    model = fully_shard(Model(), mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    batches = Rows.Config(dataset_path=options.dataset).build(dp_world_size=dist.get_world_size())
    schedule = torch.optim.lr_scheduler.ConstantLR(optimizer)
    how = CheckpointManager.Config(enable=True, interval=SAVE_EVERY, keep_latest_k=0)
    parts = {"dataloader": batches, "model_parts": [model], "optimizers": optimizer}
    parts |= {"lr_schedulers": schedule, "states": {}, "sd_adapter": None}
    checkpoints = how.build(**parts, base_folder=str(options.checkpoints))
    checkpoints.load()
    for step, (inputs, _) in enumerate(batches, schedule.last_epoch + 1):
        optimizer.zero_grad()
        model(inputs).backward()
        optimizer.step()
        schedule.step()
        remember(step, inputs["id"].tolist())
        checkpoints.save(step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
