"""Looks for object stores before a run, and shares their clients.

Beam and its libraries search for credentials for minutes, in silence. And Beam makes a client for
each file that it opens, looks for or lists: 70 ms of work each time, against 150 ms for reading
16 MiB of CSV (docs/decisions.md); on S3 a process's files share one.
"""

from __future__ import annotations

import copy
import functools
import os
import sys
from collections.abc import Iterable
from typing import Any

from beam_pipelines.core.errors import DataError, RecipeError, mask
from beam_pipelines.core.process.file_locks import Lock
from beam_pipelines.files import stores

_AZURE = "azfs://ACCOUNT/CONTAINER/…"
# What other programs call these stores.
_KNOWN_AS = {
    "gcs": "gs://",
    **dict.fromkeys(("s3a", "s3n"), "s3://"),
    **dict.fromkeys(("abfs", "abfss", "adl", "az", "wasb", "wasbs"), _AZURE),
}


def check_paths(paths: Iterable[str]) -> None:
    """Checks that the object stores of paths answer, by one request each.

    Args:
      paths: and other texts, which are ignored.

    Raises:
      RecipeError: a package or credentials are missing, or there is no answer in ten seconds.
    """
    checked: set[str] = set()
    for path in paths:
        scheme, _, rest = path.partition("://")
        if rest and scheme in _KNOWN_AS:
            raise RecipeError(
                f"{mask(path)}: found {scheme}://, expected {_KNOWN_AS[scheme]}, the same store's "
                "name here."
            )
        if rest and scheme in ("gs", "s3") and scheme not in checked:
            checked.add(scheme)
            try:
                # A bucket alone is no file.
                stores.look_for(path if "/" in rest.rstrip("/") else f"{scheme}://{rest}/-")
            except DataError as error:
                public = " For a public bucket, add --no_auth." if scheme == "gs" else ""
                raise RecipeError(f"{error}{public}") from error


def access_of(options: Any) -> stores.Access:
    """Returns how stores are accessed without Beam, by Beam's ``PipelineOptions``."""
    from apache_beam.options.pipeline_options import GoogleCloudOptions, S3Options

    s3 = options.view_as(S3Options)
    return stores.Access(
        s3.s3_endpoint_url,
        s3.s3_access_key_id,
        s3.s3_secret_access_key,
        s3.s3_session_token,
        s3.s3_region_name,
        options.view_as(GoogleCloudOptions).no_auth,
    )


def share_s3_clients() -> None:
    """Makes Beam's S3 filesystem copy one client per process (speed).

    There is one client for each set of options. Clients of boto3 are thread-safe. Beam's client
    around one is not: it holds the stream of the file that it reads, so each file gets a copy of an
    unused one. Does nothing unless Beam's S3 filesystem is imported and boto3 is installed.

    Upstream: ``S3IO`` makes a client of its own (apache/beam#15931 gave it the stream); no upstream
    issue found.
    """
    module: Any = sys.modules.get("apache_beam.io.aws.clients.s3.boto3_client")
    if (
        module is None
        or module.boto3 is None
        or not isinstance(module.Client, type)  # patched already
    ):
        return
    make, lock = module.Client, Lock()

    @functools.cache
    def unused_client(_process: int, options: tuple[tuple[str, Any], ...]) -> Any:
        return make(dict(options))

    def client(options: Any) -> Any:
        # A forked process must not use the connections of its parent; boto3 makes one client at a
        # time.
        with lock:
            return copy.copy(unused_client(os.getpid(), _s3_options(options)))

    module.Client = client


def _s3_options(options: Any) -> tuple[tuple[str, Any], ...]:
    """Returns the S3 options as pairs.

    ``options`` are Beam's ``PipelineOptions`` or a mapping.
    """
    from apache_beam.options.pipeline_options import PipelineOptions, S3Options

    if isinstance(options, PipelineOptions):
        view = options.view_as(S3Options)
        options = {name: getattr(view, name) for name in dir(view) if name.startswith("s3_")}
    return tuple(sorted(options.items()))
