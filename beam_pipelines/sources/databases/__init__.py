"""The databases that can be read, by scheme or suffix."""

from __future__ import annotations

from beam_pipelines.recipe.databases import scheme_of
from beam_pipelines.sources.databases.database import Database
from beam_pipelines.sources.databases.postgres import Postgres

DATABASES: tuple[Database, ...] = (Postgres(),)


def database_of(url: str) -> Database:
    """Returns the database of a URL or of a file.

    Raises:
      ValueError: there is none; ``recipe.databases.is_database`` tells.
    """
    for database in DATABASES:
        if scheme_of(url) in database.schemes:
            return database
    raise ValueError(f"no database has the URL {url}")
