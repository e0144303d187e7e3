"""Divides a condition into the parts that AND joins.

A row fulfils the condition exactly if it fulfils every part, also where one of them is null.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from beam_pipelines.sql.database import sql_of
from beam_pipelines.sql.expressions import statement_of


def conjuncts_of(sql: str) -> list[str]:
    """Returns the parts that AND joins, in order and in DuckDB's words.

    A condition of one part stays as it is.

    Args:
      sql: a condition without errors.
    """
    statement = statement_of(sql)
    parts = list(_factors(statement["statements"][0]["node"]["select_list"][0]))
    return [sql] if len(parts) == 1 else [sql_of(statement, part) for part in parts]


def _factors(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if node["type"] == "CONJUNCTION_AND":
        for child in node["children"]:
            yield from _factors(child)
    else:
        yield node
