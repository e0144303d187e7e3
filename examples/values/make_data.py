"""Writes a small Parquet file with many types of columns.

The columns are exact numbers of several widths, texts, bytes, dates, lists and arrays.

  python examples/values/make_data.py --output .demo/values-data
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 200


def main() -> None:
    """Writes ``values.parquet``."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=pathlib.Path, required=True, help="folder to write into")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / "values.parquet"
    pq.write_table(make_table(np.random.default_rng(7)), path)
    print(f"{path}: {ROWS} rows")


def make_table(random: np.random.Generator) -> pa.Table:
    """Returns the rows, with extremes of their types.

    Null, an empty list and a list of zero are three different values.
    """
    number = np.arange(ROWS)
    level = random.integers(0, 3, ROWS).astype(np.int8)
    history = [
        None if n % 5 == 0 else [] if n % 5 == 1 else [0] if n % 5 == 2 else [n, -n]
        for n in number.tolist()
    ]
    picture = random.integers(0, 256, (ROWS, 2, 3)).astype(np.uint8)
    embedding = random.normal(size=(ROWS, 4)).astype(np.float32)
    return pa.table(
        {
            "is_new": pa.array(level == 0),
            "tiny": pa.array(number % 256 - 128, pa.int8()),
            "large": pa.array([(-1) ** n * (2**63 - 1 - n) for n in number.tolist()], pa.int64()),
            "positive": pa.array(number * 2**24, pa.uint32()),
            "half": pa.array((number / 8).astype(np.float16)),
            "ratio": pa.array(random.random(ROWS).astype(np.float32)),
            "whole": pa.array([decimal.Decimal(n) for n in number.tolist()], pa.decimal128(10, 0)),
            "level": pa.DictionaryArray.from_arrays(level, ["low", "middle", "high"]),
            "text": pa.array([None if n % 7 == 0 else f"größe {n}" for n in number.tolist()]),
            "key": pa.array([bytes([n, 0, 255 - n]) for n in number.tolist()], pa.binary()),
            "day": pa.array(
                [datetime.date(2026, 1, 1) + datetime.timedelta(days=n) for n in number.tolist()]
            ),
            "history": pa.array(history, pa.list_(pa.int64())),
            "picture": pa.array(picture.tolist(), pa.list_(pa.list_(pa.uint8(), 3), 2)),
            "embedding": pa.array(embedding.tolist(), pa.list_(pa.float32(), 4)),
        }
    )


if __name__ == "__main__":
    main()
