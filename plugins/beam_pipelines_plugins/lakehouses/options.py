"""The keys of a source in Delta Lake or Apache Iceberg."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from beam_pipelines.core.errors import Problem
from beam_pipelines.recipe.keys import recipe_key
from beam_pipelines.recipe.model import Source
from beam_pipelines.recipe.values import read_integer
from beam_pipelines.sources.source_format import problem

DELTA, ICEBERG = "delta", "iceberg"


def local_path(path: str) -> str:
    """Returns a path of Iceberg's metadata as this package writes it."""
    path = path.removeprefix("file://").removeprefix("file:")
    return f"s3://{path.partition('://')[2]}" if path.startswith(("s3a://", "s3n://")) else path


@dataclasses.dataclass(frozen=True)
class DeltaOptions:
    """Keys of a table of Delta Lake."""

    version: int | None = recipe_key(
        read_integer(0), None, "the latest", "Version of a `delta` table."
    )


@dataclasses.dataclass(frozen=True)
class IcebergOptions:
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
    if len(source.path) != 1:
        what = "folder" if source.format == DELTA else "folder or its newest metadata.json"
        yield problem(source, "path", f"expected one 'path', the {what} of the table.")
