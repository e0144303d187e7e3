"""The columns of a request: a recipe makes others from them.

A request has the columns of a joined row. The recipe's ``derive``, and that of the source whose
rows become examples, are evaluated on it as in a conversion. Where the events of a join over time
come along, a request has the columns before that join instead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from beam_pipelines.core.arrow.columns import column_type, empty_batch, parse_type
from beam_pipelines.core.errors import DataError
from beam_pipelines.joins.index import build_index, join_batch
from beam_pipelines.joins.windows import feature_type
from beam_pipelines.reader.encodings.raw_rows import to_batch
from beam_pipelines.recipe.joins import Join
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.protect import DROP
from beam_pipelines.sql.database import ExpressionError
from beam_pipelines.sql.derive import DerivedColumn, Deriver
from beam_pipelines.sql.expressions import NoValueError, find_row, parse_expression


class ColumnTypes(NamedTuple):
    """Column -> type, as a manifest has them.

    Attributes:
      rows: the columns before encoding.
      sources: of each source, before anything is derived.
    """

    rows: Mapping[str, str]
    sources: Mapping[str, Mapping[str, str]]


class EventJoin(NamedTuple):
    """A join with events that come with a request.

    Attributes:
      join: a left join, with the features that are needed.
      left: column on the left side -> its name in the request.
      added: (column of an event, its name in the result), of an as-of join.
      made: column that the join adds -> its name in the request.
      events: the columns of an event, and those that are derived of them.
    """

    join: Join
    left: Mapping[str, str]
    added: tuple[tuple[str, str], ...]
    made: Mapping[str, str]
    events: Request


class Request(NamedTuple):
    """The columns of a request, and those that are made of them.

    Attributes:
      columns: that a request has to have.
      derived: the others, in order.
      most_bytes: of a derived column.
      joins: that come before ``derived``.
      base: columns that are derived before the joins.
    """

    columns: pa.Schema
    derived: tuple[DerivedColumn, ...] = ()
    most_bytes: int = 0
    joins: tuple[EventJoin, ...] = ()
    base: tuple[DerivedColumn, ...] = ()


def plan_request(
    recipe: Recipe,
    types: ColumnTypes,
    columns: pa.Schema,
    folder: str,
    sources: Collection[str] = (),
) -> Request:
    """Finds the columns that a request must have.

    A column whose values ``protect`` replaces, and one that is derived of it, comes with the
    request as the dataset has it: a server does not have the key.

    Args:
      recipe: of the dataset.
      types: of its columns.
      columns: that the encodings need.
      folder: of the dataset, for messages.
      sources: whose events come along.

    Raises:
      DataError: a column is derived, and DuckDB is not installed.
    """
    base = recipe.sources[recipe.base].derive
    renamed = set(_renamed(recipe, base).values())
    if not sources and not {*recipe.derive, *renamed}.intersection(columns.names):
        return Request(columns)
    if any([recipe.derive, base, *(recipe.sources[name].derive for name in sources)]):
        _check_duckdb(folder)
    fields = _fields(recipe, types) | {field.name: field for field in columns}
    joins = [join for join in recipe.join if join.source in sources]
    made = {
        name
        for join in joins
        for name in _renamed(recipe, made_columns(join, recipe, types)).values()
    }
    derived = list(_derived(recipe, types, {*fields, *made}))
    wanted = set(columns.names)
    after = _take([each for each in derived if each.name not in renamed], wanted)
    taken = [each for join in reversed(joins) if (each := _event_join(join, recipe, types, wanted))]
    before = _take([each for each in derived if each.name in renamed], wanted)
    kept = pa.schema([field for name, field in fields.items() if name in wanted])
    most = recipe.limits.derived_bytes
    if not taken:
        return Request(kept, (*before, *after), most)
    return Request(kept, after, most, tuple(reversed(taken)), before)


def _check_duckdb(folder: str) -> None:
    try:
        import duckdb  # noqa: F401
    except ImportError as error:
        raise DataError(
            f"{folder}: found columns that the recipe derives, which takes DuckDB ({error}). "
            "Install duckdb."
        ) from error


def _take(derived: Sequence[DerivedColumn], wanted: set[str]) -> tuple[DerivedColumn, ...]:
    """Returns the derived columns that are wanted.

    Their inputs are wanted instead.
    """
    taken = list[DerivedColumn]()
    for column in reversed(derived):
        if column.name in wanted:
            taken.append(column)
            wanted.remove(column.name)
            wanted.update(column.inputs)
    return tuple(reversed(taken))


def _event_join(
    join: Join, recipe: Recipe, types: ColumnTypes, wanted: set[str]
) -> EventJoin | None:
    """Returns a join with events, if its columns are wanted.

    Its left columns are wanted instead.
    """
    timed, every = join.timed, made_columns(join, recipe, types)
    names = {name: new for name, new in _renamed(recipe, every).items() if new in wanted}
    if not names or timed is None:
        return None
    left = _renamed(recipe, join.left_keys)
    wanted.difference_update(names.values())
    wanted.update(left.values())
    features = {name: text for name, text in join.features.items() if join.prefix + name in names}
    join = dataclasses.replace(join, how="left", features=features)
    needed = (*(every[name] for name in names), timed.right, timed.tie, *join.right_on)
    added = () if join.window else tuple((every[name], name) for name in names)
    events = _events(join.source, recipe, types, {name for name in needed if name})
    return EventJoin(join, left, added, names, events)


def _events(source: str, recipe: Recipe, types: ColumnTypes, wanted: set[str]) -> Request:
    """Returns the columns that an event has to have."""
    fields = _typed(types.sources[source])
    expressions = recipe.sources[source].derive
    names = {name: name for name in [*fields, *expressions]}
    derived = _take(list(_parsed(expressions, names, set(fields), set())), wanted)
    kept = pa.schema([field for name, field in fields.items() if name in wanted])
    return Request(kept, derived, recipe.limits.derived_bytes)


def made_columns(join: Join, recipe: Recipe, types: ColumnTypes) -> dict[str, str]:
    """Returns added column -> column of the source, or ""."""
    if not join.adds_columns:
        return {}
    if join.window is not None:
        return {name: feature.column for name, feature in join.parsed.items()}
    names = [*types.sources[join.source], *recipe.sources[join.source].derive]
    return {join.prefix + name: name for name in names if name not in join.right_on}


def _derived(recipe: Recipe, types: ColumnTypes, known: set[str]) -> Iterator[DerivedColumn]:
    """Yields the columns that can be derived of a request, in order.

    Args:
      recipe, types: of the dataset.
      known: columns of a request; derived ones are added where they can be derived, or where the
        request has them.
    """
    base = recipe.sources[recipe.base].derive
    own = _renamed(recipe, [*types.sources[recipe.base], *base])
    every = {name: name for name in [*known, *own.values(), *recipe.derive]}
    hidden = {name for name, each in recipe.protect.items() if each.kind != DROP}
    yield from _parsed(base, own, known, hidden)
    yield from _parsed(recipe.derive, every, known, hidden)


def _parsed(
    expressions: Mapping[str, str], names: Mapping[str, str], known: set[str], hidden: set[str]
) -> Iterator[DerivedColumn]:
    """Yields the columns of expressions of known ones, which become known.

    Args:
      expressions: column -> SQL.
      names: column that an expression sees -> its name.
      known: names.
      hidden: names of what no expression may see.
    """
    for name, sql in expressions.items():
        try:
            expression = parse_expression(name, sql, list(names))
        except ExpressionError:
            continue  # of a column of a joined source that is not in the dataset
        inputs = tuple(names[column] for column in expression.columns)
        if known.issuperset(inputs) and hidden.isdisjoint({*inputs, names[name]}):
            known.add(names[name])
            yield DerivedColumn(names[name], expression, inputs)


def _fields(recipe: Recipe, types: ColumnTypes) -> dict[str, pa.Field]:
    """Returns the columns of joined rows whose types are known."""
    fields = _typed(types.sources[recipe.base])
    for join in recipe.join:
        right = _typed(types.sources[join.source])
        for name, column in made_columns(join, recipe, types).items():
            if (type_ := _made_type(join, name, right.get(column))) is not None:
                fields.setdefault(name, pa.field(name, type_))
    names = _renamed(recipe, fields)
    return {names[name]: field.with_name(names[name]) for name, field in fields.items()} | _typed(
        types.rows
    )


def _made_type(join: Join, name: str, right: pa.Field | None) -> pa.DataType | None:
    """Returns the type of an added column, if it is known."""
    type_ = None if right is None else right.type
    feature = join.parsed.get(name)
    if feature is None or (feature.column and type_ is None):
        return type_
    found = feature_type(feature, type_)
    return None if isinstance(found, str) else found


def _typed(types: Mapping[str, str]) -> dict[str, pa.Field]:
    """Returns the columns whose types are columns' types."""
    fields = {}
    for name, type_ in types.items():
        try:
            fields[name] = pa.field(name, column_type(parse_type(type_)))
        except ValueError:
            continue
    return fields


def _renamed(recipe: Recipe, names: Iterable[str]) -> dict[str, str]:
    """Returns each name -> the name that ``rename`` gives it."""
    return {name: recipe.rename.get(name, name) for name in names}


class RequestMaker:
    """Derives and joins the columns of a request, as a conversion does.

    Several threads may call it at once.
    """

    def __init__(self, request: Request) -> None:
        """Plans the expressions, by a request without rows."""
        self._request = request
        most = request.most_bytes
        self._base = Deriver(request.base, request.columns, most)
        own = [each.events for each in request.joins]
        self._events = [Deriver(each.derived, each.columns, most) for each in own]
        nothing = empty_batch(request.columns)
        joined = self._joined(nothing, {each.join.source: [] for each in request.joins})
        self._derive = Deriver(request.derived, joined.schema, most)

    def __call__(self, rows: Any, history: Mapping[str, Any]) -> pa.RecordBatch:
        """Returns raw rows with all columns.

        Args:
          rows: as ``to_batch`` takes them.
          history: source -> its events, of each join of the request.

        Raises:
          DataError: as ``to_batch`` does; an expression has no value; or an as-of join finds
            several newest events.
          TypeError: rows or events are something else.
        """
        batch = to_batch(rows, self._request.columns)
        return _with_derived(self._derive, self._joined(batch, history))

    def _joined(self, batch: pa.RecordBatch, history: Mapping[str, Any]) -> pa.RecordBatch:
        batch = _with_derived(self._base, batch)
        for each, derive in zip(self._request.joins, self._events, strict=True):
            source = each.join.source
            try:
                events = _with_derived(derive, to_batch(history[source], each.events.columns))
            except (DataError, TypeError) as error:
                raise type(error)(f"history of '{source}', {error}") from error
            left = pa.RecordBatch.from_arrays(
                [batch.column(name) for name in each.left.values()], list(each.left)
            )
            index = build_index(pa.Table.from_batches([events]), each.join, each.added)
            joined, _ = join_batch(left, index, each.join)
            for name, new in each.made.items():
                batch = batch.append_column(new, joined.column(name))
        return batch


def _with_derived(derive: Deriver, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns rows with the derived columns.

    Raises:
      DataError: an expression has no value for a row.
    """
    try:
        return derive(batch)
    except NoValueError as error:
        row = find_row(error.batch, error.expression)
        raise DataError(
            f"{'rows' if row is None else f'row {row}'}, {error.where} "
            f"({error.expression.sql}): found {error}, expected a value."
        ) from error
