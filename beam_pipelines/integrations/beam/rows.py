"""Converts between Beam's rows and batches.

So the stages compose with transforms on rows: SQL, Beam YAML, other connectors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Optional

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.typehints import arrow_type_compatibility
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.typehints.schemas import typing_to_runner_api

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.arrow.python_values import texts_of
from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.integrations.beam.batches import BatchesOf, schema_of

BATCH_ROWS = 4096
_PYTHON_TYPE = {
    pa.bool_(): bool,
    pa.int64(): int,
    pa.float32(): float,
    pa.float64(): float,
    pa.string(): str,
    pa.binary(): bytes,
    # Beam's rows have no such types; these become ISO 8601.
    pa.date32(): str,
    pa.time64("us"): str,
    pa.timestamp("us"): str,
    pa.timestamp("us", "UTC"): str,
}


@dataclasses.dataclass
class FromRows(beam.PTransform):
    """Gathers Beam's rows into batches.

    Elements are rows here: expect some microseconds for each.

    Input: rows with a schema, such as ``beam.Row`` or a NamedTuple. Output: batches. The runner
    chooses the rows of a batch, so that two runs write the same rows in different orders.

    Args:
      batch_rows: largest number of rows in a batch.
    """

    batch_rows: int = BATCH_ROWS

    def expand(self, rows: beam.PCollection[Any]) -> beam.PCollection[pa.RecordBatch]:
        read_schema = _arrow_schema(rows.element_type)
        schema = columns.normalise_schema(read_schema, "FromRows")
        return (
            rows
            | "Gather"
            >> beam.BatchElements(min_batch_size=self.batch_rows, max_batch_size=self.batch_rows)
            | "ToArrow" >> beam.Map(_to_batch, schema).with_output_types(BatchesOf(schema))
        )


def _arrow_schema(element_type: Any) -> pa.Schema:
    row_type = RowTypeConstraint.from_user_type(element_type)
    row_type = (
        element_type
        if row_type is None and isinstance(element_type, RowTypeConstraint)
        else row_type
    )
    if row_type is None:
        raise RecipeError(
            f"FromRows: found a PCollection of {element_type}, expected rows with a schema. Give "
            "it one with 'beam.Select(…)', or with "
            "'.with_output_types(…)' of a NamedTuple."
        )
    try:
        return arrow_type_compatibility.arrow_schema_from_beam_schema(
            typing_to_runner_api(row_type).row_type.schema
        )
    except (NotImplementedError, ValueError, TypeError) as error:
        raise RecipeError(
            f"FromRows: found {row_type} with a field that cannot become a column ({error}), "
            "expected bool, int, float, str, bytes, or sequences "
            "of them. Map such a field to one of these before."
        ) from error


def _to_batch(rows: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for field in schema:
        try:
            arrays.append(pa.array([getattr(row, field.name) for row in rows], field.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError) as error:
            raise DataError(
                f"FromRows, field '{field.name}': found {error}, expected "
                f"{columns.type_name(field.type)}, as the rows' schema says."
            ) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@dataclasses.dataclass
class ToRows(beam.PTransform):
    """Turns batches into single rows, for transforms on rows.

    Input: batches. Output: ``beam.Row`` elements with a schema; every field may be null. Dates and
    times are ISO 8601 texts.
    """

    def expand(self, batches: beam.PCollection[pa.RecordBatch]) -> beam.PCollection[beam.Row]:
        schema = schema_of(batches, "ToRows")
        # Beam does not understand `int | None`.
        fields = [(field.name, Optional[_python_type(field.type)]) for field in schema]  # noqa: UP045
        return batches | "Explode" >> beam.FlatMap(_rows).with_output_types(
            RowTypeConstraint.from_fields(fields)
        )


def _python_type(kind: pa.DataType) -> Any:
    return Sequence[_python_type(kind.value_type)] if pa.types.is_list(kind) else _PYTHON_TYPE[kind]  # type: ignore[misc]


def _rows(batch: pa.RecordBatch) -> Iterator[beam.Row]:
    names = batch.schema.names
    arrays = [_as_text(column) for column in batch.columns]
    for values in zip(*(array.to_pylist() for array in arrays), strict=True):
        yield beam.Row(**dict(zip(names, values, strict=True)))


def _as_text(array: pa.Array) -> pa.Array:
    """Returns dates and times as text, others as they are.

    The format is ``2013-11-01T06:00:00.000000``.
    """
    if not pa.types.is_temporal(array.type):
        return array
    texts = texts_of(array)
    return pc.replace_substring(texts, " ", "T") if pa.types.is_timestamp(array.type) else texts
