"""The columns of a request: a recipe derives others from them.

A request has the columns of a joined row. The recipe's ``derive``, and that of the source whose
rows become examples, are evaluated on it as in a conversion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from beam_pipelines.core.arrow.columns import column_type, parse_type
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.protect import DROP

if TYPE_CHECKING:
    from beam_pipelines.sql.derive import DerivedColumn


class Request(NamedTuple):
    """The columns of a request, and those that are derived of them.

    Attributes:
      columns: that a request has to have.
      derived: the others, in order.
      most_bytes: of a derived column.
    """

    columns: pa.Schema
    derived: tuple[DerivedColumn, ...] = ()
    most_bytes: int = 0


def plan_request(recipe: Recipe, manifest: Manifest, columns: pa.Schema, folder: str) -> Request:
    """Finds the columns that a request must have.

    A column whose values ``protect`` replaces, and one that is derived of it, comes with the
    request as the dataset has it: a server does not have the key.

    Args:
      recipe: of the dataset.
      manifest: of the dataset.
      columns: that the encodings need.
      folder: of the dataset, for messages.

    Raises:
      DataError: a column is derived, and DuckDB is not installed.
    """
    base = recipe.sources[recipe.base].derive
    if not {*recipe.derive, *_renamed(recipe, base).values()}.intersection(columns.names):
        return Request(columns)
    try:
        import duckdb  # noqa: F401
    except ImportError as error:
        raise DataError(
            f"{folder}: found columns that the recipe derives, which takes DuckDB ({error}). "
            "Install duckdb."
        ) from error
    fields = _fields(recipe, manifest) | {field.name: field for field in columns}
    wanted, needed = set(columns.names), list["DerivedColumn"]()
    for column in reversed(list(_derived(recipe, manifest, fields))):
        if column.name in wanted:
            needed.append(column)
            wanted = (wanted - {column.name}).union(column.inputs)
    kept = [field for name, field in fields.items() if name in wanted]
    return Request(pa.schema(kept), tuple(reversed(needed)), recipe.limits.derived_bytes)


def _derived(
    recipe: Recipe, manifest: Manifest, fields: Mapping[str, pa.Field]
) -> Iterator[DerivedColumn]:
    """Yields the columns that can be derived of a request, in order.

    Args:
      recipe, manifest: of the dataset.
      fields: all columns whose types are known; derived ones are known where they can be derived,
        or where the request has them.
    """
    from beam_pipelines.sql.database import ExpressionError
    from beam_pipelines.sql.derive import DerivedColumn
    from beam_pipelines.sql.expressions import parse_expression

    base = recipe.sources[recipe.base].derive
    own = _renamed(recipe, [*manifest.sources[recipe.base].columns, *base])
    every = {name: name for name in [*fields, *own.values(), *recipe.derive]}
    known = set(fields)
    hidden = {name for name, each in recipe.protect.items() if each.kind != DROP}
    for expressions, names in ((base, own), (recipe.derive, every)):
        for name, sql in expressions.items():
            try:
                expression = parse_expression(name, sql, list(names))
            except ExpressionError:
                continue  # of a column of a joined source that is not in the dataset
            inputs = tuple(names[column] for column in expression.columns)
            if known.issuperset(inputs) and hidden.isdisjoint({*inputs, names[name]}):
                known.add(names[name])
                yield DerivedColumn(names[name], expression, inputs)


def _fields(recipe: Recipe, manifest: Manifest) -> dict[str, pa.Field]:
    """Returns the columns of joined rows whose types the manifest has."""
    types = dict[str, str]()
    for prefix, source, keys in (
        ("", recipe.base, ()),
        *((join.prefix, join.source, dict(join.on).values()) for join in recipe.join),
    ):
        columns = manifest.sources[source].columns
        added = {prefix + name: type_ for name, type_ in columns.items() if name not in keys}
        types = added | types
    names = _renamed(recipe, types)
    fields = {}
    for name, type_ in [*((names[old], types[old]) for old in types), *manifest.columns.items()]:
        try:
            fields[name] = pa.field(name, column_type(parse_type(type_)))
        except ValueError:
            continue
    return fields


def _renamed(recipe: Recipe, names: Iterable[str]) -> dict[str, str]:
    """Returns each name -> the name that ``rename`` gives it."""
    return {name: recipe.rename.get(name, name) for name in names}
