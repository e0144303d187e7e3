"""The keys of a source in Delta Lake or Apache Iceberg."""

from __future__ import annotations

import dataclasses
import datetime
import re
import urllib.parse
from collections.abc import Iterator

from beam_pipelines.core.errors import Problem, keep_secret
from beam_pipelines.recipe.keys import recipe_key
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml import Scalar
from beam_pipelines.recipe.values import TEXT, Value, read_integer, read_text, reader
from beam_pipelines.sources.format import problem
from beam_pipelines.sources.options import ListOptions

DELTA, ICEBERG = "delta", "iceberg"
_SECRET = re.compile("password|token|secret|credential", re.IGNORECASE)
_CREDENTIALS = (
    "others read recipes and manifests. Leave it out, and put it into .pyiceberg.yaml, or into an "
    "environment variable such as PYICEBERG_CATALOG__PROD__URI"
)


@dataclasses.dataclass(frozen=True)
class Catalog:
    """A catalog of Iceberg tables.

    Attributes:
      name: in pyiceberg's configuration; in an SQL catalog its tables have it, too.
      uri: of the catalog; ``None``: the configuration says it.
    """

    name: str = "default"
    uri: str | None = None

    @property
    def shown(self) -> str:
        """The catalog in messages."""
        return self.name if self.uri is None else self.uri


_NAMED = {
    "type": "object",
    "properties": {"name": TEXT, "uri": TEXT},
    "required": ["name", "uri"],
    "additionalProperties": False,
}


@reader(anyOf=[TEXT, _NAMED])
def read_catalog(value: Value) -> Catalog | None:
    """The name of a catalog, its URI, or both as a mapping."""
    if isinstance(value.tree, dict):
        if set(value.tree) != {"name", "uri"}:
            value.expected("a name, a URI, or {name: …, uri: …}")
            return None
        parts = dict(value.items())
        name, uri = read_text(parts["name"]), read_text(parts["uri"])
        found = Catalog(name, uri) if name is not None and uri is not None else None
    else:
        text = read_text(value)
        if text is None:
            return None
        found = Catalog(uri=text) if "://" in text else Catalog(text)
    if found is not None and found.uri is not None and _has_password(found.uri):
        value.wrong(f"found a password in the URI of a catalog, expected none: {_CREDENTIALS}.")
        return None
    return found


def _has_password(uri: str) -> bool:
    """Whether a URI has a password, which is then masked."""
    try:
        parts = urllib.parse.urlsplit(uri)
        hidden = [
            value for name, value in urllib.parse.parse_qsl(parts.query) if _SECRET.search(name)
        ]
        secrets = [secret for secret in (parts.password, *hidden) if secret]
    except ValueError:
        return False
    for secret in secrets:
        keep_secret(secret)
        keep_secret(urllib.parse.quote(secret))
    return bool(secrets)


def sqlite_path(uri: str) -> str:
    """Returns the file of an SQLite catalog's URI; "" for another."""
    scheme, separator, rest = uri.partition(":///")
    is_sqlite = bool(separator) and scheme.partition("+")[0] == "sqlite"
    return rest.partition("?")[0] if is_sqlite else ""


def local_path(path: str) -> str:
    """Returns a path of Iceberg's metadata as this package writes it."""
    path = path.removeprefix("file://").removeprefix("file:")
    return f"s3://{path.partition('://')[2]}" if path.startswith(("s3a://", "s3n://")) else path


@reader(**TEXT)
def read_as_of(value: Value) -> str | None:
    """A day, or a time in UTC or with its offset."""
    text = value.tree.text.strip() if isinstance(value.tree, Scalar) else ""
    try:
        found = datetime.datetime.fromisoformat(
            f"{text[:-1]}+00:00" if text.endswith(("Z", "z")) else text
        )
    except ValueError:
        value.expected("a day or a time such as 2026-11-23 or 2026-11-23T08:00:00Z")
        return None
    if found.tzinfo is None:
        found = found.replace(tzinfo=datetime.timezone.utc)
    return found.astimezone(datetime.timezone.utc).isoformat()


@dataclasses.dataclass(frozen=True)
class LakeOptions(ListOptions):
    """Keys of both kinds of tables."""

    as_of: str | None = recipe_key(
        read_as_of, None, "now", "Time whose version or snapshot of a lakehouse's table is read."
    )


@dataclasses.dataclass(frozen=True)
class DeltaOptions(LakeOptions):
    """Keys of a table of Delta Lake."""

    version: int | None = recipe_key(
        read_integer(0), None, "the latest", "Version of a `delta` table."
    )


@dataclasses.dataclass(frozen=True)
class IcebergOptions(LakeOptions):
    """Keys of a table of Iceberg."""

    table: str | None = recipe_key(
        read_text,
        None,
        "none",
        "Table of a database, with `url`, or of an Iceberg catalog, with `catalog`.",
    )
    snapshot_id: int | None = recipe_key(
        read_integer(0), None, "the current one", "Snapshot of an `iceberg` table."
    )
    catalog: Catalog | None = recipe_key(
        read_catalog, None, "none", "Catalog of an `iceberg` table: name or URI."
    )


def problems(source: Source) -> Iterator[Problem]:
    """Yields keys of files, and keys that do not fit each other."""
    plain = Source("")
    for key in ("compression", "nulls"):
        if getattr(source, key) != getattr(plain, key):
            message = f"found it with 'format: {source.format}', expected it of other sources."
            yield problem(source, key, message)
    named = [key for key in ("version", "snapshot_id", "as_of") if key in source.options]
    if len(named) > 1:
        message = f"found {' and '.join(map(repr, named))}, expected one of them."
        yield problem(source, named[1], message)
    if source.format == DELTA and len(source.path) != 1:
        yield problem(source, "path", "expected one 'path', the folder of the table.")
    ways = (len(source.path), "table" in source.options, "catalog" in source.options)
    if source.format == ICEBERG and ways not in ((1, False, False), (0, True, True)):
        message = (
            "expected 'catalog' and 'table', such as 'table: db.trips', or one 'path': the table's "
            "folder or its newest metadata.json."
        )
        yield problem(source, "catalog" if ways[-1] else "path", message)
