"""The shared options of the peers' programs, and their last line.

It needs only Python, because peers have environments of their own.
"""

from __future__ import annotations

import argparse
import json
import pathlib

LABEL = "label"
INTEGERS = [f"I{number}" for number in range(1, 14)]
TEXTS = [f"C{number}" for number in range(1, 27)]
NUMBERS = [LABEL, *INTEGERS]
COLUMNS = [*NUMBERS, *TEXTS]
VOCABULARY_SIZE = 10_000


def parse(description: str | None) -> argparse.Namespace:
    """Reads the command line: input, output, cores, compression, statistics, encodings."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--input", type=pathlib.Path, required=True, help="CSV or Parquet file of criteo_like.py"
    )
    parser.add_argument("--output", type=pathlib.Path, required=True, help="a folder; it is made")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument(
        "--compression", choices=("gzip", "none"), default="gzip", help="of the records"
    )
    parser.add_argument("--statistics", action="store_true")
    parser.add_argument("--encodings", action="store_true")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    return arguments


def report(seconds: float, **more: int) -> None:
    """Prints what ``compare.py`` reads."""
    print(json.dumps({"seconds": seconds, **more}), flush=True)
