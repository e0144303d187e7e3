"""Null, empty and zero in sequences stay three things in every reader.

That holds for every type, through write, schema, TensorFlow, inspect and import.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

import beam_pipelines as bp
from beam_pipelines.dataset import loader
from beam_pipelines.dataset.inspect import inspect_examples
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from tests.sources.support import read_rows
from tests.support.read_examples import read_records

ZEROS: dict[str, tuple[pa.DataType, Any]] = {
    "int": (pa.int64(), 0),
    "float": (pa.float32(), 0.0),
    "text": (pa.string(), ""),
    "bytes": (pa.binary(), b""),
}
# A value for each row, of scalars, context lists and feature lists; "zero" is the type's zero.
ROWS = {
    "s": [None, "zero", None, "zero"],
    "c": [None, [], ["zero"], ["zero", "zero"]],
    "l": [None, [], ["zero"], ["zero", "zero"]],
}


def put(value: Any, zero: Any) -> Any:
    """Returns a value with the type's zero in its places."""
    return (
        [put(item, zero) for item in value]
        if isinstance(value, list)
        else zero
        if value == "zero"
        else value
    )


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """A dataset of sequences with null, empty and zero of every type.

    The fixture holds its rows, too.
    """
    folder = tmp_path_factory.mktemp("nothing")
    columns = {}
    for name, (type_, zero) in ZEROS.items():
        for kind, values in ROWS.items():
            columns[f"{kind}_{name}"] = pa.array(
                put(values, zero), type_ if kind == "s" else pa.list_(type_)
            )
    table = pa.table(columns)
    pq.write_table(table, folder / "d.parquet")
    lists = ", ".join(f"l_{name}" for name in ZEROS)
    recipe = (
        f"name: d\nsources: {{d: {{path: d.parquet}}}}\nsequence: {{features: [{lists}]}}\n"
        "output: {shuffle: false, compression: none, num_shards: 1}\n"
    )
    convert.convert(
        make_plan(parse_recipe(recipe, "recipe.yaml", str(folder))), str(folder / "out"), quiet=True
    )
    verify_dataset(str(folder / "out"))
    return folder / "out", table.to_pylist()


def test_import(rows: tuple[Path, list[dict[str, Any]]]) -> None:
    """An import gives the same rows.

    A string without a domain is bytes.
    """
    folder, expected = rows
    found = read_rows(folder / "examples" / "Split-train" / "*")
    assert octets([{name: row[name] for name in expected[0]} for row in found]) == octets(expected)


def octets(value: Any) -> Any:
    """Returns a value with its texts as UTF-8."""
    if isinstance(value, dict):
        return {name: octets(item) for name, item in value.items()}
    if isinstance(value, list):
        return [octets(item) for item in value]
    return value.encode() if isinstance(value, str) else value


def test_load(rows: tuple[Path, list[dict[str, Any]]]) -> None:
    """``load`` gives no values for null and empty, and zero for zero."""
    folder, expected = rows
    (batch,) = loader.load(folder, shuffle=False)
    for name, tensor in batch.items():
        ragged = (
            tf.RaggedTensor.from_sparse(tensor) if isinstance(tensor, tf.SparseTensor) else tensor
        )
        values = [row.numpy().tolist() for row in ragged]
        wanted = [row[name] if isinstance(row[name], list) else [row[name]] for row in expected]
        plain = [
            [v.encode() if isinstance(v, str) else v for v in row if v is not None]
            for row in wanted
        ]
        assert values == plain, name


def test_parsed_by_hand(rows: tuple[Path, list[dict[str, Any]]]) -> None:
    """TensorFlow's own function parses batches by the schema's specs to the same."""
    folder, expected = rows
    info = bp.info(folder)
    _, lists, _ = tf.io.parse_sequence_example(
        read_records(folder), info.feature_spec(), info.sequence_spec()
    )
    for name in ZEROS:
        wanted = [
            [[v.encode() if isinstance(v, str) else v] for v in row[f"l_{name}"] or []]
            for row in expected
        ]
        assert lists[f"l_{name}"].to_list() == wanted


def test_inspect(rows: tuple[Path, list[dict[str, Any]]]) -> None:
    """``inspect`` shows a missing feature, an empty list and a zero differently."""
    texts = list(inspect_examples(str(rows[0]), 4))
    shown = [dict(line.split(maxsplit=1) for line in text.splitlines()[1:]) for text in texts]
    assert (
        [row["l_int"] for row in shown]
        == [row["c_int"] for row in shown]
        == ["(missing)", "[]", "[0]", "[0, 0]"]
    )
    assert [row["s_text"] for row in shown] == ["(missing)", "''", "(missing)", "''"]
