"""Structs of indices and values, up to SparseTensors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError
from beam_pipelines.dataset import loader
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.pipeline import convert as convert_module
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, read_rows
from tests.support.runs import plan_in

# As Spark ML's VectorUDT writes it.
SPARK = pa.struct(
    [
        ("type", pa.int8()),
        ("size", pa.int32()),
        ("indices", pa.list_(pa.int32())),
        ("values", pa.list_(pa.float64())),
    ]
)


def sparse(size: int | None, *pairs: tuple[int, float]) -> dict[str, Any]:
    indices, values = ([pair[place] for pair in pairs] for place in (0, 1))
    return {"type": 0, "size": size, "indices": indices, "values": values}


def dense(*values: float) -> dict[str, Any]:
    return {"type": 1, "size": None, "indices": None, "values": list(values)}


def write_vectors(path: Path, rows: list[Any], type_: pa.DataType = SPARK) -> Path:
    table = pa.table({"x": pa.array(rows, type_), "label": list(range(len(rows)))})
    if path.suffix == ".arrow":
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    else:
        pq.write_table(table, path)
    return path


def is_sparse_vector(row: dict[str, Any]) -> bool:
    """Whether a row is one, in plain Python."""
    indices, values, size = row["indices"], row["values"], row["size"]
    if indices is None:
        indices = None if values is None else list(range(len(values)))
    count = len(values or ())
    if len(indices or ()) != count:
        return False
    most = 2**63 - 2 if size is None else size - 1
    return all(0 <= index <= most for index in indices or ()) and indices in (
        None,
        sorted(set(indices or ())),
    )


INTEGERS = st.integers(-1, 5)
ROWS = st.none() | st.fixed_dictionaries(
    {
        "type": st.none() | st.integers(0, 1),
        "size": st.none() | INTEGERS,
        "indices": st.none()
        | st.lists(INTEGERS, max_size=3).map(sorted)
        | st.lists(INTEGERS, max_size=3),
        "values": st.none() | st.lists(st.sampled_from([0.5, -1.0]), max_size=3),
    }
)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(ROWS, min_size=1, max_size=6), suffix=st.sampled_from(["parquet", "arrow"]))
def test_rows_are_those_of_a_plain_reader(tmp_path_factory, rows, suffix):
    """Rows are those of a plain reader.

    Only bad vectors are rejected. Dense rows get their indices.
    """
    path = write_vectors(tmp_path_factory.mktemp("sparse") / f"d.{suffix}", rows)
    table, _, rejected = read.read_table(plan_of(path), reject=True)
    good = [row is None or is_sparse_vector(row) for row in rows]
    assert [bad.position for bad in rejected] == [
        f"row {number}" for number, fine in enumerate(good, start=1) if not fine
    ]
    found = zip(table["x.indices"].to_pylist(), table["x.values"].to_pylist(), strict=True)
    wanted = []
    for row in (row for row, fine in zip(rows, good, strict=True) if fine):
        values = None if row is None else row["values"]
        indices = None if row is None else row["indices"]
        if indices is None and values is not None:
            indices = list(range(len(values)))
        wanted.append((indices, values))
    assert list(found) == wanted


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        (sparse(9, (5, 1.0), (2, 1.0)), "[5, 2]"),
        (sparse(9, (2, 1.0), (2, 1.0)), "[2, 2]"),
        (sparse(9, (9, 1.0)), "[9]"),
        (sparse(None, (-1, 1.0)), "[-1]"),
        (sparse(9) | {"values": [1.0]}, "[]"),
    ],
)
def test_a_bad_vector_is_explained(tmp_path: Path, row: dict[str, Any], shown: str) -> None:
    """The error for a bad vector names row, column and indices.

    Without one of its columns, a struct is no vector and is read.
    """
    path = write_vectors(tmp_path / "d.parquet", [dense(1.0), row])
    message = f"row 2, column 'x.indices': found {shown}, expected ascending indices from 0"
    with pytest.raises(DataError, match=re.escape(message)):
        read_rows(path)
    assert read_rows(path, columns=("x.values",))[1] == {"x.values": row["values"]}
    assert not plan_of(path, types={"x.indices": "tensor"}).sparse


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (pa.struct([("indices", pa.large_list(pa.uint8())), ("values", pa.list_(pa.int8()))]), True),
        (pa.struct([("indices", pa.list_(pa.float32())), ("values", pa.list_(pa.int8()))]), False),
        (pa.struct([("indices", pa.list_(pa.int32())), ("values", pa.list_(pa.string()))]), False),
        (pa.struct([("indices", pa.int32()), ("values", pa.int32())]), False),
        (pa.struct([("values", pa.list_(pa.int32()))]), False),
        (pa.struct([("indices", pa.list_(pa.int32())), ("values", pa.list_(pa.int32())), ("n", pa.int8())]), False),
    ],
)  # fmt: skip
def test_other_structs_stay_columns(tmp_path: Path, type_: pa.DataType, expected: bool) -> None:
    """Only a struct of indices and values is sparse.

    Indices are a list of integers, values a list of numbers. The struct may have a size and a type, and no other field.
    """
    plan = plan_of(write_vectors(tmp_path / "d.arrow", [None], type_))
    assert [tensor.name for tensor in plan.sparse] == ["x"] * expected


@pytest.mark.end_to_end
def test_spark_vectors_load_as_sparse_tensors(tmp_path: Path) -> None:
    """Vectors of Spark load as sparse tensors.

    Each value is in its place. The size is that of the vectors, not the largest index.
    """
    rows = [sparse(9, (1, 0.5), (5, 2.0)), dense(*range(9)), None, sparse(9)]
    write_vectors(tmp_path / "d.parquet", rows)
    recipe = "name: d\nsources: {d: d.parquet}\nlabel: label\noutput: {shuffle: false}\n"
    plan = plan_in(tmp_path, recipe)
    convert_module.convert(plan, str(tmp_path / "out"), quiet=True)
    verify_dataset(str(tmp_path / "out"))
    ((features, _),) = loader.load(tmp_path / "out", batch_size=4, shuffle=False)
    assert tf.sparse.to_dense(features["x"]).numpy().tolist() == [
        [0, 0.5, 0, 0, 0, 2.0, 0, 0, 0],
        list(range(9)),
        [0] * 9,
        [0] * 9,
    ]
