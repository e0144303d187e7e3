"""The expectations of a recipe: conditions that its rows have to meet."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Literal

import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.anomalies.rules.feature import RETIRED_STAGES
from beam_pipelines.recipe import values
from beam_pipelines.recipe.keys import json_schema, needed_key, plain_key, read_keys
from beam_pipelines.sql.database import identifier


@dataclasses.dataclass(frozen=True)
class Expectation:
    """A condition on each row, or on whole columns: one of both."""

    name: str = needed_key(values.read_name, "Name of the expectation.", "short_hops")
    row: str | None = plain_key(
        values.read_text, None, "SQL condition of one row; a row for which it is false fails."
    )
    column: str | None = plain_key(
        values.read_text, None, "SQL condition of aggregates of columns, over all rows."
    )
    severity: Literal["error", "warn"] = plain_key(
        values.read_choice(("error", "warn")),
        "error",
        "Whether a failed expectation stops the run or is a warning.",
    )
    budget: int | float = plain_key(
        values.read_budget, 0, "With row: most rows that may fail, a number or a share below 1."
    )

    @property
    def sql(self) -> str:
        """The condition."""
        return self.row or self.column or ""


def _read(value: values.Value) -> tuple[Expectation, ...] | None:
    if not isinstance(value.tree, list):
        value.expected("a list, one '- {name: …, row: …}' a line")
        return None
    found = [_read_one(value.at(index, tree)) for index, tree in enumerate(value.tree)]
    seen: dict[str, int] = {}
    for index, expectation in enumerate(found):
        first = seen.setdefault(expectation.name, index)
        if expectation.name and first != index:
            value.wrong(
                f"found '{expectation.name}' as in expect[{first}], expected another name.",
                index,
                "name",
            )
    return tuple(found)


def _read_one(value: values.Value) -> Expectation:
    found = read_keys(Expectation, value, "a mapping such as {name: far, row: distance > 0}")
    given = {"row", "column"} & value.keys
    if isinstance(value.tree, dict) and len(given) != 1:
        value.wrong(
            f"found {'both' if given else 'neither'} 'row' and 'column', expected one of them: "
            "'row: distance > 0' or 'column: avg(late) < 0.4'."
        )
    elif "column" in given and "budget" in value.keys:
        value.wrong("found it with 'column', expected it with 'row' only.", "budget")
    return Expectation(**{"name": "", **found})


read_expectations: values.ValueReader[tuple[Expectation, ...]] = values.ValueReader(
    _read, {"type": "array", "items": json_schema(Expectation)}
)


def expected_lengths(schema: schema_pb2.Schema, columns: pa.Schema) -> Iterator[Expectation]:
    """Yields conditions on the columns of sparse and weighted features.

    In each row they have as many values, or none has any.

    Args:
      schema: of the recipe.
      columns: that are written; a feature without one of its columns is not in the written schema.
    """
    for feature in (*schema.sparse_feature, *schema.weighted_feature):
        if isinstance(feature, schema_pb2.SparseFeature):
            kind, value = "sparse_feature", feature.value_feature.name
            others = [index.name for index in feature.index_feature]
        else:
            kind, value = "weighted_feature", ".".join(feature.feature.step)
            others = [".".join(feature.weight_feature.step)]
        if feature.lifecycle_stage not in RETIRED_STAGES and {value, *others} <= set(columns.names):
            first, *sizes = (_size_of(columns.field(name)) for name in (value, *others))
            row = " AND ".join(f"{size} IS NOT DISTINCT FROM {first}" for size in sizes)
            yield Expectation(f"{kind} '{feature.name}' of the schema", row)


def _size_of(column: pa.Field) -> str:
    """Returns SQL for the number of values; null without any."""
    name = identifier(column.name)
    return f"len({name})" if pa.types.is_list(column.type) else f"if({name} IS NULL, NULL, 1)"
