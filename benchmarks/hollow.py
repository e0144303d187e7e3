"""Drives what one worker does at 100 TB, without the rows.

Files of the right size have a line and a hole. Results of six million ranges, which workers would
give, are drawn. All others are what a run does: listing, plan, job graph, list of ranges, merges
of row counts, shard plan, dealing, indexes, commit, manifest. Each process is one of a run, and
what crosses between them is stored or measured as Beam's coder makes it.

  python benchmarks/hollow.py --ranges 6000000
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import multiprocessing
import pathlib
import pickle
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.coders import FastPrimitivesCoder

from beam_pipelines.core.chunks import Chunk, ChunkCounts
from beam_pipelines.core.layout.shard_formats import part_compression_of
from beam_pipelines.core.limits import MIB
from beam_pipelines.dataset.manifest import read_manifest
from beam_pipelines.files.beam import files
from beam_pipelines.files.beam.file_checksums import RunFile
from beam_pipelines.pipeline import artifacts, commit, first_pass_result, resume
from beam_pipelines.pipeline.convert import Conversion
from beam_pipelines.pipeline.planning.plan import Plan, store_lists
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.pipeline.run_options import RunFolders
from beam_pipelines.sources.plan import RANGE_BYTES
from beam_pipelines.tfrecord.part_index import PartColumns
from beam_pipelines.transforms import row_counts
from beam_pipelines.transforms.deal import DealtShard, to_bins, to_shards
from beam_pipelines.transforms.exchange import MAX_ELEMENT_BYTES, MOST_IN_ELEMENT
from beam_pipelines.transforms.shards import (
    LoadedShardPlan,
    save_shard_plan,
    shard_path,
    write_own_index,
)
from beam_pipelines.transforms.spill import SpilledChunk
from beam_pipelines.transforms.statistics import SplitTables
from beam_pipelines.transforms.write import ShardInfo

RANGES_OF_A_FILE = 64
MOST_SECS, MOST_BYTES = 600, 2 << 30
ROW_BYTES = 262
RECIPE = """
name: hollow
sources: {lines: {path: 'lines/*.jsonl', types: {text: text, number: int64}}}
from: lines
filter: number >= 0
split: {train: 0.9, eval: 0.1}
"""
_DEALT = 1000

encoded = FastPrimitivesCoder().encode


@dataclasses.dataclass
class Run:
    """A run's folder, and the sizes of its elements.

    Attributes:
      folder: of data and output.
      ranges: number of ranges.
      largest: bytes of the largest element so far.
    """

    folder: pathlib.Path
    ranges: int
    largest: int = 0

    @property
    def folders(self) -> RunFolders:
        """The folders of the run."""
        return RunFolders(str(self.folder / "out"))

    @property
    def shared(self) -> str:
        """The folder of row counts."""
        return self.folders.scratch_of("row_counts")

    def crosses(self, element: Any) -> None:
        """Notes the size of an element."""
        self.largest = max(self.largest, len(encoded(element)))

    def keep(self, name: str, value: Any) -> None:
        """Stores a value for another process."""
        (self.folder / name).write_bytes(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))

    def kept(self, name: str) -> Any:
        """Returns a value of another process."""
        return pickle.loads((self.folder / name).read_bytes())  # noqa: S301 - our own


def write_files(run: Run) -> None:
    """Makes files with holes."""
    folder = run.folder / "lines"
    folder.mkdir(parents=True)
    line = b'{"text": "a", "number": 1}\n'
    for first in range(0, run.ranges, RANGES_OF_A_FILE):
        count = min(RANGES_OF_A_FILE, run.ranges - first)
        with open(folder / f"part-{first // RANGES_OF_A_FILE:06d}.jsonl", "wb") as file:
            file.write(line * 2)
            file.truncate(count * RANGE_BYTES)


def plan_run(run: Run) -> str:
    """Lists the files and plans."""
    plan = make_plan(parse_recipe(RECIPE, "hollow.yaml", str(run.folder)))
    run.keep("plan", store_lists(plan, run.folders.temporary_of()))
    return f"{len(plan.base.files):,} files, {len(plan.base.ranges):,} ranges"


def build_graph(run: Run) -> str:
    """Builds the job graph."""
    pipeline = beam.Pipeline("FnApiRunner")
    _ = pipeline | Conversion(run.kept("plan"), run.folders, 0.0)
    size = len(pipeline.to_runner_api().SerializeToString())
    run.largest = max(run.largest, size)
    return f"{size:,} bytes"


def list_ranges(run: Run) -> str:
    """The first step lists the ranges for all workers."""
    plan: Plan = run.kept("plan")
    for byte_range in plan.base.ranges:
        run.crosses(byte_range.number)
    run.crosses(plan.base.ranges[run.ranges - 1])
    return f"{len(plan.base.ranges):,} elements"


def counted(paths: Sequence[str], first: int, count: int) -> Iterator[ChunkCounts]:
    """Draws the row counts of ranges."""
    rng = np.random.default_rng((7, first))
    draws = rng.integers(60_000, 68_000, (count, 3)).tolist()
    for number, (kept, rest, checksum) in enumerate(draws, first):
        counts = {"read": kept + rest // 10 + 17, "rejected": 0, "filtered": 17}
        own, path = {"train": kept, "eval": rest // 10}, paths[number // RANGES_OF_A_FILE]
        yield ChunkCounts(number, 0, counts, own, "", 61_000 * checksum, path)


def merge_blocks(run: Run) -> str:
    """Merges the row counts of blocks, as all workers do."""
    plan: Plan = run.kept("plan")
    paths, blocks = [file.path for file in plan.base.files], []
    base, size = row_counts.BASE, row_counts.BLOCK
    for first in range(0, run.ranges, size):
        own = list(counted(paths, first, min(size, run.ranges - first)))
        run.crosses(((base, first // size), own[-1]))
        blocks.append(row_counts.merge_block((base, first // size), own, run.shared))
        run.crosses(blocks[-1])
    run.keep("blocks", blocks)
    return f"{len(blocks):,} files"


def make_result(run: Run) -> str:
    """Merges the row counts of all blocks, checks them, and plans shards."""
    plan: Plan = run.kept("plan")
    rng = np.random.default_rng(7)
    texts = ["".join(each) for each in rng.choice([*"abcdefgh"], (1000, ROW_BYTES - 60)).tolist()]
    batch = pa.record_batch([pa.array(texts), pa.array(range(1000))], schema=plan.split.schema)
    samples = [Chunk(0, 0, batch, {}, split=name) for name in plan.recipe.split.names]
    statistics = SplitTables((), plan.recipe.split.names, batch.schema, plan.statistics)
    result = first_pass_result.make_result(
        plan,
        statistics,
        row_counts.merge_blocks(run.kept("blocks")),
        samples,
        first_pass_result.FittedFolders(),
    )
    stored = RunFile.keep(result, run.folders.scratch_of("result"))
    run.crosses(resume.run_key(plan, result))
    run.crosses(stored)
    run.keep("result", stored)
    size = pathlib.Path(stored.path).stat().st_size
    return f"{result.shards.num_shards:,} shards, {size:,} bytes"


def plan_shards(run: Run) -> str:
    """Stores the shard plan for all workers."""
    result = run.kept("result").load()
    path = save_shard_plan(result.shards.with_finished(()), run.folders.scratch_of("shard_plan"))
    return f"{pathlib.Path(path).stat().st_size:,} bytes"


def deal_chunks(run: Run) -> str:
    """Deals some chunks to shards and bins, as all workers do."""
    plan: Plan = run.kept("plan")
    loaded = LoadedShardPlan(run.folders.scratch_of("shard_plan"))
    output, split = plan.recipe.output, loaded.get().splits["train"]
    rng = np.random.default_rng(7)
    dealt: list[Any] = []
    bins: list[Any] = []
    numbers = rng.permutation(run.ranges)[:_DEALT].tolist()
    for number in numbers:
        rows = 60_000
        chunk = SpilledChunk(number, 0, 0, split.name, rows, "kept/file", 16 << 20)
        dealt += [each for _, each in to_shards(chunk, output, loaded)]
        bins += [each for _, each in to_bins(chunk, output, loaded)]
    run.crosses((loaded.get().num_shards, dealt[:MOST_IN_ELEMENT]))
    run.crosses(((split.name, 1 << 20), bins[:MOST_IN_ELEMENT]))
    share = len(dealt) / len(numbers) * run.ranges / split.num_shards
    shard = encoded(DealtShard(0, tuple(dealt[: int(share)])))
    own = f"{len(numbers):,} chunks, {len(dealt) / len(numbers):.0f} shards each"
    return f"{own}; {share:,.0f} chunks a shard, {len(shard):,} bytes"


def write_indexes(run: Run) -> str:
    """Writes what writers of shards leave: files, and their indexes."""
    result = run.kept("result").load()
    plan: Plan = run.kept("plan")
    folder, output, infos, parts = run.folders.temporary_of(), plan.recipe.output, [], 0
    for split in result.shards.splits.values():
        for number in range(split.num_shards):
            path = shard_path("hollow", split.name, number, split.num_shards, output.compression)
            rows = split.rows // split.num_shards + (number < split.rows % split.num_shards)
            count = max(1, round(rows * ROW_BYTES / split.part_size))
            own = np.diff(np.arange(count + 1) * rows // count).astype(np.int32)
            framed = own.astype(np.int64) * ROW_BYTES
            columns = PartColumns(
                np.zeros(count, np.int32), np.cumsum(framed) - framed, framed, framed, own,
                np.arange(count, dtype=np.uint32),
            )  # fmt: skip
            info = ShardInfo(split.name, path, rows, int(framed.sum()), int(framed.sum()), number)
            with files.open_write(files.within(folder, path)) as file:
                file.truncate(info.bytes)
            write_own_index(info.indexed(), part_compression_of(path), columns, folder)
            infos.append(info)
            parts += count
    run.crosses(infos[-1])
    run.keep("shards", infos)
    return f"{len(infos):,} shards, {parts:,} parts"


def join_indexes(run: Run) -> str:
    """Joins the indexes of each split."""
    place = functools.partial(files.within, str(run.folder / "joined"))
    written = artifacts.write_indexes(run.kept("shards"), run.folders.temporary_of(), place)
    sizes = [pathlib.Path(place(path)).stat().st_size for path in written]
    shutil.rmtree(run.folder / "joined")
    return f"{sum(sizes):,} bytes"


def commit_all(run: Run) -> str:
    """Commits, with the indexes again."""
    result = run.kept("result").load()
    folder, now = str(run.folder / "out"), time.time()
    stage = functools.partial(commit.stage, run.kept("plan"), result, folder=folder, started=now)
    commit.CommitSteps(stage, folder, "", now).run(run.kept("shards"))
    return ""


def read_back(run: Run) -> str:
    """The launcher reads the manifest."""
    manifest = read_manifest(str(run.folder / "out"))
    size = (run.folder / "out" / "dataset.json").stat().st_size
    return f"{sum(split.rows for split in manifest.splits.values()):,} rows, {size:,} bytes"


Phase = Callable[[Run], str]
# The phases of each process, and whether they count: others are done by all workers at once, or
# make what they have made.
PROCESSES: tuple[tuple[bool, tuple[Phase, ...]], ...] = (
    (False, (write_files,)),
    (True, (plan_run, build_graph)),
    (True, (list_ranges,)),
    (True, (merge_blocks,)),
    (True, (make_result,)),
    (True, (plan_shards,)),
    (True, (deal_chunks,)),
    (False, (write_indexes,)),
    (True, (join_indexes,)),
    (True, (commit_all,)),
    (True, (read_back,)),
)


def do(phases: tuple[Phase, ...], run: Run, counts: bool, totals: Any) -> None:
    """Does phases, and prints a line for each."""
    for phase in phases:
        run.largest = 0
        start, start_cpu = time.perf_counter(), time.process_time()
        note = phase(run)
        secs, cpu = time.perf_counter() - start, time.process_time() - start_cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        name = (phase.__doc__ or "").split("\n")[0].rstrip(".")
        print(
            f"| {name} | {secs:.1f}{'' if counts else ' (not counted)'} | {cpu:.1f} | "
            f"{peak / MIB:,.0f} | {run.largest:,} | {note} |",
            flush=True,
        )
        if counts:
            totals[:] = totals[0] + secs, max(totals[1], peak), max(totals[2], run.largest)


def main() -> None:
    """Prints a line for each phase; fails beyond the limits."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranges", type=int, default=6_000_000, help="of 16 MiB each")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(".bench/hollow"))
    arguments = parser.parse_args()
    run = Run(arguments.folder.resolve(), arguments.ranges)
    shutil.rmtree(run.folder, ignore_errors=True)
    context = multiprocessing.get_context("fork")
    totals = context.Array("d", 3, lock=False)
    print(
        "| phase | s | CPU s | peak MiB | largest element | |\n|---|---:|---:|---:|---:|---|",
        flush=True,
    )
    try:
        for counts, phases in PROCESSES:
            process = context.Process(target=do, args=(phases, run, counts, totals))
            process.start()
            process.join()
            if process.exitcode:
                sys.exit(f"{phases[-1].__name__} failed")
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(run.folder)
    secs, peak, largest = totals
    print(f"\n{secs:.0f} s, {peak / MIB:,.0f} MiB, {largest:,.0f} bytes in an element")
    if secs > MOST_SECS or peak > MOST_BYTES or largest > MAX_ELEMENT_BYTES:
        sys.exit("found more than 600 s, 2 GiB or 1 MiB in an element")


if __name__ == "__main__":
    main()
