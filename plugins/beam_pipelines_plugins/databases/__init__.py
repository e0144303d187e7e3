"""The databases that can be read, by scheme or suffix."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from beam_pipelines.core.errors import DataError
from beam_pipelines.recipe.places import scheme_of
from beam_pipelines_plugins.databases.bigquery import BigQuery
from beam_pipelines_plugins.databases.database import Database, ServerError
from beam_pipelines_plugins.databases.files import DuckDbFile, SqliteFile
from beam_pipelines_plugins.databases.mysql import Mariadb, Mysql
from beam_pipelines_plugins.databases.options import DatabaseOptions
from beam_pipelines_plugins.databases.postgres import Postgres

DATABASES: tuple[type[Database], ...] = (
    Postgres,
    Mariadb,
    Mysql,
    BigQuery,
    SqliteFile,
    DuckDbFile,
)


def database_of(url: str) -> type[Database]:
    """Returns the database of a URL or of a file.

    Raises:
      ValueError: there is none; ``recipe.places.planner_of`` tells.
    """
    for database in DATABASES:
        if scheme_of(url) in database.schemes or url.lower().endswith(database.suffixes):
            return database
    raise ValueError(f"no database has the URL {url}")


@contextlib.contextmanager
def opened(source: str, request: DatabaseOptions) -> Iterator[Database]:
    """Yields a connection to the database of a source, and closes it.

    Raises:
      DataError: the database answers so, here or in the body.
    """
    database = database_of(request.url or "")
    with (
        explained(source, request, database.name),
        contextlib.closing(database(request.url or "")) as connection,
    ):
        yield connection


@contextlib.contextmanager
def explained(source: str, request: DatabaseOptions, database: str) -> Iterator[None]:
    """Turns what a database answers about a source into a ``DataError``."""
    try:
        yield
    except ServerError as error:
        raise DataError(
            f"{request.label}: {database} answered: {error}. Check 'url', 'table' or 'query' of "
            f"source '{source}', the rights of the user, and the server."
        ) from error
