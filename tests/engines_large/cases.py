"""The cases of the suite: their tables, recipes and commands.

``BEAM_PIPELINES_LARGE_ROWS`` sets the number of rows, 1,000,000 by default.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from PIL import Image

from beam_pipelines.runners.version_check import WAITING
from tests.engines.engines import REPOSITORY

ROWS = int(os.environ.get("BEAM_PIPELINES_LARGE_ROWS", "1000000"))
IMAGES = 20_000
CONVERT = (sys.executable, "-m", "beam_pipelines", "convert")
# No conversion of the suite takes longer on two busy cores, unless it hangs.
LONGEST_SECS = 3_600

CLICKS = (
    "name: clicks\nsources: {clicks: {path: clicks.FORMAT}}\nsplit: {train: 0.9, eval: "
    "0.1}\noutput: {shard_size: 16MB}\n"
)

HASH_JOIN = """
name: joined
sources:
  left: {path: left.csv}
  right: {path: right.csv, key: id}
from: left
join: [{source: right, on: id, prefix: right_, strategy: hash}]
split: {train: 0.8, eval: 0.2}
output: {shard_size: 16MB}
"""

GROUPS = """
name: grouped
sources: {left: {path: left.csv}}
sequence: {group_by: user, order_by: [time, id]}
split: {train: 0.8, eval: 0.2, by: [user]}
output: {shard_size: 16MB}
"""

ENCODED = """
name: encoded
sources: {left: {path: left.csv}}
encode:
  word: vocabulary
  amount: [{fill: median}, z_score]
  time: {bucketize: 100}
split: {train: 0.9, eval: 0.1}
output: {shard_size: 16MB}
"""

IMAGE_FOLDERS = (
    "name: images\nsources: {images: {path: images/*/*.png}}\nsplit: {train: 0.9, eval: 0.1}\n"
)


class Made(NamedTuple):
    """A case that is ready to be converted.

    Attributes:
      recipe: its file, next to the data.
      expected: the dataset of Beam's local runner.
    """

    recipe: Path
    expected: Path


def run(recipe: Path, output: Path, options: Sequence[str] = ()) -> None:
    """Converts as a user would, and fails with what the command said."""
    command = [*CONVERT, str(recipe), "--output", str(output), "--quiet", *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_SECS)
    said = ended.stderr.replace(WAITING, "")  # of a busy machine
    assert (ended.returncode, ended.stdout, said) == (0, "", ""), ended.stderr


def clicks(rows: int) -> pa.Table:
    """Returns a table like Criteo's click logs from ``benchmarks/criteo_like.py``.

    It has 40 columns; a row has 260 bytes as CSV.
    """
    sys.path.insert(0, str(REPOSITORY / "benchmarks"))
    try:
        import criteo_like
    finally:
        sys.path.pop(0)
    return pa.concat_tables(criteo_like.chunks(rows, seed=1))


def left(rows: int) -> pa.Table:
    """Returns a table whose ids and words are all different."""
    rng = np.random.default_rng(1)
    return pa.table(
        {
            "id": rng.permutation(rows),
            "amount": rng.normal(size=rows),
            "word": pa.array([f"w{number:08}" for number in rng.permutation(rows).tolist()]),
            "user": rng.integers(0, max(1, rows // 20), rows),
            "time": rng.integers(0, 10**9, rows),
        }
    )


def _write_clicks_csv(folder: Path) -> str:
    pa.csv.write_csv(clicks(ROWS), folder / "clicks.csv")
    return CLICKS.replace("FORMAT", "csv")


def _write_clicks_parquet(folder: Path) -> str:
    pa.parquet.write_table(clicks(ROWS), folder / "clicks.parquet", row_group_size=100_000)
    return CLICKS.replace("FORMAT", "parquet")


def _write_flights(folder: Path) -> str:
    subprocess.run(
        [
            sys.executable,
            str(REPOSITORY / "examples/flights/get_data.py"),
            "--output",
            str(folder / "data"),
        ],
        check=True,
    )
    recipe = (REPOSITORY / "examples/flights/recipe.yaml").read_text()
    return recipe.replace("../../.demo/flights-data", "data").replace(
        "../../schemas", str(REPOSITORY / "schemas")
    )


def _write_join(folder: Path) -> str:
    pa.csv.write_csv(left(ROWS), folder / "left.csv")
    rng = np.random.default_rng(2)
    names = pa.array([f"name {number} of a row" for number in rng.permutation(ROWS).tolist()])
    right = pa.table({"id": rng.permutation(ROWS), "name": names, "score": rng.random(ROWS)})
    pa.csv.write_csv(right, folder / "right.csv")
    return HASH_JOIN


def _write_groups(folder: Path) -> str:
    pa.csv.write_csv(left(ROWS), folder / "left.csv")
    return GROUPS


def _write_encoded(folder: Path) -> str:
    pa.csv.write_csv(left(ROWS), folder / "left.csv")
    return ENCODED


def _write_images(folder: Path) -> str:
    rng = np.random.default_rng(3)
    for number in range(IMAGES * ROWS // 1_000_000):
        path = folder / "images" / f"class{number % 10}" / f"{number:05}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (24, 24, 3), np.uint8)).save(path)
    return IMAGE_FOLDERS


WRITERS: dict[str, Callable[[Path], str]] = {
    "clicks_csv": _write_clicks_csv, "clicks_parquet": _write_clicks_parquet,
    "flights": _write_flights, "hash_join": _write_join, "groups": _write_groups,
    "encoded": _write_encoded, "images": _write_images,
}  # fmt: skip


def make(name: str, folder: Path) -> Made:
    """Writes a case's tables and recipe, and converts them locally."""
    folder.mkdir(parents=True)
    made = Made(folder / "recipe.yaml", folder / "expected")
    made.recipe.write_text(WRITERS[name](folder))
    run(made.recipe, made.expected)
    return made
