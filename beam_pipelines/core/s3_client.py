"""Shares one client of S3 among all that opens files there.

Beam makes a client for each file that it opens, looks for or lists: 70 ms of work each time,
against 150 ms for reading 16 MiB of CSV. Clients of boto3 may be used by several threads at once;
making one is what must not happen twice at a time.
"""

from __future__ import annotations

import functools
import os
import socket
import threading
import urllib.parse
from typing import Any

from beam_pipelines.core.errors import RecipeError

_lock = threading.Lock()
_ANSWER_SECS = 10
_PORT_FOR_SCHEME = {"http": 80, "https": 443}


def share() -> None:
    """Lets Beam's S3 filesystem use one client for each set of options; does nothing where boto3 is
    not installed.
    """
    from apache_beam.io.aws.clients.s3 import boto3_client

    if boto3_client.boto3 is not None:
        boto3_client.boto3 = _Boto3


def check_endpoint(url: str | None) -> None:
    """Checks that somebody answers at an address, if one is given.

    Raises:
      RecipeError: nobody does, or it is no address.
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
            f"{where}, where nobody answers: {error}. Check the address and that the storage runs."
        ) from error


@functools.cache
def _client(_process: int, options: tuple[tuple[str, Any], ...]) -> Any:
    import boto3
    import botocore.config

    # As many connections as threads of a worker that read and write at once, or the surplus is made
    # anew each time.
    config = botocore.config.Config(max_pool_connections=64)
    return boto3.session.Session().client(**dict(options), config=config)


class _Session:
    """What Beam asks of a session of boto3's."""

    def client(self, **options: Any) -> Any:
        with _lock:
            # A forked process must not go on with the connections of the one that it comes from.
            return _client(os.getpid(), tuple(sorted(options.items())))


class _Boto3:
    """What Beam asks of the module boto3: ``boto3.session.Session()``."""

    class session:  # noqa: N801 - a module's name
        """The module of that name."""

        Session = _Session
