"""Measures the cost of encodings, next to tf.Transform, in one run.

One conversion has 13 chains of numbers and 26 vocabularies, and another one has no encodings. In
each chain a number is filled, made a logarithm and standardised. Every text gets an id of a
vocabulary of at most 10,000. Statistics, schema, shuffle, gzip, the serving graph and the start of
all processes are included. tf.Transform (``tft_pipeline.py``) does the same encodings and writes
gzip TFRecords, without statistics and shuffle. It takes over a millisecond a row, so it gets fewer
rows, and its rate leaves out its imports.

The commands take turns; the table gives the run of median wall time of each, like
``bench_convert.py``.

  python benchmarks/bench_encode.py --rows 1000000 --workers 2
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys

import criteo_like
from bench_convert import HERE, Measured, measure, median_run

RECIPE = """\
name: clicks
sources: {{clicks: {{path: {path}}}}}
label: label
output: {{compression: gzip, shuffle_seed: 7}}
"""


def encode_section() -> str:
    """Returns the recipe's ``encode``."""
    numbers = [
        f"  I{number}: [{{fill: 0}}, log1p, z_score]"
        for number in range(1, criteo_like.INTEGERS + 1)
    ]
    texts = [
        f"  C{number}: {{vocabulary: {{top_k: 10000}}}}"
        for number in range(1, criteo_like.CATEGORICALS + 1)
    ]
    return "encode:\n" + "\n".join([*numbers, *texts]) + "\n"


def line(name: str, rows: int, seconds: float, measured: Measured, plain: float) -> str:
    """Returns one line of the table; ``plain`` is the rate without encodings."""
    rate = rows / seconds
    cells = [
        name,
        f"{rows:,}",
        f"{seconds:.1f}",
        f"{rate:,.0f}",
        f"{seconds / rows * 1e6:,.1f}",
        f"{plain / rate:,.2f}",
    ]
    return (
        "| "
        + " | ".join([*cells, f"{measured.cpu_seconds:.1f}", f"{measured.peak_bytes / 1e9:.2f}"])
        + " |"
    )


def main() -> None:
    """Makes the data if it is not there, measures, prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--tft_rows", type=int, default=20_000, help="0 leaves tf.Transform out")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--folder", type=pathlib.Path, default=pathlib.Path(".bench"), help="for data and output"
    )
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    data, few = folder / f"clicks-{arguments.rows}.csv", folder / f"clicks-{arguments.tft_rows}.csv"
    for path, rows in ((data, arguments.rows), (few, arguments.tft_rows)):
        if rows and not path.exists():
            criteo_like.write(path, rows, seed=7)
    command = [
        str(pathlib.Path(sys.executable).with_name("beam-pipelines")),
        "convert",
        "--overwrite",
    ]
    command += ["--output", str(folder / "clicks"), f"--direct_num_workers={arguments.workers}"]
    recipe = folder / "recipe.yaml"
    load = os.getloadavg()[0]
    runs: dict[str, list[Measured]] = {"as it is": [], "encoded": []}
    for _ in range(arguments.repeats):
        for name, section in (("as it is", ""), ("encoded", encode_section())):
            recipe.write_text(RECIPE.format(path=data) + section)
            runs[name].append(measure([*command, str(recipe)], folder / "convert.log"))
    print(
        f"{data.stat().st_size / 1e6:,.0f} MB of CSV, {os.cpu_count()} cores, {arguments.workers} "
        f"workers, load {load:.1f} before"
    )
    for name, measured in runs.items():
        print(
            f"{name}: {arguments.repeats} runs of "
            f"{', '.join(f'{run.wall_seconds:.1f}' for run in measured)} s"
        )
    plain, encoded = (median_run(measured) for measured in runs.values())
    rate = arguments.rows / plain.wall_seconds
    print(
        "\n| | rows | wall s | rows/s | µs/row | × as it is | CPU s | peak PSS, GB "
        "|\n|---|---:|---:|---:|---:|---:|---:|---:|"
    )
    print(line("as it is", arguments.rows, plain.wall_seconds, plain, rate))
    print(line("encoded", arguments.rows, encoded.wall_seconds, encoded, rate))
    if arguments.tft_rows:
        tft = measure(
            [
                sys.executable,
                str(HERE / "tft_pipeline.py"),
                "--input",
                str(few),
                "--output",
                str(folder / "tft"),
            ],
            folder / "tft.log",
        )
        seconds = json.loads(tft.output.splitlines()[-1])["seconds"]
        print(line("tf.Transform, start-up excluded", arguments.tft_rows, seconds, tft, rate))
        per_row = encoded.wall_seconds / arguments.rows
        print(
            f"\ntf.Transform takes {seconds / arguments.tft_rows / per_row:,.0f} times as long a "
            "row as the encoded conversion."
        )


if __name__ == "__main__":
    main()
