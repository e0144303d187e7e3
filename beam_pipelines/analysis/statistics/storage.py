"""Stores accumulators in datasets as Arrow files.

The file has a row for each column of a table and of its slices. A row has small values as JSON and
arrays as Arrow IPC streams, with a checksum over both.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, get_args, get_type_hints

import google_crc32c
import numpy as np
import pyarrow as pa

from beam_pipelines.analysis.statistics.column import (
    ColumnStatistics,
    StepValues,
    WeightedPresence,
    is_text,
)
from beam_pipelines.analysis.statistics.distribution import (
    Distribution,
    ExactMoments,
    WeightedMoments,
)
from beam_pipelines.analysis.statistics.limits import pack, unpack
from beam_pipelines.analysis.statistics.plan import StatisticsPlan
from beam_pipelines.analysis.statistics.table import DataSlice, TableStatistics
from beam_pipelines.analysis.statistics.text import ValueCounts
from beam_pipelines.core.arrow import arrow_sizes
from beam_pipelines.core.arrow.columns import parse_type, type_name
from beam_pipelines.core.errors import DataError

FORMAT_VERSION = 1
_VERSION, _PLAN, _TABLES = b"format_version", b"plan", b"tables"
_ROWS = pa.schema(
    [
        ("table", pa.int32()),  # 0 is that of all rows, others are slices
        ("column", pa.string()),
        ("facts", pa.string()),
        ("arrays", pa.list_(pa.large_binary())),
        ("crc32c", pa.uint32()),
    ]
)

# Fields that have another name in the file, and defaults of those that are left out with them.
_KEYS = {"value_counts": "tally"}
_LATER = {"is_counted": True, "step_values": None, "values_in_rows": None}

Facts = dict[str, Any]
Arrays = list[bytes]


def to_bytes(table: TableStatistics, plan: StatisticsPlan) -> bytes:
    """Returns a split's accumulators as the bytes of a file.

    The bytes are reproducible.
    """
    tables: list[tuple[DataSlice | None, TableStatistics]] = [(None, table), *table.slices.items()]
    about = [{"slice": key, "rows": one.rows, "weight": one.weight} for key, one in tables]
    rows = [
        _row(number, name, column)
        for number, (_, part) in enumerate(tables)
        for name, column in part.columns.items()
    ]
    stored = dataclasses.asdict(plan)
    if not plan.private:
        del stored["private"]
    metadata = {
        _VERSION: str(FORMAT_VERSION),
        _PLAN: json.dumps(stored),
        _TABLES: json.dumps(about),
    }
    return _written(pa.RecordBatch.from_pylist(rows, _ROWS.with_metadata(metadata)))


def joined_bytes(parts: Sequence[bytes]) -> bytes:
    """Returns a table's file from those of its columns' shares."""
    rows = pa.concat_tables([pa.ipc.open_file(part).read_all() for part in parts])
    tables = rows["table"].to_numpy()
    if tables.any():  # slices
        rows = rows.take(np.argsort(tables, kind="stable"))
    return _written(rows.combine_chunks().to_batches()[0])


def _written(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def from_bytes(data: bytes, path: str) -> tuple[TableStatistics, StatisticsPlan]:
    """Returns a split's statistics and their plan from a file's content.

    Args:
      data: the content.
      path: of the file, for errors.

    Raises:
      DataError: the file is damaged, or of an unknown version.
    """
    with _explained(path):
        arrow_sizes.check_growth(data)
        reader = pa.ipc.open_file(pa.BufferReader(data))
        metadata = reader.schema.metadata
        version = int(metadata[_VERSION])
        if version != FORMAT_VERSION:
            _fail(
                path,
                f"format version {version}, expected {FORMAT_VERSION}. Compute the "
                "statistics again",
            )
        rows = reader.read_all()
        rows.validate(full=True)
        plan = _plan(json.loads(metadata[_PLAN]))
        return _table(json.loads(metadata[_TABLES]), rows.to_pylist(), path), plan


_DAMAGED = (ValueError, KeyError, IndexError, TypeError, StopIteration, RecursionError)


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    try:
        yield
    except (*_DAMAGED, pa.ArrowException) as error:
        _fail(
            path,
            f"accumulators that cannot be read ({error}), expected those of a split. Compute the "
            "statistics again",
        )


def _fail(path: str, message: str) -> NoReturn:
    raise DataError(f"{path}: found {message}, with 'describe' or 'convert'.")


def _row(number: int, name: str, column: ColumnStatistics) -> dict[str, Any]:
    arrays: Arrays = []
    text = json.dumps(_stored(column, arrays), sort_keys=True)
    return {
        "table": number,
        "column": name,
        "facts": text,
        "arrays": arrays,
        "crc32c": _checksum(name, text, arrays),
    }


def _checksum(name: str, facts: str, arrays: Arrays) -> int:
    checksum = google_crc32c.value(f"{name}\n{facts}\n".encode())
    for array in arrays:
        checksum = google_crc32c.extend(checksum, array)
    return int(checksum)


def _table(about: list[Facts], rows: list[dict[str, Any]], path: str) -> TableStatistics:
    columns: list[dict[str, ColumnStatistics]] = [{} for _ in about]
    for row in rows:
        if _checksum(row["column"], row["facts"], row["arrays"]) != row["crc32c"]:
            _fail(
                path,
                f"accumulators of column '{row['column']}' that do not match their checksum, "
                "expected them as they were written. Compute the statistics again",
            )
        columns[row["table"]][row["column"]] = _loaded(
            ColumnStatistics, json.loads(row["facts"]), iter(row["arrays"])
        )
    tables = {
        None if facts["slice"] is None else DataSlice(*facts["slice"]): TableStatistics(
            facts["rows"], found, facts["weight"]
        )
        for facts, found in zip(about, columns, strict=True)
    }
    slices = {key: table for key, table in tables.items() if key is not None}
    return dataclasses.replace(tables[None], slices=slices)


def _store_distribution(distribution: Distribution, arrays: Arrays) -> Facts:
    arrays.append(pack(pa.array(distribution.values), distribution.weights))
    return {"error": distribution.error}


def _load_distribution(facts: Facts, arrays: Iterator[bytes]) -> Distribution:
    values, weights = unpack(next(arrays))
    return Distribution(values.to_numpy(), weights, facts["error"])


def _store_counts(value_counts: ValueCounts, arrays: Arrays) -> Facts:
    arrays.append(pack(value_counts.values, value_counts.counts))
    if value_counts.sketch is not None:
        arrays.append(value_counts.sketch)
    return {"undercount": value_counts.undercount, "is_sketched": value_counts.sketch is not None}


def _load_counts(facts: Facts, arrays: Iterator[bytes]) -> ValueCounts:
    stream, sketches = next(arrays), arrays if facts["is_sketched"] else iter([None])
    return counts_of(stream, facts["undercount"], next(sketches))


def counts_of(stream: bytes, undercount: float, sketch: bytes | None) -> ValueCounts:
    """Returns stored value counts."""
    return ValueCounts(*unpack(stream), undercount, sketch)


# Type -> how a value becomes facts and arrays, and again a value.
_CODECS: dict[Any, tuple[Callable[..., Any], Callable[..., Any]]] = {
    pa.DataType: (lambda kind, _: type_name(kind), lambda name, _: parse_type(name)),
    ExactMoments: (  # whole numbers of hundreds of digits
        lambda moments, _: [hex(one) for one in (moments.count, moments.total, moments.squares)],
        lambda facts, _: ExactMoments(*(int(number, 16) for number in facts)),
    ),
    WeightedMoments: (
        lambda moments, _: dataclasses.astuple(moments),
        lambda facts, _: WeightedMoments(*facts),
    ),
    StepValues: (lambda values, _: values, lambda facts, _: StepValues(*facts)),
    WeightedPresence: (lambda presence, _: presence, lambda facts, _: WeightedPresence(*facts)),
    Distribution: (_store_distribution, _load_distribution),
    ValueCounts: (_store_counts, _load_counts),
}


def _stored(value: Any, arrays: Arrays) -> Any:
    """Returns a value's facts; appends its arrays, by field."""
    kind: Any = pa.DataType if isinstance(value, pa.DataType) else type(value)
    if kind in _CODECS:
        return _CODECS[kind][0](value, arrays)
    if not hasattr(kind, "__dataclass_fields__"):
        return value
    return {
        _KEYS.get(name, name): _stored(getattr(value, name), arrays)
        for name in _kinds_of(kind)
        if not _is_left_out(value, name)
    }


def _is_left_out(value: Any, name: str) -> bool:
    """Whether a later field has its default, and is not stored."""
    if name == "weighted_steps":
        name = "values_in_rows"
    return name in _LATER and getattr(value, name) is _LATER[name]


def _loaded(kind: Any, facts: Any, arrays: Iterator[bytes]) -> Any:
    """Returns the value of a type that was stored."""
    if facts is not None and kind in _CODECS:
        return _CODECS[kind][1](facts, arrays)
    if facts is None or not hasattr(kind, "__dataclass_fields__"):
        return facts
    fields: dict[str, Any] = {}
    for name, kinds in _kinds_of(kind).items():
        if (key := _KEYS.get(name, name)) in facts:
            own = kinds[name == "values" and is_text(fields["type"])]
            fields[name] = _loaded(own, facts[key], arrays)
    return kind(**fields)


@functools.cache
def _kinds_of(made: type) -> dict[str, tuple[Any, ...]]:
    """Returns field -> its types, in order."""
    return {name: get_args(kind) or (kind,) for name, kind in get_type_hints(made).items()}


def _tuples(facts: Any) -> Any:
    """Returns lists as tuples, those in lists too."""
    return tuple(map(_tuples, facts)) if isinstance(facts, list) else facts


def _plan(facts: Facts) -> StatisticsPlan:
    # Versions before 0.3 counted sparse and weighted features as well, or some of rows and columns.
    if facts.pop("sample", None) is not None:
        raise ValueError("values of a sample of the rows")
    let_go = "composites", "features"
    return StatisticsPlan(**{key: _tuples(one) for key, one in facts.items() if key not in let_go})
