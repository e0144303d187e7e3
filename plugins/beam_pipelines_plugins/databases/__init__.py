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
# In a DuckDB file, after a checksum.
_DUCKDB_MAGIC = b"DUCK"


def database_of(url: str) -> type[Database]:
    """Returns the database of a URL or of a file.

    A file with the suffix ``.db`` may be of SQLite or of DuckDB.

    Raises:
      ValueError: there is none; ``recipe.places.planner_of`` tells.
    """
    path = f"{url}.duckdb" if url.lower().endswith(".db") and _is_duckdb(url) else url
    for database in DATABASES:
        is_file = bool(database.suffixes) and path.lower().endswith(database.suffixes)
        if scheme_of(url) in database.schemes or is_file:
            return database
    raise ValueError(f"no database has the URL {url}")


def _is_duckdb(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(12)[8:] == _DUCKDB_MAGIC
    except OSError:
        return False


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
