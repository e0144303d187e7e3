"""Measures the cost of near duplicates and leaks.

Texts are drawn from a vocabulary with frequent and rare words. One of twenty rows repeats an
earlier text with one other word, and is planted if it is still similar enough. Conversions with
and without each key take turns; the table gives CPU time, and the memory of all processes.

  python benchmarks/bench_near.py --rows 1000000 --workers 2
"""

from __future__ import annotations

import argparse
import pathlib
import random
import re
import statistics
import sys

from bench_convert import Measured, measure

RECIPE = """\
name: texts
sources: {{texts: {{path: {path}}}}}
derive: {{high: x > 0.5}}
label: high
split: {{train: 0.8, eval: 0.2, by: id}}
output: {{shuffle_seed: 7}}
"""
NEAR = "near: {column: text, similarity: 0.8}"
KEYS = {
    "without": "",
    "duplicates by rows": "duplicates: {by: rows}\n",
    "near, warn": f"duplicates: {{{NEAR}}}\n",
    "near, drop": f"duplicates: {{{NEAR}, action: drop}}\n",
    "leaks: warn": "leaks: warn\n",
    "leaks, near": f"leaks: {{{NEAR}}}\n",
}
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def sequences(text: str) -> set[str]:
    """Returns the sequences of five characters of a text."""
    return {text[place : place + 5] for place in range(max(1, len(text) - 4))}


def write(path: pathlib.Path, rows: int, words: tuple[int, int]) -> int:
    """Writes a table of texts.

    Args:
      path: of the CSV file.
      rows: their number.
      words: least and most words of a text.

    Returns:
      The number of rows that are planted.
    """
    generator = random.Random(7)  # noqa: S311 - a table, no secret
    vocabulary = [
        "".join(generator.choices(_LETTERS, k=generator.randrange(2, 10))) for _ in range(50_000)
    ]
    planted, kept = 0, list[list[str]]()
    with path.open("w") as file:
        file.write("id,text,x\n")
        for row in range(rows):
            if row % 20 == 19:
                before = generator.choice(kept)
                text = list(before)
                text[generator.randrange(len(text))] = generator.choice(vocabulary)
                one, other = (sequences(" ".join(each)) for each in (before, text))
                planted += len(one & other) >= 0.8 * len(one | other)
            else:
                number = generator.randrange(words[0], words[1] + 1)
                text = [vocabulary[int(50_000 * generator.random() ** 3)] for _ in range(number)]
                if row % 10 == 0:
                    kept.append(text)
            file.write(f"{row},{' '.join(text)},{generator.random():.6f}\n")
    return planted


def main() -> None:
    """Makes the data, measures, prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--words", type=int, nargs=2, default=(8, 19), help="of a text")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=KEYS, default=list(KEYS), help="lines")
    parser.add_argument(
        "--folder", type=pathlib.Path, default=pathlib.Path(".bench"), help="for data and output"
    )
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    data, recipe = folder / "texts.csv", folder / "near.yaml"
    planted = write(data, arguments.rows, tuple(arguments.words))
    command = [sys.executable, "-m", "beam_pipelines", "convert", "--overwrite", str(recipe)]
    command += ["--output", str(folder / "texts"), f"--direct_num_workers={arguments.workers}"]
    runs: dict[str, list[Measured]] = {name: [] for name in arguments.only}
    for _ in range(arguments.repeats):
        for name, own in runs.items():
            recipe.write_text(RECIPE.format(path=data) + KEYS[name])
            own.append(measure(command, folder / "near.log"))
    print(f"{data.stat().st_size / 1e6:,.0f} MB of CSV; {planted:,} rows are planted")
    print("\n| | rows | CPU s | × the first | wall s | peak PSS, GB | found |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    first = None
    for name, own in runs.items():
        cpu = statistics.median(run.cpu_seconds for run in own)
        first = first or cpu
        found = re.search(r"([\d,]+)(?: left out| of [\d,]+ rows[^\n]* similar)", own[-1].output)
        wall = statistics.median(run.wall_seconds for run in own)
        peak = max(run.peak_bytes for run in own) / 1e9
        shown = found[1] if found else ""
        cells = f"{cpu:.1f} | {cpu / first:.2f} | {wall:.1f} | {peak:.2f} | {shown}"
        print(f"| {name} | {arguments.rows:,} | {cells} |")


if __name__ == "__main__":
    main()
