"""Sources in databases or parts of files, and URLs without secrets."""

from __future__ import annotations

import os
import re
import urllib.parse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from beam_pipelines.core.errors import keep_secret
from beam_pipelines.recipe.values import TEXT, Value, read_text, reader

if TYPE_CHECKING:
    from beam_pipelines.recipe.model import Source

_OF_MYSQL = "MYSQL_PWD, or the group [client] of ~/.my.cnf or of a file '?defaults-file=…'"
# Scheme of a URL -> where its driver finds a password.
PASSWORD_PLACES: Mapping[str, str] = {
    "postgresql": "PGPASSWORD, ~/.pgpass (PGPASSFILE) or a service file (PGSERVICE)",
    "postgres": "PGPASSWORD, ~/.pgpass (PGPASSFILE) or a service file (PGSERVICE)",
    "mariadb": _OF_MYSQL,
    "mysql": _OF_MYSQL,
    "bigquery": "GOOGLE_APPLICATION_CREDENTIALS, or `gcloud auth application-default login`",
}
_SECRET = re.compile("passw|pwd", re.IGNORECASE)
# Suffixes of files that are databases.
FILE_SUFFIXES = (".sqlite", ".sqlite3", ".db", ".duckdb")
# Suffix of a file with several tables -> key of a source that names one.
_PART_KEYS = {
    **dict.fromkeys((".xlsx", ".xlsm", ".xls", ".ods"), "sheet"),
    **dict.fromkeys((".h5", ".hdf5", ".hdf"), "group"),
}
# Keys of a source that describe files, with ``path``.
_OF_FILES = (
    "format",
    "compression",
    "delimiter",
    "quote",
    "header",
    "skip_lines",
    "encoding",
    "nulls",
    "formats",
    "infer",
    "schema",
    "libsvm",
    "image",
    "idx",
    "sheet",
    "group",
)


def scheme_of(url: str) -> str:
    """Returns the scheme of a server's URL; "" for another text."""
    scheme = url.partition("://")[0].lower() if "://" in url else ""
    return scheme if scheme in PASSWORD_PLACES else ""


def is_database(path: str) -> bool:
    """Whether a path is the URL or the file of a database.

    A table's name may follow after ``#``.
    """
    return bool(scheme_of(path)) or split_table(path)[0].lower().endswith(FILE_SUFFIXES)


def split_table(path: str) -> tuple[str, str | None]:
    """Returns the URL of a database and the table after ``#``."""
    url, _, table = path.partition("#")
    return url, urllib.parse.unquote(table) or None


def without_user(url: str) -> str:
    """Returns the URL of a database without its user."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def of_path(path: str) -> dict[str, Any]:
    """Returns the fields of a source that is one path.

    After ``#`` may follow a table of a database, a sheet of a workbook, or a group of an HDF5 file.

    Raises:
      ValueError: the path is a URL with a password.
    """
    url, table = split_table(path)
    if not is_database(path):
        key = _PART_KEYS.get(os.path.splitext(url)[1].lower())
        if table is None or key is None:
            return {"path": (path,)}
        is_number = key == "sheet" and table.isdecimal()
        return {"path": (url,), key: int(table) if is_number else table}
    check_url(url)
    return {"path": (), "url": url, "table": table}


def check_url(url: str) -> None:
    """Raises ``ValueError`` if a URL has a password, which is then masked."""
    scheme = scheme_of(url)
    if not scheme:
        return
    try:
        parts = urllib.parse.urlsplit(url)
        options = urllib.parse.parse_qsl(parts.query)
        secrets = (value for name, value in options if _SECRET.search(name))
        given = [parts.password, *secrets]
        _ = parts.port
    except ValueError:
        raise ValueError(
            f"expected a URL such as {scheme}://host:port/database, found one that cannot be read."
        ) from None
    for secret in filter(None, given):
        keep_secret(secret)
        keep_secret(urllib.parse.quote(secret))
        raise ValueError(
            "found a password in the URL of a database, expected none: others read recipes and "
            f"manifests. Leave it out, and put it in {PASSWORD_PLACES[scheme]}."
        )


@reader(**TEXT)
def read_url(value: Value) -> str | None:
    """The URL of a database, without a password, or a database's file."""
    url = read_text(value)
    if url is None:
        return None
    url = os.path.expanduser(url)
    if not is_database(url):
        value.expected(
            f"the URL of a database ({', '.join(sorted(PASSWORD_PLACES))}) or its file "
            f"({', '.join(FILE_SUFFIXES)})"
        )
        return None
    try:
        check_url(url)
    except ValueError as error:
        value.wrong(str(error))
        return None
    return url


def check_place(value: Value) -> None:
    """Notes a source without a place, and keys that do not fit."""
    keys = value.keys
    if "url" not in keys:
        if "path" not in keys and "catalog" not in keys:
            name = value.path[-1] if value.path else "data"
            value.wrong(f"found no 'path', expected one, for example 'path: data/{name}.csv'.")
        for key in ("table", "query", "partition"):
            if key in keys and (key, "catalog" in keys) != ("table", True):
                value.wrong(f"found '{key}' without 'url', expected it of a database.", key)
        return
    for key in ("path", *_OF_FILES):
        if key in keys:
            value.wrong(f"found '{key}' with 'url', expected it of files only.", key)


def check_table(value: Value, source: Source) -> None:
    """Notes a source of a database without one table or query."""
    for path in filter(scheme_of, source.path):
        value.wrong(f"found a URL of {scheme_of(path)} in 'path', expected it in 'url'.", "path")
    if source.url is None:
        return
    table = split_table(source.url)[1] or source.table
    if (table is None) == (source.query is None):
        found = "neither 'table' nor 'query'" if table is None else "both 'table' and 'query'"
        value.wrong(f"found {found} with 'url', expected one of them.")
