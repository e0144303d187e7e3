"""Plans sources in databases: columns, types, and estimates of their size."""

from __future__ import annotations

import math

import pyarrow as pa

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.errors import Problem, RecipeProblems, nearest
from beam_pipelines.core.process.plugins import KNOWN, PLANNERS
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.places import scheme_of
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources.format import Contents, Planner
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines.storage import files, input_roots
from beam_pipelines_plugins.databases import database_of
from beam_pipelines_plugins.databases.database import (
    Database,
    RowRequest,
    ServerError,
    Session,
    TableColumn,
    TableFacts,
    failure,
    request_of,
)
from beam_pipelines_plugins.databases.options import DatabaseOptions, problems
from beam_pipelines_plugins.databases.tables import Table


class Databases(Planner):
    """Plans sources in databases."""

    Options = DatabaseOptions

    def check(self, source: Source) -> list[Problem]:
        """Returns the keys of the source that do not fit."""
        return list(problems(source))

    def plan(self, source: Source, directory: str) -> tuple[SourcePlan, Contents]:
        """Plans a table or query, by what the server says; see ``Planner``."""
        database, source = _database(source, directory)
        url = source.options_of(DatabaseOptions).url or ""
        try:
            session = database.connect(url)
            try:
                if source.options_of(DatabaseOptions).query is None:
                    source = _with_table(source, session)
                request = request_of(source, url)
                described = _described(database, session, request)
                chosen = choose_columns(database, request, described)
            finally:
                session.close()
        except ServerError as error:
            raise failure(request_of(source, url), database, error) from error
        file = FileInfo(request.name, described.size_bytes)
        table = Table(request, chosen, tuple(_decisions(described, chosen)))
        contents = table.infer(source, (file,))._replace(
            names=tuple(column.name for column in described.columns)
        )
        plan = SourcePlan(
            source=source,
            format=database.format,
            files=(file,),
            read_schema=contents.read_schema,
            schema=columns.normalise_schema(contents.read_schema, file.path, takes_steps=True),
            ranges=ranges_of(file, 1, 1),
            file_schema=contents.file_schema,
            decisions=(
                f"about {described.rows:,} rows by {database.name}'s estimate",
                f"read as {database.describe_read(request, chosen)}",
                *table.decisions,
            ),
            reader=table,
        )
        return plan, contents


def choose_columns(
    database: Database, request: RowRequest, described: TableFacts
) -> tuple[TableColumn, ...]:
    """Returns the columns to read, in order.

    Raises:
      RecipeProblems: a column does not exist or has a type that cannot be read.
    """
    known = {column.name: column for column in described.columns}
    problems = []

    def note(key: str, message: str) -> None:
        problems.append(Problem(("sources", request.source, key), message))

    wanted = request.columns or tuple(known)
    for key, names in (
        ("columns", wanted),
        ("types", tuple(request.types)),
        ("partition", (request.partition,) if request.partition else ()),
    ):
        for name in names:
            if name not in known:
                hint = nearest(name, known)
                note(key, f"there is no column '{name}' in {request.name}.{hint}")
    for name in dict.fromkeys(wanted):
        column = known.get(name)
        if column is not None and column.stored is None:
            note(
                "types",
                f"column '{name}': found {column.kind}, which no column type equals. Read its text "
                f"with 'types: {{{yaml_text(name)}: text}}', make a number or a text of it in "
                "'query', or leave it out with 'columns'.",
            )
    if request.partition and not database.has_order:
        note(
            "partition",
            f"found it with {database.name}, which has no order of rows, expected none. Order the "
            "rows in 'query', if their order matters.",
        )
    if problems:
        raise RecipeProblems(problems)
    return tuple(known[name] for name in wanted)


def ranges_of(file: FileInfo, rows: int, range_rows: int) -> tuple[ByteRange, ...]:
    """Returns ranges of equal numbers of rows, with shares of the bytes."""
    count = max(1, math.ceil(rows / range_rows))
    starts = [number * range_rows * file.size_bytes // max(1, rows) for number in range(count)]
    bounds = [*starts, file.size_bytes]
    return tuple(
        ByteRange(number, number, file, bounds[number], bounds[number + 1])
        for number in range(count)
    )


def _database(source: Source, directory: str) -> tuple[Database, Source]:
    """Returns a source's database, and the source with an absolute path."""
    url = source.options_of(DatabaseOptions).url or ""
    where = ("sources", source.name, "url")
    if not scheme_of(url):
        url = files.resolve(url, directory)
        input_roots.check(url)
    elif "?" in url and not input_roots.allows(f"{scheme_of(url)}://"):
        message = (
            "found parameters in the URL of a database with --input_root, expected none: they "
            "could name another host."
        )
        raise RecipeProblems([Problem(where, message)])
    else:
        input_roots.check(url)
    if not scheme_of(url) and not files.is_local(url):
        message = f"found {url}, expected a file on this machine. Copy the database."
        raise RecipeProblems([Problem(where, message)])
    if not scheme_of(url) and not files.exists(url):
        suffixes = ", ".join(KNOWN[PLANNERS]["database"].suffixes)
        message = f"there is no file {url}. Check the path of the database ({suffixes})."
        raise RecipeProblems([Problem(where, message)])
    return database_of(url), source.with_options(url=url)


def _with_table(source: Source, session: Session) -> Source:
    """Returns the source with its database's only table, if it names none."""
    options = source.options_of(DatabaseOptions)
    if options.table is not None:
        return source
    tables = session.tables()
    if len(tables) == 1:
        return source.with_options(table=tables[0])
    found = f"{len(tables)} tables: {', '.join(tables[:20])}" if tables else "no tables"
    message = (
        f"found {found}, expected one to be named. Name it with 'table', or after the URL: "
        f"'{options.url}#{tables[0] if tables else 'table'}'."
    )
    raise RecipeProblems([Problem(("sources", source.name, "url"), message)])


def _described(database: Database, session: Session, request: RowRequest) -> TableFacts:
    """Describes a request; names the nearest table if there is none.

    Raises:
      RecipeProblems: there is no such table, or the query is wrong.
    """
    try:
        return session.describe(request)
    except ServerError as error:
        # It raises the server's error if the connection is broken.
        tables = session.tables()
        if request.query is not None:
            message = f"{database.name} answered: {error}."
            found = Problem(("sources", request.source, "query"), message)
        elif request.table in tables:
            raise
        else:
            hint = nearest(request.table or "", tables)
            message = f"there is no table '{request.table}' in {database.name}.{hint}"
            found = Problem(("sources", request.source, "table"), message)
        raise RecipeProblems([found]) from error


def _decisions(described: TableFacts, chosen: tuple[TableColumn, ...]) -> list[str]:
    """Returns what the dataset tells of its columns and query."""
    rounded = (
        f"column '{column.name}' is {column.kind}: the nearest float64; 'types: "
        f"{{{column.name}: text}}' keeps its digits"
        for column in chosen
        if column.found is not None and pa.types.is_decimal(column.found)
    )
    return [*rounded, *described.decisions]
