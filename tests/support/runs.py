"""Plans and conversions of recipes that tests write as text."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.sources import plan as plan_module


def short_ranges(patch: pytest.MonkeyPatch, size: int) -> None:
    """Cuts files into ranges of a size in bytes."""
    patch.setattr(plan_module, "RANGE_BYTES", size)
    patch.setattr(plan_module.cut_ranges, "__defaults__", (size,))


def plan_in(folder: Path, recipe: str) -> Plan:
    """Plans a recipe whose paths begin in a folder."""
    return make_plan(parse_recipe(recipe, "recipe.yaml", str(folder)))


def convert_in(
    folder: Path, recipe: str | Plan, out: str = "out", *options: str, **arguments: Any
) -> Manifest:
    """Converts a recipe, or its plan, into ``out`` and verifies the dataset."""
    plan = plan_in(folder, recipe) if isinstance(recipe, str) else recipe
    output = str(folder / out)
    manifest = convert.convert(plan, output, beam_options=options, quiet=True, **arguments)
    verify_dataset(output)
    return manifest


def of_workers(folder: Path, recipe: str | Plan, facts: Callable[[Manifest], object]) -> Manifest:
    """Converts with one worker into ``out1``, with four into ``out4``.

    The shards have the same bytes, and both manifests the same facts.
    """
    one, four = (
        convert_in(folder, recipe, f"out{workers}", f"--direct_num_workers={workers}")
        for workers in (1, 4)
    )
    assert one.splits == four.splits
    assert facts(one) == facts(four)
    return four


@contextlib.contextmanager
def touched(table: Path, output: Path) -> Iterator[None]:
    """Changes a table's time once a shard is finished; restores it afterwards."""
    before = table.stat()

    def touch() -> None:
        while not list(output.glob("_temporary/kept/*")):
            time.sleep(0.001)
        os.utime(table, (before.st_atime, before.st_mtime + 60))

    thread = threading.Thread(target=touch, daemon=True)
    thread.start()
    yield
    thread.join()
    os.utime(table, ns=(before.st_atime_ns, before.st_mtime_ns))
