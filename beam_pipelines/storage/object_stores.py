"""S3 clients that a process's files share, and an endpoint check.

Beam makes a client for each file that it opens, looks for or lists: 70 ms of work each time,
against 150 ms for reading 16 MiB of CSV (docs/decisions.md).
"""

from __future__ import annotations

import copy
import functools
import os
import socket
import sys
import urllib.parse
from typing import Any

from beam_pipelines.core.errors import RecipeError
from beam_pipelines.core.process.file_locks import Lock

# Set to 1 in the environment, this switches off all patches of Beam that only make it faster.
UNPATCHED = "BEAM_PIPELINES_UNPATCHED"

_ANSWER_SECS = 10
_PORT_FOR_SCHEME = {"http": 80, "https": 443}


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
        or os.environ.get(UNPATCHED) == "1"
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


def check_endpoint(url: str | None) -> None:
    """Checks that a server answers at an address, if one is given.

    Raises:
      RecipeError: none answers, or it is no address.
    """
    if url is None:
        return
    where = f"--s3_endpoint_url: found {url}"
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORT_FOR_SCHEME.get(parts.scheme)
    except ValueError:
        host, port = "", None
    if not host or port is None:
        raise RecipeError(f"{where}, expected an address such as http://127.0.0.1:9000.")
    try:
        socket.create_connection((host, port), _ANSWER_SECS).close()
    except OSError as error:
        raise RecipeError(
            f"{where}, found no server there: {error}. Check the address and that the storage runs."
        ) from error
