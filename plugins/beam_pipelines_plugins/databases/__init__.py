"""The databases that can be read, by scheme or suffix."""

from __future__ import annotations

from beam_pipelines.recipe.places import scheme_of
from beam_pipelines_plugins.databases.bigquery import BigQuery
from beam_pipelines_plugins.databases.database import Database
from beam_pipelines_plugins.databases.duckdb_file import DuckDbFile
from beam_pipelines_plugins.databases.mysql import Mariadb, Mysql
from beam_pipelines_plugins.databases.postgres import Postgres
from beam_pipelines_plugins.databases.sqlite_file import SqliteFile

DATABASES: tuple[Database, ...] = (
    Postgres(),
    Mariadb(),
    Mysql(),
    BigQuery(),
    SqliteFile(),
    DuckDbFile(),
)
# In a DuckDB file, after a checksum.
_DUCKDB_MAGIC = b"DUCK"


def database_of(url: str) -> Database:
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
