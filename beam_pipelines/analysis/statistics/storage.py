"""Stores accumulators in datasets as Arrow files.

The file has a row for each column of a table and of its slices. A row has small values as JSON and
arrays as Arrow IPC streams, with a checksum over both.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

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
from beam_pipelines.analysis.statistics.numeric import NumberStatistics, WeightedNumbers
from beam_pipelines.analysis.statistics.plan import StatisticsPlan
from beam_pipelines.analysis.statistics.table import DataSlice, TableStatistics
from beam_pipelines.analysis.statistics.text import TextStatistics, ValueCounts
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

# Fields that have another name in the file.
_KEYS = {"value_counts": "tally"}

Facts = dict[str, Any]
Arrays = list[bytes]


def to_bytes(table: TableStatistics, plan: StatisticsPlan) -> bytes:
    """Returns a split's accumulators as the bytes of a file.

    The bytes are reproducible.
    """
    tables: list[tuple[DataSlice | None, TableStatistics]] = [
        (None, table),
        *table.slices.items(),
    ]
    about = [_about(key, part) for key, part in tables]
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


def _about(key: DataSlice | None, table: TableStatistics) -> Facts:
    return {"slice": key, "rows": table.rows, "weight": table.weight}


def _row(number: int, name: str, column: ColumnStatistics) -> dict[str, Any]:
    facts, arrays = _column_to_facts(column)
    text = json.dumps(facts, sort_keys=True)
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
        columns[row["table"]][row["column"]] = _column_from_facts(
            json.loads(row["facts"]), iter(row["arrays"])
        )
    tables = {
        None if facts["slice"] is None else DataSlice(*facts["slice"]): TableStatistics(
            facts["rows"],
            found,
            facts["weight"],
        )
        for facts, found in zip(about, columns, strict=True)
    }
    slices = {key: table for key, table in tables.items() if key is not None}
    return dataclasses.replace(tables[None], slices=slices)


class _Codec(NamedTuple):
    """How a value becomes facts and arrays, and again a value."""

    store: Callable[[Any, Arrays], Any]
    load: Callable[[Any, Iterator[bytes]], Any]


def _record(make: Callable[..., Any], **fields: _Codec) -> _Codec:
    """Stores the fields of an object by their names.

    Arrays are in the order of the fields.
    """
    key_for_name = {name: _KEYS.get(name, name) for name in fields}
    return _Codec(
        lambda value, arrays: {
            key_for_name[name]: field.store(getattr(value, name), arrays)
            for name, field in fields.items()
        },
        lambda facts, arrays: make(
            **{
                name: field.load(facts[key_for_name[name]], arrays)
                for name, field in fields.items()
            }
        ),
    )


def _maybe(codec: _Codec) -> _Codec:
    """Stores a value that may be ``None``."""
    return _Codec(
        lambda value, arrays: None if value is None else codec.store(value, arrays),
        lambda facts, arrays: None if facts is None else codec.load(facts, arrays),
    )


def _listed(make: Callable[..., Any]) -> _Codec:
    """Stores a tuple as a list."""
    return _Codec(lambda value, _: value, lambda facts, _: make(*facts))


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


_AS_IS = _Codec(lambda value, _: value, lambda facts, _: facts)
_PRESENCE = _listed(WeightedPresence)
_DISTRIBUTION = _Codec(_store_distribution, _load_distribution)
_COUNTS = _Codec(_store_counts, _load_counts)
_TEXTS = _record(
    TextStatistics,
    value_counts=_COUNTS,
    **dict.fromkeys(("count", "total_bytes", "min_bytes", "max_bytes"), _AS_IS),
    weighted=_maybe(_COUNTS),
)
_INFINITIES = dict.fromkeys(("minus_infinities", "plus_infinities"), _AS_IS)
_NUMBERS = _record(
    NumberStatistics,
    # Whole numbers of hundreds of digits.
    moments=_Codec(
        lambda moments, _: [hex(one) for one in (moments.count, moments.total, moments.squares)],
        lambda facts, _: ExactMoments(*(int(number, 16) for number in facts)),
    ),
    distribution=_DISTRIBUTION,
    zeros=_AS_IS,
    nans=_AS_IS,
    **_INFINITIES,
    weighted=_maybe(
        _record(
            WeightedNumbers,
            moments=_listed(WeightedMoments)._replace(
                store=lambda moments, _: dataclasses.astuple(moments)
            ),
            distribution=_DISTRIBUTION,
            **_INFINITIES,
        )
    ),
)
_COLUMN: dict[str, _Codec] = {
    **dict.fromkeys(("present", "missing", "min_values", "max_values", "num_values"), _AS_IS),
    "lengths": _maybe(_DISTRIBUTION),
    "categories": _maybe(_TEXTS),
    "weighted": _maybe(_PRESENCE),
    "null_steps": _AS_IS,
}
# Fields that are left out if they have their default.
_OPTIONAL: dict[str, tuple[Any, _Codec]] = {
    "is_counted": (True, _AS_IS),
    "step_values": (None, _listed(StepValues)),
    "values_in_rows": (None, _DISTRIBUTION),
    "weighted_steps": (None, _maybe(_PRESENCE)),
}


def _column_to_facts(column: ColumnStatistics) -> tuple[Facts, Arrays]:
    arrays: Arrays = []
    values = _TEXTS if isinstance(column.values, TextStatistics) else _NUMBERS
    facts: Facts = {
        "type": type_name(column.type),
        "values": values.store(column.values, arrays),
        **{name: codec.store(getattr(column, name), arrays) for name, codec in _COLUMN.items()},
    }
    for name, (default, codec) in _OPTIONAL.items():
        found = getattr(column, name)
        if found is not default or (name == "weighted_steps" and "values_in_rows" in facts):
            facts[name] = codec.store(found, arrays)
    return facts, arrays


def _column_from_facts(facts: Facts, arrays: Iterator[bytes]) -> ColumnStatistics:
    kind = parse_type(facts["type"])
    values = (_TEXTS if is_text(kind) else _NUMBERS).load(facts["values"], arrays)
    fields = {name: codec.load(facts[name], arrays) for name, codec in _COLUMN.items()}
    for name, (_, codec) in _OPTIONAL.items():
        if name in facts:
            fields[name] = codec.load(facts[name], arrays)
    return ColumnStatistics(type=kind, values=values, **fields)


def _tuples(facts: Any) -> Any:
    """Returns lists as tuples, those in lists too."""
    return tuple(map(_tuples, facts)) if isinstance(facts, list) else facts


def _plan(facts: Facts) -> StatisticsPlan:
    # Versions before 0.3 counted sparse and weighted features as well, or some of rows and columns.
    if facts.pop("sample", None) is not None:
        raise ValueError("values of a sample of the rows")
    let_go = "composites", "features"
    return StatisticsPlan(**{key: _tuples(one) for key, one in facts.items() if key not in let_go})
