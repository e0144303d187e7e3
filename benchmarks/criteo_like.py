"""Generates a table like Criteo's click logs.

A row has a label, 13 integers and 26 hexadecimal categoricals. The same seed, rows and version of
numpy give the same table in every format. Chunks are drawn, written and dropped, so memory does not
grow with the rows.

  python benchmarks/criteo_like.py --rows 1000000 --output .bench/clicks.csv
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

INTEGERS = 13
CATEGORICALS = 26
SMALLEST_VOCABULARY, LARGEST_VOCABULARY = 100, 100_000
ZIPF_EXPONENT = 1.1
LABEL_SHARE = 0.25
MISSING_INTEGERS = 0.10
MISSING_CATEGORICALS = 0.05
CHUNK_ROWS = 100_000


class Vocabulary(NamedTuple):
    """Values of one categorical column, most frequent first.

    Attributes:
      values: texts of 8 hexadecimal digits, all different.
      cumulated: probability of each value and all before it; ends with 1.
    """

    values: pa.Array
    cumulated: np.ndarray

    def draw(self, rng: np.random.Generator, rows: int) -> pa.Array:
        """Draws one value a row, and leaves some out."""
        ranks = np.searchsorted(self.cumulated, rng.random(rows), side="right")
        return self.values.take(pa.array(ranks, mask=rng.random(rows) < MISSING_CATEGORICALS))


def make_vocabulary(column: int, size: int) -> Vocabulary:
    """Returns a vocabulary whose frequencies follow Zipf's law up to its size."""
    # An odd factor permutes the 32-bit numbers (Knuth's multiplicative hash): no value comes twice.
    numbers = (np.arange(size, dtype=np.uint64) * 2_654_435_761 + column * 97_003_337) % (1 << 32)
    weights = np.arange(1, size + 1) ** -ZIPF_EXPONENT
    cumulated = np.cumsum(weights) / weights.sum()
    cumulated[-1] = 1.0
    return Vocabulary(pa.array([f"{number:08x}" for number in numbers.tolist()]), cumulated)


def chunks(rows: int, seed: int) -> Iterator[pa.Table]:
    """Yields the table in chunks."""
    sizes = np.geomspace(SMALLEST_VOCABULARY, LARGEST_VOCABULARY, CATEGORICALS).round().astype(int)
    vocabularies = [make_vocabulary(column, int(size)) for column, size in enumerate(sizes)]
    for number, start in enumerate(range(0, rows, CHUNK_ROWS)):
        yield make_chunk(
            np.random.default_rng([seed, number]), min(CHUNK_ROWS, rows - start), vocabularies
        )


def make_chunk(rng: np.random.Generator, rows: int, vocabularies: list[Vocabulary]) -> pa.Table:
    """Draws one chunk."""
    columns = {"label": pa.array((rng.random(rows) < LABEL_SHARE).astype(np.int64))}
    for number in range(INTEGERS):
        counts = np.floor(rng.lognormal(3, 2, rows)).astype(np.int64)
        columns[f"I{number + 1}"] = pa.array(counts, mask=rng.random(rows) < MISSING_INTEGERS)
    for number, vocabulary in enumerate(vocabularies):
        columns[f"C{number + 1}"] = vocabulary.draw(rng, rows)
    return pa.table(columns)


def write(path: pathlib.Path, rows: int, seed: int) -> None:
    """Writes the table as ``.csv`` or ``.parquet``, by the path's suffix.

    The file appears when it is complete.
    """
    part = path.with_name(path.name + ".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = make_chunk(np.random.default_rng(0), 0, [make_vocabulary(0, 1)] * CATEGORICALS).schema
    # pyarrow puts the names in quotes, whatever the style, and TFX takes these for parts of the
    # names: the header is written here.
    options = pyarrow.csv.WriteOptions(quoting_style="none", include_header=False)
    with part.open("wb") as file:
        if path.suffix == ".parquet":
            writer = pyarrow.parquet.ParquetWriter(file, schema)
        else:
            file.write((",".join(schema.names) + "\n").encode())
            writer = pyarrow.csv.CSVWriter(file, schema, write_options=options)
        with writer:
            for chunk in chunks(rows, seed):
                writer.write_table(chunk)
    part.replace(path)


def main() -> None:
    """Writes the table that the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--output", type=pathlib.Path, required=True, help="a .csv or .parquet file"
    )
    arguments = parser.parse_args()
    if arguments.output.suffix not in {".csv", ".parquet"}:
        parser.error(
            f"--output: found '{arguments.output}', expected a name that ends in .csv or .parquet"
        )
    write(arguments.output, arguments.rows, arguments.seed)
    print(f"{arguments.output}: {arguments.rows:,} rows, {arguments.output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
