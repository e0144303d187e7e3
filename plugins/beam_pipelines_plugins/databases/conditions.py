"""Sends parts of a filter to servers that evaluate them alike."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping

from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sql.expressions import Expression
from beam_pipelines_plugins.databases import database_of
from beam_pipelines_plugins.databases.comparisons import Comparison, Constant, comparisons_of
from beam_pipelines_plugins.databases.database import Column, Database
from beam_pipelines_plugins.databases.tables import Table


def with_condition(
    plan: SourcePlan, condition: Expression | None, names: Mapping[str, str]
) -> SourcePlan:
    """Returns the plan of a table whose server leaves rows out.

    It leaves out no row that the condition takes. The condition still decides about the others.

    Args:
      plan: of a table in a database.
      condition: of rows with renamed columns; ``None``: the server leaves no rows out.
      names: column of the table -> its name in ``condition``, where it differs.
    """
    table = plan.reader
    if not isinstance(table, Table):
        raise TypeError(f"{plan.source.name} is no table of a database")
    database = database_of(table.request.url)
    where = ""
    if condition is not None and table.takes_filter:
        where = _where(database, table, condition, names)
    request = dataclasses.replace(table.request, where=where)
    before, after = (
        database.describe_read(each, table.columns) for each in (table.request, request)
    )
    return dataclasses.replace(
        plan,
        reader=dataclasses.replace(table, request=request),
        decisions=tuple(line.replace(before, after) for line in plan.decisions),
    )


def _where(
    database: Database, table: Table, condition: Expression, names: Mapping[str, str]
) -> str:
    """Returns the parts of a condition for a server, as SQL."""
    columns = {
        names.get(column.name, column.name): column
        for column in table.columns
        if column.kind in database.compared and column.name not in table.request.types
    }
    types = {name: column.stored for name, column in columns.items() if column.stored}
    found = comparisons_of(condition, types)
    return " AND ".join(_sql_of(database, columns[each.column], each) for each in found)


def _sql_of(database: Database, column: Column, comparison: Comparison) -> str:
    """Returns a comparison in a database's SQL.

    It keeps values that cannot be read, and may have no order: they are errors.
    """
    values = ", ".join(_literal(database, column, value) for value in comparison.values)
    values = f"({values})" if comparison.operator == "IN" else values
    name = database.compared_column(column)
    sql = f"{name} {comparison.operator} {values}".rstrip()
    return f"({sql} OR {column.guard})" if column.guard and column.expression != name else sql


def _literal(database: Database, column: Column, value: Constant) -> str:
    """Returns a constant in a database's SQL."""
    if isinstance(value, datetime.datetime):
        zoned = column.stored is not None and column.stored.tz is not None
        return database.timestamps[zoned].format(value.isoformat(" "))
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    return f"'{value}'" if isinstance(value, str) else repr(value)
