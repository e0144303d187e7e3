"""A dataset with columns of every type and encodings of every kind."""

from __future__ import annotations

import datetime
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import beam_pipelines as bp

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("n", pa.int64()),
        ("m", pa.int64()),
        ("t", pa.string()),
        ("u", pa.string()),
        ("b", pa.binary()),
        ("d", pa.date32()),
        ("ts", pa.timestamp("us")),
        ("flag", pa.bool_()),
        ("words", pa.list_(pa.string())),
        ("v", pa.list_(pa.float32())),
        ("y", pa.bool_()),
    ]
)
RECIPE = """
name: everything
sources: {rows: rows.parquet}
encode:
  f_filled: [{column: f}, {fill: mean}, z_score]
  f_bucket: [{column: f}, {bucketize: 4}]
  f: z_score
  g: [{fill: {value: 0.5, missing: true}}, log1p, min_max]
  n_log: [{column: n}, {clip: [0, null]}, log1p]
  n_hot: [{column: n}, {boundaries: [0, 10]}, one_hot]
  n: {fill: median}
  m_normal: [{column: m}, {quantile_normal: 20}]
  m_text: [{column: m}, {cast: text}]
  m_id: [{column: m}, {vocabulary: {top_k: 5, num_oov: 2}}]
  t_hash: [{column: t}, {hash_bucket: 100}]
  t_tokens: [{column: t}, {tokenize: {lower: true}}, {vocabulary: {num_oov: 1}}]
  t_bag: [{column: t}, tokenize, {bag_of_words: 5}]
  route: {cross: {columns: [t, u, m], buckets: 1000}}
  t: vocabulary
  u: [vocabulary, one_hot]
  d: {date_parts: [year, weekday]}
  hour: [{column: ts}, {date_parts: hour}, {cyclic: 24}]
  month: [{column: ts}, {date_parts: month}]
  many: [{column: words}, vocabulary, multi_hot]
  words: {vocabulary: {num_oov: 3}}
  raw: {vector: {columns: [m, g, v], lengths: {v: 3}, as: bytes, keep: true}}
  v_hot: [{column: v}, {boundaries: [-0.5, 0.5]}, multi_hot]
  v: [z_score, {clip: [-1, 1]}]
  numbers: {vector: {columns: [m, n, hour, v], keep: true, lengths: {v: 3}}}
label: y
split: {train: 0.8, eval: 0.2}
"""
WORDS = ["to", "be", "or", "not", "É", ""]


def rows(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Returns rows with nulls, NaN, infinities, unknown words."""
    rng = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.2 else value

    def text() -> str:
        return " ".join(rng.choices(WORDS, k=rng.randrange(4))) + rng.choice(["", "", "?"])

    return [
        {
            "id": number,
            "f": maybe(rng.choice([rng.gauss(0, 3), rng.gauss(0, 3), float("nan"), float("inf")])),
            "g": maybe(rng.uniform(0, 9)),
            "n": maybe(rng.randrange(-5, 30)),
            "m": rng.randrange(-8, 8),
            "t": maybe(text()),
            "u": rng.choice("abcdefg"),
            "b": rng.randbytes(rng.randrange(4)),
            "d": maybe(datetime.date(1970, 1, 1) + datetime.timedelta(rng.randrange(-999, 20000))),
            "ts": datetime.datetime(1970, 1, 1)  # noqa: DTZ001
            + datetime.timedelta(seconds=rng.randrange(-(10**8), 10**9)),
            "flag": maybe(rng.random() < 0.5),
            "words": maybe(rng.choices(WORDS, k=rng.randrange(4))),
            "v": [rng.uniform(-1, 1) for _ in range(3)],
            "y": rng.random() < 0.3,
        }
        for number in range(count)
    ]


def convert(folder: Path, count: int = 400) -> str:
    """Converts rows into ``folder``; returns the dataset's folder."""
    table = pa.Table.from_pylist(rows(count), COLUMNS)
    pq.write_table(table, folder / "rows.parquet")
    (folder / "recipe.yaml").write_text(RECIPE)
    return bp.convert(str(folder / "recipe.yaml"), str(folder / "out")).folder
