"""Plans sources in databases: columns, types, and estimates of their size."""

from __future__ import annotations

import pyarrow as pa

from beam_pipelines.core.arrow import columns
from beam_pipelines.core.errors import Problem, RecipeProblems, nearest
from beam_pipelines.core.process.plugins import KNOWN, PLANNERS
from beam_pipelines.files.beam import files, input_roots
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.places import scheme_of
from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sources.plan import FileInfo, SourcePlan
from beam_pipelines.sources.source_format import Contents, Planner, problem
from beam_pipelines_plugins.databases import opened
from beam_pipelines_plugins.databases.database import Database, TableColumn, TableFacts
from beam_pipelines_plugins.databases.options import DatabaseOptions, problems
from beam_pipelines_plugins.databases.tables import Table
from beam_pipelines_plugins.kept import ranges_of

# Bytes of a value, before any is read.
_VALUE_BYTES = 12


class Databases(Planner):
    """Plans sources in databases."""

    Options = DatabaseOptions

    def check(self, source: Source) -> list[Problem]:
        """Returns the keys of the source that do not fit."""
        return list(problems(source))

    def plan(self, source: Source, directory: str) -> tuple[SourcePlan, Contents]:
        """Plans a table or query, by what the server says; see ``Planner``."""
        source = source.with_options(url=_checked_url(source, directory))
        with opened(source.name, source.options_of(DatabaseOptions)) as database:
            source = _with_table(source, database)
            request = source.options_of(DatabaseOptions)
            facts = database.describe(request, source.types)
            chosen = _chosen(source, request, facts)
            select = database.select_of(request, chosen)
        rows = max(1, facts.rows or 1)
        known = f"about {rows:,} rows by {database.name}'s estimate"
        file = FileInfo(request.label, rows * max(1, len(facts.columns)) * _VALUE_BYTES)
        said = (*filter(None, map(_rounding, chosen)), *facts.decisions)
        table = Table(source.name, request, chosen, said)
        contents = table.infer(source, (file,))._replace(
            names=tuple(column.name for column in facts.columns)
        )
        plan = SourcePlan(
            source=source,
            format=database.format,
            files=(file,),
            read_schema=contents.read_schema,
            schema=columns.normalise_schema(contents.read_schema, file.path, takes_steps=True),
            ranges=ranges_of(file, 1, 1),
            file_schema=contents.file_schema,
            decisions=(*[known][: facts.rows is not None], f"read as {select}", *said),
            reader=table,
        )
        return plan, contents


def _wrong(source: Source, key: str, message: str) -> RecipeProblems:
    return RecipeProblems([problem(source, key, message)])


def _checked_url(source: Source, directory: str) -> str:
    """Returns a database's URL, or its file's absolute path.

    Raises:
      RecipeProblems: there is no such file here, or the URL may lead elsewhere.
      OutsideRootError: this process may not read it.
    """
    url = source.options_of(DatabaseOptions).url or ""
    scheme = scheme_of(url)
    if scheme and "?" in url and not input_roots.allows(f"{scheme}://"):
        message = (
            "found parameters in the URL of a database with --input_root, expected none: they "
            "could name another host."
        )
        raise _wrong(source, "url", message)
    url = url if scheme else files.resolve(url, directory)
    input_roots.check(url)
    if not scheme and not files.is_local(url):
        message = f"found {url}, expected a file on this machine. Copy the database."
        raise _wrong(source, "url", message)
    if not scheme and not files.exists(url):
        suffixes = ", ".join(KNOWN[PLANNERS]["database"].suffixes)
        message = f"there is no file {url}. Check the path of the database ({suffixes})."
        raise _wrong(source, "url", message)
    return url


def _with_table(source: Source, database: Database) -> Source:
    """Returns the source with its file's only table, if it names none."""
    options = source.options_of(DatabaseOptions)
    if options.table is not None or options.query is not None:
        return source
    tables = database.tables()
    if len(tables) == 1:
        return source.with_options(table=tables[0])
    found = f"{len(tables)} tables: {', '.join(tables[:20])}" if tables else "no table"
    message = (
        f"found {found}, expected one to be named. Name it with 'table', or after the URL: "
        f"'{options.url}#{tables[0] if tables else 'table'}'."
    )
    raise _wrong(source, "url", message)


def _chosen(source: Source, request: DatabaseOptions, facts: TableFacts) -> tuple[TableColumn, ...]:
    """Returns the columns to read, in order.

    The caller finds names that do not exist.

    Raises:
      RecipeProblems: a column has a type that cannot be read, or the order's does not exist.
    """
    known = {column.name: column for column in facts.columns}
    chosen = (
        tuple(known[name] for name in source.columns or known if name in known) or facts.columns
    )
    found = [
        problem(
            source,
            "types",
            f"column '{column.name}': found {column.kind}, which no column type equals. Read its "
            f"text with 'types: {{{yaml_text(column.name)}: text}}', make a number or a text of it "
            "in 'query', or leave it out with 'columns'.",
        )
        for column in chosen
        if column.stored is None
    ]
    if request.partition is not None and request.partition not in known:
        hint = nearest(request.partition, known)
        message = f"there is no column '{request.partition}' in {request.label}.{hint}"
        found.append(problem(source, "partition", message))
    if found:
        raise RecipeProblems(found)
    return chosen


def _rounding(column: TableColumn) -> str:
    """Returns what the dataset tells of a rounded column, or ""."""
    if column.found is None or not pa.types.is_decimal(column.found):
        return ""
    return (
        f"column '{column.name}' is {column.kind}: the nearest float64; 'types: "
        f"{{{column.name}: text}}' keeps its digits"
    )
