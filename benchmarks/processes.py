"""Stages with their own processes: start-up, a whole conversion, the loop."""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Sequence

import bench_convert
from beam_pipelines.core.limits import MIB
from clicks import Clicks
from measuring import Stages, Work

LOOP_ROWS = 20_000
ROW_BYTES = 260  # of the table as CSV
COMMAND = str(pathlib.Path(sys.executable).with_name("beam-pipelines"))
RUN_PIPELINE = """
import sys, time
import apache_beam as beam
from beam_pipelines.runners import run
workers, elements = sys.argv[1:]
options = run.pipeline_options([f"--direct_num_workers={workers}"], 0)
start = time.perf_counter()
run.run(lambda pipeline: pipeline | beam.Create([int(elements)])
            | beam.FlatMap(lambda count: range(count)) | beam.Reshuffle() | beam.Map(str), options)
print(f"run() took {time.perf_counter() - start:.2f} s")
"""

stages = Stages()


def command(clicks: Clicks, arguments: Sequence[str], rows: int = 0, size_bytes: int = 0) -> Work:
    """A command, measured from its start to its end."""

    def note(measured: bench_convert.Measured) -> str:
        said = [line for line in measured.output.splitlines() if line.startswith("run() took")]
        return ", ".join(
            [f"CPU {measured.cpu_seconds:.1f} s, peak {measured.peak_bytes / 1e9:.2f} GB", *said]
        )

    return Work(
        lambda: bench_convert.measure(list(arguments), clicks.folder / "log"),
        rows,
        size_bytes,
        note,
    )


@stages.add(
    ("start: python", [sys.executable, "-c", ""]),
    ("start: beam-pipelines --help", [COMMAND, "--help"]),
    ("start: import apache_beam", [sys.executable, "-c", "import apache_beam"]),
    (
        "start: import beam_pipelines.pipeline.convert",
        [sys.executable, "-c", "import beam_pipelines.pipeline.convert"],
    ),
    ("start: one element, one process", [sys.executable, "-c", RUN_PIPELINE, "1", "1"]),
    ("start: 10,000 elements, one process", [sys.executable, "-c", RUN_PIPELINE, "1", "10000"]),
    ("start: one element, two worker processes", [sys.executable, "-c", RUN_PIPELINE, "2", "1"]),
)
def start(clicks: Clicks, arguments: list[str]) -> Work:
    """Measures the start-up."""
    return command(clicks, arguments)


def convert_command(clicks: Clicks, rows: int, workers: int) -> Work:
    """Converts a table of that many rows."""
    data = clicks.file(rows)
    recipe = clicks.folder / f"recipe-{rows}.yaml"
    recipe.write_text(bench_convert.RECIPE.format(path=data))
    output = [
        "--output",
        str(clicks.folder / "clicks"),
        "--overwrite",
        f"--direct_num_workers={workers}",
    ]
    output += ["--direct_running_mode=multi_processing"] if workers > 1 else []
    return command(clicks, [COMMAND, "convert", str(recipe), *output], rows, data.stat().st_size)


@stages.add(("the whole, one process", 1), ("the whole, two worker processes", 2))
def whole(clicks: Clicks, workers: int) -> Work:
    """A conversion, start-up included."""
    return convert_command(clicks, clicks.rows, workers)


@stages.add(("the loop people write today",))
def loop(clicks: Clicks) -> Work:
    """``tutorial_loop.py``, by its own clock: without start-up."""
    rows = min(LOOP_ROWS, clicks.rows)
    script = pathlib.Path(__file__).with_name("tutorial_loop.py")
    data, output = str(clicks.file(clicks.rows)), str(clicks.folder / "loop.tfrecord.gz")
    arguments = [
        sys.executable,
        str(script),
        "--input",
        data,
        "--output",
        output,
        "--rows",
        str(rows),
    ]
    work = command(clicks, arguments, rows, clicks.plan.size_bytes * rows // clicks.rows)

    def run() -> bench_convert.Measured:
        measured: bench_convert.Measured = work.run()
        report = json.loads(measured.output.splitlines()[-1])
        return measured._replace(wall_seconds=report["seconds"], cpu_seconds=report["seconds"])

    return work._replace(run=run)


CONVERSIONS = [(size, workers) for size in (16, 32, 64, 128, 256) for workers in (1, 2)]


@stages.add(
    *(
        (f"convert {size} MiB, {workers} process{'es'[: 2 * workers - 2]}", size, workers)
        for size, workers in CONVERSIONS
    ),
    on_demand=True,
)
def convert(clicks: Clicks, mebibytes: int, workers: int) -> Work:
    """Finds the size from which two processes are worth their start.

    The constant is runners.THREADS_BYTES.
    """
    return convert_command(clicks, mebibytes * MIB // ROW_BYTES, workers)
