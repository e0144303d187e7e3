"""Stores accumulators on disk, as an Arrow file.

The file has a row for each column of a table and of its slices. A row has small values as JSON and
arrays as Arrow IPC streams, with a checksum over both: reading runs no code from the file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NoReturn

import google_crc32c
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.analysis.statistics.column import (
    ColumnStatistics,
    StepValues,
    Values,
    WeightedPresence,
    is_text,
)
from beam_pipelines.analysis.statistics.composites import Composite, CompositeCounts
from beam_pipelines.analysis.statistics.distribution import Distribution
from beam_pipelines.analysis.statistics.moments import ExactMoments, WeightedMoments
from beam_pipelines.analysis.statistics.numeric import NumberStatistics, WeightedNumbers
from beam_pipelines.analysis.statistics.packing import pack, unpack
from beam_pipelines.analysis.statistics.plan import StatisticsPlan
from beam_pipelines.analysis.statistics.slices import DataSlice
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.analysis.statistics.text import TextStatistics
from beam_pipelines.analysis.statistics.value_counts import ValueCounts
from beam_pipelines.core import arrow_sizes
from beam_pipelines.core.columns import parse_type, type_name
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.weighted_values import Numbers

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

_COLUMN_COUNTS = ("present", "missing", "min_values", "max_values", "num_values")
_NUMBER_COUNTS = ("zeros", "nans", "minus_infinities", "plus_infinities")
_TEXT_COUNTS = ("count", "total_bytes", "min_bytes", "max_bytes")

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
    for name in ("features", "composites", "sample", "private"):
        if not stored[name]:
            del stored[name]
    metadata = {
        _VERSION: str(FORMAT_VERSION),
        _PLAN: json.dumps(stored),
        _TABLES: json.dumps(about),
    }
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, _ROWS.with_metadata(metadata)) as writer:
        writer.write_batch(pa.RecordBatch.from_pylist(rows, _ROWS))
    return bytes(sink.getvalue())


def from_bytes(
    data: bytes, path: str, names: Collection[str] | None = None
) -> tuple[TableStatistics, StatisticsPlan]:
    """Returns a split's statistics and their plan from a file's content.

    Args:
      data: the content.
      path: of the file, for errors.
      names: of the columns to read; by default all.

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
        if names is not None:
            rows = rows.filter(pc.is_in(rows.column("column"), pa.array(names, pa.string())))
        plan = _plan(json.loads(metadata[_PLAN]))
        return _table(json.loads(metadata[_TABLES]), rows.to_pylist(), path), plan


def column_names(data: bytes, path: str) -> list[str]:
    """Returns the column names of a table of statistics, in order.

    Args:
      data: the content of a file.
      path: of the file, for errors.

    Raises:
      DataError: the file is damaged.
    """
    with _explained(path):
        arrow_sizes.check_growth(data)
        rows = pa.ipc.open_file(pa.BufferReader(data)).read_all().select(["table", "column"])
        return list(rows.filter(pc.equal(rows.column("table"), 0)).column("column").to_pylist())


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, ValueError, KeyError, IndexError, TypeError, StopIteration) as error:
        _fail(
            path,
            f"accumulators that cannot be read ({error}), expected those of a split. Compute the "
            "statistics again",
        )


def _fail(path: str, message: str) -> NoReturn:
    raise DataError(f"{path}: found {message}, with 'describe' or 'convert'.")


def _about(key: DataSlice | None, table: TableStatistics) -> Facts:
    facts: Facts = {"slice": key, "rows": table.rows, "weight": table.weight}
    if table.composites:
        facts["composites"] = table.composites
    return facts


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
            composites=tuple(map(_composite_from_facts, facts.get("composites", ()))),
        )
        for facts, found in zip(about, columns, strict=True)
    }
    slices = {key: table for key, table in tables.items() if key is not None}
    return dataclasses.replace(tables[None], slices=slices)


def _column_to_facts(column: ColumnStatistics) -> tuple[Facts, Arrays]:
    arrays: Arrays = []
    facts: Facts = {
        "type": type_name(column.type),
        **{name: getattr(column, name) for name in _COLUMN_COUNTS},
        "values": _values_to_facts(column.values, arrays),
        "lengths": None
        if column.lengths is None
        else _distribution_to_facts(column.lengths, arrays),
        "categories": None
        if column.categories is None
        else _texts_to_facts(column.categories, arrays),
        "weighted": column.weighted,
        "null_steps": column.null_steps,
        **({} if column.is_counted else {"is_counted": False}),
    }
    if column.sampled is not None:
        facts["sampled"] = column.sampled
    if column.step_values is not None:
        facts["step_values"] = column.step_values
    if column.values_in_rows is not None:
        facts["values_in_rows"] = _distribution_to_facts(column.values_in_rows, arrays)
        facts["weighted_steps"] = column.weighted_steps
    return facts, arrays


def _column_from_facts(facts: Facts, arrays: Iterator[bytes]) -> ColumnStatistics:
    kind = parse_type(facts["type"])
    values: Values = (
        _texts_from_facts(facts["values"], arrays)
        if is_text(kind)
        else _numbers_from_facts(facts["values"], arrays)
    )
    lengths = (
        None if facts["lengths"] is None else _distribution_from_facts(facts["lengths"], arrays)
    )
    categories = (
        None if facts["categories"] is None else _texts_from_facts(facts["categories"], arrays)
    )
    weighted = None if facts["weighted"] is None else WeightedPresence(*facts["weighted"])
    step_values = StepValues(*facts["step_values"]) if "step_values" in facts else None
    values_in_rows = weighted_steps = None
    if "values_in_rows" in facts:
        values_in_rows = _distribution_from_facts(facts["values_in_rows"], arrays)
        if facts["weighted_steps"] is not None:
            weighted_steps = WeightedPresence(*facts["weighted_steps"])
    return ColumnStatistics(
        type=kind,
        values=values,
        lengths=lengths,
        categories=categories,
        weighted=weighted,
        null_steps=facts["null_steps"],
        is_counted=facts.get("is_counted", True),
        step_values=step_values,
        values_in_rows=values_in_rows,
        weighted_steps=weighted_steps,
        sampled=facts.get("sampled"),
        **{name: facts[name] for name in _COLUMN_COUNTS},
    )


def _plan(facts: Facts) -> StatisticsPlan:
    return StatisticsPlan(
        facts["weight"],
        tuple(facts["slice_by"]),
        tuple(facts["categorical"]),
        tuple(facts["lists"]),
        tuple(facts.get("features", ())),
        tuple(map(_composite, facts.get("composites", ()))),
        facts.get("sample"),
        tuple(facts.get("private", ())),
    )


def _composite(facts: Sequence[Any]) -> Composite:
    name, value, others, is_weighted = facts
    return Composite(name, value, tuple(others), is_weighted)


def _composite_from_facts(facts: Sequence[Any]) -> CompositeCounts:
    composite, missing_values, missing_others, least, most = facts
    return CompositeCounts(
        _composite(composite),
        missing_values,
        tuple(missing_others),
        None if least is None else tuple(least),
        None if most is None else tuple(most),
    )


def _values_to_facts(values: Values, arrays: Arrays) -> Facts:
    return (
        _texts_to_facts(values, arrays)
        if isinstance(values, TextStatistics)
        else _numbers_to_facts(values, arrays)
    )


def _moments_to_facts(moments: ExactMoments) -> list[str]:
    # Whole numbers of hundreds of digits.
    return [hex(number) for number in dataclasses.astuple(moments)]


def _moments_from_facts(facts: Sequence[str]) -> ExactMoments:
    return ExactMoments(*(int(number, 16) for number in facts))


def _numbers_to_facts(values: NumberStatistics, arrays: Arrays) -> Facts:
    weighted = values.weighted
    return {
        "moments": _moments_to_facts(values.moments),
        "distribution": _distribution_to_facts(values.distribution, arrays),
        **{name: getattr(values, name) for name in _NUMBER_COUNTS},
        "weighted": None if weighted is None else _weighted_to_facts(weighted, arrays),
    }


def _numbers_from_facts(facts: Facts, arrays: Iterator[bytes]) -> NumberStatistics:
    return NumberStatistics(
        _moments_from_facts(facts["moments"]),
        _distribution_from_facts(facts["distribution"], arrays),
        **{name: facts[name] for name in _NUMBER_COUNTS},
        weighted=None
        if facts["weighted"] is None
        else _weighted_from_facts(facts["weighted"], arrays),
    )


def _weighted_to_facts(weighted: WeightedNumbers, arrays: Arrays) -> Facts:
    return {
        "moments": dataclasses.astuple(weighted.moments),
        "distribution": _distribution_to_facts(weighted.distribution, arrays),
        "minus_infinities": weighted.minus_infinities,
        "plus_infinities": weighted.plus_infinities,
    }


def _weighted_from_facts(facts: Facts, arrays: Iterator[bytes]) -> WeightedNumbers:
    return WeightedNumbers(
        WeightedMoments(*facts["moments"]),
        _distribution_from_facts(facts["distribution"], arrays),
        facts["minus_infinities"],
        facts["plus_infinities"],
    )


def _texts_to_facts(values: TextStatistics, arrays: Arrays) -> Facts:
    return {
        "tally": _counts_to_facts(values.value_counts, arrays),
        **{name: getattr(values, name) for name in _TEXT_COUNTS},
        "weighted": None if values.weighted is None else _counts_to_facts(values.weighted, arrays),
    }


def _texts_from_facts(facts: Facts, arrays: Iterator[bytes]) -> TextStatistics:
    return TextStatistics(
        _counts_from_facts(facts["tally"], arrays),
        **{name: facts[name] for name in _TEXT_COUNTS},
        weighted=None
        if facts["weighted"] is None
        else _counts_from_facts(facts["weighted"], arrays),
    )


def _distribution_to_facts(distribution: Distribution, arrays: Arrays) -> Facts:
    arrays.append(pack(pa.array(distribution.values), distribution.weights))
    return {"error": distribution.error}


def _distribution_from_facts(facts: Facts, arrays: Iterator[bytes]) -> Distribution:
    values, weights = _unpacked(next(arrays))
    return Distribution(values.to_numpy(), weights, facts["error"])


def _counts_to_facts(value_counts: ValueCounts, arrays: Arrays) -> Facts:
    arrays.append(pack(value_counts.values, value_counts.counts))
    if value_counts.sketch is not None:
        arrays.append(value_counts.sketch)
    return {"undercount": value_counts.undercount, "is_sketched": value_counts.sketch is not None}


def _counts_from_facts(facts: Facts, arrays: Iterator[bytes]) -> ValueCounts:
    values, counts = _unpacked(next(arrays))
    return ValueCounts(
        values, counts, facts["undercount"], next(arrays) if facts["is_sketched"] else None
    )


def _unpacked(stream: bytes) -> tuple[pa.Array, Numbers]:
    values, counts = unpack(stream)
    values.validate(full=True)  # offsets that point elsewhere would be followed
    return values, counts
