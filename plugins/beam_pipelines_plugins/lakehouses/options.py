"""The keys of a source in Delta Lake or Apache Iceberg."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator

from beam_pipelines.core.errors import Problem
from beam_pipelines.recipe.keys import recipe_key
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.text.yaml import Scalar
from beam_pipelines.recipe.values import TEXT, Value, read_integer, reader
from beam_pipelines.sources.format import problem

DELTA, ICEBERG = "delta", "iceberg"


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
class LakeOptions:
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

    snapshot_id: int | None = recipe_key(
        read_integer(0), None, "the current one", "Snapshot of an `iceberg` table."
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
    if len(source.path) != 1:
        what = "folder" if source.format == DELTA else "folder or its newest metadata.json"
        yield problem(source, "path", f"expected one 'path', the {what} of the table.")
