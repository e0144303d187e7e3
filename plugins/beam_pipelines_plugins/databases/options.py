"""The keys of a source in a database, and URLs without secrets."""

from __future__ import annotations

import dataclasses
import os
import re
import urllib.parse
from collections.abc import Iterator, Mapping

from beam_pipelines.core.errors import Problem, keep_secret
from beam_pipelines.core.process.plugins import KNOWN, PLANNERS
from beam_pipelines.recipe.keys import plain_key
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.places import planner_of, scheme_of
from beam_pipelines.recipe.values import TEXT, Value, read_text, reader
from beam_pipelines.sources.source_format import problem

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
    if planner_of(url) is None:
        value.expected(
            f"the URL of a database ({', '.join(sorted(PASSWORD_PLACES))}) or its file "
            f"({', '.join(KNOWN[PLANNERS]['database'].suffixes)})"
        )
        return None
    try:
        check_url(url)
    except ValueError as error:
        value.wrong(str(error))
        return None
    return url


@dataclasses.dataclass(frozen=True)
class DatabaseOptions:
    """The rows of a source in a database."""

    url: str | None = plain_key(read_url, None, "URL or file of a database.")
    table: str | None = plain_key(read_text, None, "Table of a database, with `url`.")
    query: str | None = plain_key(read_text, None, "SELECT of a database, with `url`.")
    partition: str | None = plain_key(read_text, None, "Column that orders the rows.")

    @property
    def label(self) -> str:
        """Where the rows are: ``postgresql://host/shop#users``, without user and parameters."""
        url = self.url or ""
        if scheme_of(url):
            parts = urllib.parse.urlsplit(url)
            url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        return f"{url}#{self.table or 'query'}"


def problems(source: Source) -> Iterator[Problem]:
    """Yields the keys of files, and a table with a query."""
    plain = Source("")
    for key in ("path", "format", "compression", "nulls", "infer"):
        if getattr(source, key) != getattr(plain, key):
            yield problem(source, key, "found it with 'url', expected it of files only.")
    options = source.options_of(DatabaseOptions)
    if options.table is not None and options.query is not None:
        message = "found both 'table' and 'query' with 'url', expected one of them."
        yield problem(source, "url", message)
