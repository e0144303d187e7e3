"""The fingerprint of all inputs of a conversion, by content.

Copying a file or changing its time does not change the fingerprint.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from beam_pipelines.core.version import __version__
from beam_pipelines.files.beam import file_checksums
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.recipe.normal_form import recipe_hash
from beam_pipelines.sources import format_of
from beam_pipelines.sources.plan import SourcePlan

# Reading and checksums release the interpreter's lock; remote files are asked for one by one.
_THREADS = 8


def fingerprint_of(plan: Plan) -> str:
    """Returns a fingerprint: ``sha256:`` and 64 hexadecimal digits.

    Conversions with equal fingerprints write the same shards.

    The hash includes the recipe, its checks and its date, this package's version, the
    contract, the recipe's user functions, and the path
    and content of every input file. Local files are read once.

    Raises:
      DataError: a file cannot be read.
    """
    digest = hashlib.sha256(
        f"{__version__}\n{recipe_hash(plan.recipe)}\n{plan.recipe.date}\n".encode()
    )
    for content in (
        plan.contract or b"",
        (plan.preprocessing.source if plan.preprocessing else "").encode(),
    ):
        digest.update(hashlib.sha256(content).digest())
    if plan.select.checks:
        digest.update(hashlib.sha256(repr(plan.select.checks).encode()).digest())
    for name in sorted(plan.sources):
        if not format_of(plan.sources[name]).has_files:
            # A database may have other rows each time.
            digest.update(os.urandom(32))
            continue
        if (snapshot := plan.sources[name].snapshot) is not None:
            # Two versions may have the same files, and other deleted rows.
            digest.update(f"{snapshot.table} {snapshot.id}\n".encode())
        paths = sorted(set(_paths(plan.sources[name])))
        digest.update(f"{name}: {len(paths)}\n".encode())
        with ThreadPoolExecutor(_THREADS) as pool:
            for path, checksum in zip(
                paths, pool.map(file_checksums.content_checksum, paths), strict=True
            ):
                digest.update(f"{path}\n{checksum}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def _paths(plan: SourcePlan) -> Iterator[str]:
    """Yields the files of a source, and the files that accompany them."""
    for file in plan.files:
        yield file.archive or file.path
    yield from format_of(plan).companions(plan)
    for paths in format_of(plan).paths_of(plan.source).values():
        yield from paths
