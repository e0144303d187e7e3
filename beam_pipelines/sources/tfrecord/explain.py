"""Errors of records that cannot be decoded, with the remedies that work."""

from __future__ import annotations

import re

import pyarrow as pa

from beam_pipelines.core.errors import nearest
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.tfrecord.schema import TFRecordOptions

# Key of an inferred schema in the metadata of a plan's file schema.
INFERRED = b"beam_pipelines.inferred_schema"

_OTHER_KIND = re.compile(r"found (int64|float|bytes) values, expected (int64|float|bytes)")
_UNEXPECTED, _SEVERAL, _STEP = "that is not expected", "values, expected at most one", "a step of"
_NOT_TEXT = "Invalid UTF8"
_FULL = "infer from every record with 'infer: full' of the source"


def reason(plan: SourcePlan, column: str, message: str) -> str:
    """Returns the error of a bad record.

    Args:
      plan: of the source.
      column: the bad column; empty if the whole record cannot be decoded.
      message: the decoder's.
    """
    if INFERRED not in (plan.file_schema.metadata or {}):
        return (
            f"found an example that does not fit the schema ({message}). Mend the "
            f"record, or {plan.source.options_of(TFRecordOptions).schema}."
        )
    cures = [*_cures(plan, column, message), "mend the record"]
    cures.append("leave such records out with 'on_error: {reject: …}'")
    text = f"{', '.join(cures[:-1])}, or {cures[-1]}."
    return (
        f"found an example unlike those that the types were inferred from ({message}). "
        f"{text[0].upper()}{text[1:]}"
    )


def _cures(plan: SourcePlan, column: str, message: str) -> list[str]:
    """Returns what reads the record, or leaves its column out."""
    if not column:
        return []
    cures: list[str] = []
    key = yaml_text(column)
    if _UNEXPECTED in message:
        known = [field.name for field in plan.file_schema if field.name not in plan.source.types]
        can_declare = "feature list" not in message and not nearest(column, known)
        cures = [_FULL, *([_declare(column)] if can_declare else [])]
    elif column in plan.source.types:
        cures = [f"declare another type with 'types: {{{key}: …}}'"]
    elif _OTHER_KIND.search(message):
        # A feature has one kind. The sample may have had none.
        cures = [_FULL, _declare(column)] if column in plan.null_columns else []
    elif _SEVERAL in message and message.startswith(_STEP):
        # Records, not a declared type, decide how many values a step has.
        cures = [f"{_FULL} (and 'types: {{{key}: list<…>}}' if arrays differ in shape)"]
    elif _SEVERAL in message:
        cures = [_FULL, _declare(column, "list<…>")]
    elif _NOT_TEXT in message:
        is_list = pa.types.is_list(plan.schema.field(column).type)
        cures = [_FULL, _declare(column, "list<bytes>" if is_list else "bytes")]
    return [*cures, "leave the column out with 'columns'"]


def _declare(column: str, type_: str = "…") -> str:
    return f"declare 'types: {{{yaml_text(column)}: {type_}}}'"
