"""The keys of a source in Delta Lake or Apache Iceberg."""

from __future__ import annotations

import dataclasses
import datetime
import urllib.parse
from typing import TYPE_CHECKING

from beam_pipelines.core.errors import keep_secret
from beam_pipelines.recipe.values import TEXT, Value, read_text, reader
from beam_pipelines.recipe.yaml import Scalar

if TYPE_CHECKING:
    from beam_pipelines.recipe.model import Source

DELTA, ICEBERG = "delta", "iceberg"
LAKEHOUSES = (DELTA, ICEBERG)
# Key -> the formats that have it.
_KEYS = {
    "version": (DELTA,),
    "snapshot_id": (ICEBERG,),
    "as_of": LAKEHOUSES,
    "catalog": (ICEBERG,),
}
# Keys of a source that describe files of text, which a table has not.
_OF_FILES = ("compression", "nulls", "schema", "skip_lines", "encoding", "libsvm", "image", "idx")
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
        options = urllib.parse.parse_qsl(parts.query)
        words = ("password", "token", "secret", "credential")
        hidden = [own for name, own in options if any(word in name.lower() for word in words)]
        found = [secret for secret in (parts.password, *hidden) if secret]
    except ValueError:
        return False
    for secret in found:
        keep_secret(secret)
        keep_secret(urllib.parse.quote(secret))
    return bool(found)


def sqlite_path(uri: str) -> str:
    """Returns the file of an SQLite catalog's URI; "" for another."""
    scheme, separator, rest = uri.partition(":///")
    is_sqlite = bool(separator) and scheme.partition("+")[0] == "sqlite"
    return rest.partition("?")[0] if is_sqlite else ""


def with_sqlite_path(uri: str, path: str) -> str:
    """Returns the URI of an SQLite catalog with another path."""
    scheme, _, rest = uri.partition(":///")
    _, mark, options = rest.partition("?")
    return f"{scheme}:///{path}{mark}{options}"


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


def check_lakehouse(value: Value, source: Source) -> None:
    """Notes keys that do not fit each other or the format."""
    keys = value.keys
    for key, formats in _KEYS.items():
        if key in keys and source.format not in formats:
            value.wrong(
                f"found '{key}' without 'format: {' or '.join(formats)}', expected it of such a "
                "table only.",
                key,
            )
    if source.format not in LAKEHOUSES:
        return
    for key in (*_OF_FILES, "url", "query", "partition"):
        if key in keys:
            value.wrong(
                f"found '{key}' with 'format: {source.format}', expected it of other sources.", key
            )
    named = [key for key in ("version", "snapshot_id", "as_of") if key in keys]
    if len(named) > 1:
        value.wrong(f"found {' and '.join(map(repr, named))}, expected one of them.", named[1])
    _check_table_place(value, source)


def _check_table_place(value: Value, source: Source) -> None:
    """Notes a table without one place."""
    keys = value.keys
    if source.format == DELTA and ("table" in keys or len(source.path) != 1):
        value.wrong("expected one 'path' with 'format: delta', the folder of the table.")
    elif source.format == ICEBERG and "catalog" in keys:
        if "table" not in keys or "path" in keys:
            value.wrong(
                "expected 'table' with 'catalog', such as 'table: db.trips', and no 'path'."
            )
    elif source.format == ICEBERG and (len(source.path) != 1 or "table" in keys):
        value.wrong(
            "expected 'catalog' and 'table' with 'format: iceberg', or one 'path': the table's "
            "folder or its newest metadata.json."
        )
