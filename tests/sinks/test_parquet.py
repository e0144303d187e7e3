"""Parquet files have the rows that were prepared."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.errors import DataError
from beam_pipelines.reader.row_groups import RowGroups, as_lists, as_steps
from beam_pipelines.recipe.output import Output
from beam_pipelines.sinks import Settings, Written, sink_of
from beam_pipelines.sinks.parquet import sink
from beam_pipelines.sinks.parquet.sink import columns_of, ordered_rows

COLUMNS = pa.schema(
    {
        "a": pa.int64(),
        "A": pa.float32(),
        "text": pa.string(),
        "bytes": pa.binary(),
        "list": pa.list_(pa.int64()),
        "steps": pa.list_(pa.list_(pa.float32())),
        "shape": pa.list_(pa.list_(pa.float32(), 2), 3),
    }
)
floats = st.floats(width=32, allow_nan=False)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "a": st.none() | st.integers(-(2**63), 2**63 - 1),
    "A": st.none() | floats,
    "text": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    "bytes": st.none() | st.binary(max_size=5),
    "list": st.none() | st.lists(st.integers(0, 9), max_size=3),
    "steps": st.none() | st.lists(st.none() | st.lists(floats, max_size=2), max_size=3),
    "shape": st.lists(floats, min_size=6, max_size=6),
}
ROWS = st.lists(st.fixed_dictionaries(VALUES), max_size=20)


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Returns rows as the write stage has them: shapes are lists."""
    types = {field.name: field.type for field in COLUMNS} | {"shape": pa.list_(pa.float32())}
    return pa.RecordBatch.from_pylist(rows, pa.schema(types))


def write(
    path: Path, partitions: list[tuple[pa.RecordBatch, Any]], shuffle: bool = True
) -> Written:
    """Writes a file of partitions."""
    settings = Settings(Output(format="parquet", shuffle=shuffle), columns=COLUMNS)
    with path.open("wb") as file:
        opened = sink_of("parquet").open(file, settings)
        for batch, order in partitions:
            opened.add(sink_of("parquet").prepare(batch, order, settings))
        return opened.close()


@given(ROWS, ROWS, st.randoms(use_true_random=False))
def test_files_have_the_rows_in_order(tmp_path_factory, first, second, chosen):
    """Row groups are read alone, by their places in the file."""
    path = tmp_path_factory.mktemp("file") / "a.parquet"
    order = list(range(len(first)))
    chosen.shuffle(order)
    written = write(path, [(batch_of(first), np.array(order, np.int64)), (batch_of(second), None)])
    expected = [first[place] for place in order] + second
    for row in expected:
        row["shape"] = [row["shape"][place : place + 2] for place in (0, 2, 4)]
    assert pq.read_table(path).to_pylist() == expected
    assert pq.read_schema(path).equals(COLUMNS)
    parts, data = written.parts, path.read_bytes()
    assert written.rows == len(expected) == parts.rows.sum()
    end = int(parts.offset[-1] + parts.bytes[-1]) if len(parts.rows) else len(data)
    groups, found = RowGroups(()), []
    for number, (offset, size) in enumerate(zip(parts.offset, parts.bytes, strict=True)):
        footer = groups.footer("a", lambda: data[end:])
        own = data[offset : offset + size]
        crc32, rows = int(parts.crc32[number]), int(parts.rows[number])
        found += groups.decode(footer, number, int(offset), own, crc32, rows).to_pylist()
    assert found == expected


def test_groups_are_cut_by_bytes(tmp_path, monkeypatch):
    """Groups have about as many bytes each, one row at least."""
    monkeypatch.setattr(sink, "GROUP_BYTES", 1_000)
    rows = [dict.fromkeys(VALUES) | {"bytes": bytes(n), "shape": [0.0] * 6} for n in range(100)]
    written = write(tmp_path / "a.parquet", [(batch_of(rows), None)])
    assert len(written.parts.rows) == pq.read_metadata(tmp_path / "a.parquet").num_row_groups > 5
    assert written.parts.rows.max() - written.parts.rows.min() <= 1
    assert written.value_bytes == written.parts.framed_bytes.sum()
    huge = [{**rows[0], "bytes": bytes(5_000)}]
    assert write(tmp_path / "b.parquet", [(batch_of(huge), None)]).parts.rows.tolist() == [1]


@pytest.mark.parametrize("shuffle", [True, False])
def test_encodings_and_extremes(tmp_path, shuffle):
    """Integers are differences, others are compressed; ordered rows have extremes."""
    rows = [dict.fromkeys(VALUES) | {"a": n, "shape": [0.0] * 6} for n in range(9)]
    write(tmp_path / "a.parquet", [(batch_of(rows), None)], shuffle)
    group = pq.read_metadata(tmp_path / "a.parquet").row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    for column in columns:
        is_integer = column.physical_type == "INT64"
        assert ("DELTA_BINARY_PACKED" in column.encodings) == is_integer, column.path_in_schema
        assert column.compression == ("UNCOMPRESSED" if is_integer else "ZSTD")
        assert column.is_stats_set != shuffle
    assert [column.physical_type for column in columns].count("INT64") == 2
    assert shuffle or (columns[0].statistics.min, columns[0].statistics.max) == (0, 8)


def test_types_follow_from_the_schema():
    """Presence, shape and value counts decide between values and lists."""
    schema = text_format.Parse(
        """
        feature { name: "one" type: INT presence { min_fraction: 1 } shape { dim { size: 1 } } }
        feature { name: "some" type: BYTES value_count { min: 1 max: 1 } }
        feature { name: "vector" type: FLOAT presence { min_fraction: 1 } shape { dim { size: 8 } } }
        feature { name: "missing" type: FLOAT shape { dim { size: 8 } } }
        feature { name: "many" type: BYTES }
        feature { name: "##SEQUENCE##" type: STRUCT struct_domain {
          feature { name: "step" type: INT value_counts { value_count {} value_count { min: 1 max: 1 } } }
          feature { name: "steps" type: INT value_counts { value_count {} value_count {} } }
          feature { name: "perhaps" type: INT value_counts { value_count {} value_count { max: 1 } } }
        } }
        """,
        schema_pb2.Schema(),
    )
    found = columns_of(schema, {"many"}, {"steps"})
    assert {field.name: field.type for field in found} == {
        "one": pa.int64(),
        "some": pa.binary(),
        "vector": pa.list_(pa.float32(), 8),
        "missing": pa.list_(pa.float32()),
        "many": pa.list_(pa.string()),
        "step": pa.list_(pa.int64()),
        "steps": pa.list_(pa.list_(pa.int64())),
        "perhaps": pa.list_(pa.int64()),
    }


def test_rows_of_another_size_are_an_error():
    """A row without the schema's number of values names its feature."""
    rows = [dict.fromkeys(VALUES) | {"shape": [1.0] * size} for size in (6, 5)]
    with pytest.raises(DataError, match="feature 'shape': found a row without 6 values"):
        ordered_rows(batch_of(rows), None, COLUMNS)


@given(st.lists(st.none() | st.lists(st.none() | st.integers(0, 5), max_size=3), max_size=8))
def test_lists_of_columns_are_those_of_a_parser(lists):
    """Values become lists of one; nulls stay null."""
    values = [one[0] if one else None for one in lists]
    found = as_lists(pa.array(values, pa.int64()), pa.int64())
    assert found.to_pylist() == [None if value is None else [value] for value in values]
    steps = as_steps(pa.array(lists, pa.list_(pa.int64())), pa.int64())
    assert steps.to_pylist() == [
        None if one is None else [None if value is None else [value] for value in one]
        for one in lists
    ]


def test_damaged_groups_say_why():
    """Wrong checksums, rows, columns and footers are errors with a reason."""
    table, file = pa.table({"a": [1, 2]}), io.BytesIO()
    pq.write_table(table, file)
    data = file.getvalue()
    metadata = pq.read_metadata(io.BytesIO(data))
    import zlib

    group = data[4 : 4 + metadata.row_group(0).column(0).total_compressed_size]
    groups, crc32 = RowGroups(()), zlib.crc32(group)
    assert groups.decode(metadata, 0, 4, group, crc32, 2) == table
    for number, offset, own, checksum, rows, names, message in (
        (0, 4, group, crc32 ^ 1, 2, None, "CRC-32"),
        (1, 4, group, crc32, 2, None, "found 1 row groups"),
        (0, 5, group, crc32, 2, None, "damaged row group"),
        (0, 4, group, crc32, 3, None, "found 2 rows, expected 3"),
        (0, 4, group, crc32, 2, ["b"], "damaged row group"),
    ):
        with pytest.raises(ValueError, match=message):
            RowGroups((), names).decode(metadata, number, offset, own, checksum, rows)
    with pytest.raises(ValueError, match="damaged footer"):
        groups.footer("b", lambda: data[-30:-1])
