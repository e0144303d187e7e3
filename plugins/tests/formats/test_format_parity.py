"""The same rows give the same shards in every format."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import fastavro
import h5py
import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
import webdataset
from pyarrow import feather, orc

from beam_pipelines.pipeline.convert import convert
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from plugins.tests.support import delta_tables, iceberg_tables

pytestmark = pytest.mark.end_to_end

RECIPE = """
name: rows
sources: {rows: {path: "PATH", types: {number: int64, score: float32, text: text}}}
split: {train: 0.75, eval: 0.25, by: [number]}
output: {num_shards: 2}
"""
# JSON of a tar archive is text, whose fields are derived.
OF_TAR = """
name: rows
sources: {rows: {path: "PATH", columns: [json]}}
derive:
  number: "CAST(json ->> '$.number' AS BIGINT)"
  score: "CAST(json ->> '$.score' AS FLOAT)"
  text: "json ->> '$.text'"
drop: json
split: {train: 0.75, eval: 0.25, by: [number]}
output: {num_shards: 2}
"""
OF_ICEBERG = RECIPE.replace('path: "PATH"', 'format: iceberg, path: "PATH"')
ROWS = 10_000


def table() -> pa.Table:
    """Returns rows of numbers and texts."""
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "number": rng.integers(-(2**40), 2**40, ROWS),
            "score": rng.integers(0, 1_000, ROWS).astype(np.float32) / 8,
            "text": [f"ç {value}" for value in rng.integers(0, 99, ROWS).tolist()],
        }
    )


def write_npz(rows: pa.Table, path: Path) -> None:
    """Writes an array for each column."""
    arrays = {
        name: rows[name].to_numpy().astype(str if name == "text" else None)
        for name in rows.column_names
    }
    np.savez(path, **arrays)


def write_avro(rows: pa.Table, path: Path) -> None:
    """Writes records by fastavro."""
    types = {"number": "long", "score": "float", "text": "string"}
    fields = [{"name": name, "type": type_} for name, type_ in types.items()]
    schema = {"type": "record", "name": "Row", "fields": fields}
    with path.open("wb") as file:
        fastavro.writer(file, schema, rows.to_pylist(), codec="deflate")


def write_tar(rows: pa.Table, path: Path) -> None:
    """Writes a JSON file for each row."""
    with webdataset.TarWriter(str(path)) as writer:
        for number, row in enumerate(rows.to_pylist()):
            writer.write({"__key__": f"{number:05}", "json": row})


def write_xlsx(rows: pa.Table, path: Path) -> None:
    """Writes a sheet."""
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    for values in [rows.column_names, *(row.values() for row in rows.to_pylist())]:
        sheet.append(list(values))
    book.save(path)


def write_hdf5(rows: pa.Table, path: Path) -> None:
    """Writes a dataset for each column."""
    with h5py.File(path, "w") as file:
        for name in rows.column_names:
            is_text = name == "text"
            data = rows[name].to_pylist() if is_text else rows[name].to_numpy()
            file.create_dataset(name, data=data, dtype=h5py.string_dtype() if is_text else None)


def write_json_lines(rows: pa.Table, path: Path) -> None:
    """Writes objects by pandas."""
    rows.to_pandas().to_json(path, orient="records", lines=True)


# Suffix -> what writes a file.
WRITERS: dict[str, Callable[[pa.Table, Path], object]] = {
    "csv": pa_csv.write_csv,
    "jsonl": write_json_lines,
    "parquet": pq.write_table,
    "feather": feather.write_feather,
    "orc": orc.write_table,
    "npz": write_npz,
    "avro": write_avro,
    "tar": write_tar,
    "xlsx": write_xlsx,
    "h5": write_hdf5,
    "delta": lambda rows, path: delta_tables.write(path, rows),
    "metadata.json": lambda rows, path: shutil.copy(
        iceberg_tables.create(path.parent, rows).metadata_location.removeprefix("file://"), path
    ),
}
RECIPES = {"tar": OF_TAR, "metadata.json": OF_ICEBERG}


def test_formats_give_the_same_shards(tmp_path: Path) -> None:
    """Ten thousand rows have one order and one encoding, byte by byte."""
    rows, found = table(), {}
    for suffix, write in WRITERS.items():
        path = tmp_path / f"rows.{suffix}"
        write(rows, path)
        text = RECIPES.get(suffix, RECIPE).replace("PATH", path.name)
        recipe = parse_recipe(text, "recipe.yaml", str(tmp_path))
        output = tmp_path / f"out-{suffix}"
        convert(make_plan(recipe), str(output), quiet=True)
        found[suffix] = {
            str(path.relative_to(output)): path.read_bytes()
            for path in sorted(output.glob("examples/*/*"))
        }
    assert len(found["csv"]) == 4
    for suffix, shards in found.items():
        assert shards == found["csv"], suffix
