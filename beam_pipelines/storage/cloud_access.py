"""Checks packages, credentials and servers of object stores before a run.

Beam and its libraries search for credentials for minutes, in silence. And Beam makes a client for
each file that it opens, looks for or lists: 70 ms of work each time, against 150 ms for reading
16 MiB of CSV (docs/decisions.md); on S3 a process's files share one.
"""

from __future__ import annotations

import copy
import functools
import importlib.util
import itertools
import os
import socket
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from beam_pipelines.core.errors import RecipeError, mask
from beam_pipelines.core.process.file_locks import Lock
from beam_pipelines.remote import stores

_PORT_FOR_SCHEME = {"http": 80, "https": 443}
# Of a search for credentials. Those of a machine in the cloud answer in milliseconds.
_ANSWER_SECS = 8


class CloudAccess(NamedTuple):
    """How an object store would be accessed.

    Attributes:
      found: the credentials that were found, in words; empty if there is a problem.
      problem: why there is no access, and what to do; empty if there is.
    """

    found: str
    problem: str = ""


# Beam's options of the command, which later checks use as well.
_of_command: list[str] = []


def check_paths(paths: Iterable[str], options: Sequence[str] | None = None) -> None:
    """Checks that the object stores of paths can be accessed.

    Args:
      paths: and other texts, which are ignored.
      options: Beam's options; ``None``: those of the call before.

    Raises:
      RecipeError: a package or credentials are missing; within ten seconds.
    """
    if options is not None:
        _of_command[:] = options
    checked: set[str] = set()
    for path in paths:
        scheme = path.partition("://")[0] if "://" in path else ""
        if scheme in _KNOWN_AS:
            raise RecipeError(
                f"{mask(path)}: found {scheme}://, expected {_KNOWN_AS[scheme]}, the same store's "
                "name here."
            )
        if scheme in ACCESS_FOR_SCHEME and scheme not in checked:
            checked.add(scheme)
            access = ACCESS_FOR_SCHEME[scheme](_of_command)
            if access.problem:
                raise RecipeError(f"{mask(path)}: {access.problem}")


def s3_access(options: Sequence[str] = ()) -> CloudAccess:
    """Returns the access to ``s3://``: boto3, and its credentials and region."""
    if not _is_installed("boto3"):
        return CloudAccess("", "s3:// needs the package boto3: pip install '.[s3]' in a clone.")
    import botocore.session

    session = botocore.session.Session()
    # One try of one second at a machine's own credentials.
    session.set_config_variable("metadata_service_timeout", 1)
    session.set_config_variable("metadata_service_num_attempts", 1)
    region = _value("s3_region_name", options) or session.get_config_variable("region")
    if _value("s3_access_key_id", options):
        return _reached("keys of --s3_access_key_id", _s3_address(session, region, options))
    credentials, failure = _within(_ANSWER_SECS, session.get_credentials)
    if credentials is None:
        why = f" ({failure})" if failure else ""
        return CloudAccess(
            "",
            f"found no credentials for s3://{why}, expected AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, ~/.aws/credentials, or a role of the machine.",
        )
    return _reached(
        f"credentials by {credentials.method}, region {region or 'none, so that AWS chooses'}",  # type: ignore[attr-defined]
        _s3_address(session, region, options),
    )


def _s3_address(session: Any, region: str | None, options: Sequence[str]) -> str:
    """Returns the address that boto3 would use, by options, environment and configuration."""
    if url := _value("s3_endpoint_url", options):
        return url
    key = "unused"  # so that no credentials are searched for
    client = session.create_client("s3", region, aws_access_key_id=key, aws_secret_access_key=key)
    return str(client.meta.endpoint_url)


def gs_access(options: Sequence[str] = ()) -> CloudAccess:
    """Returns the access to ``gs://``: Google's package and its credentials."""
    if emulator := os.environ.get("STORAGE_EMULATOR_HOST"):
        return _reached(f"emulator at {emulator}", emulator)
    address = "https://storage.googleapis.com"
    if any(option.startswith("--no_auth") for option in options):
        return _reached("no credentials, by --no_auth", address)
    if not _is_installed("google.auth"):
        return CloudAccess("", "gs:// needs Google's packages: pip install 'apache-beam[gcp]'.")
    os.environ.setdefault("GCE_METADATA_TIMEOUT", "2")
    import google.auth

    found, failure = _within(_ANSWER_SECS, google.auth.default)
    if found is None:
        first = (failure or "no answer in time").splitlines()[0].split(". ")[0]
        return CloudAccess(
            "",
            f"found no credentials for gs:// ({first.rstrip('.')}), expected the file that "
            "GOOGLE_APPLICATION_CREDENTIALS names, 'gcloud auth application-default login', or a "
            "machine of Google's. For a public bucket, add --no_auth.",
        )
    kind = type(found[0]).__module__.removeprefix("google.")  # type: ignore[index]
    return _reached(f"credentials of {kind}", address)


def _reached(found: str, address: str) -> CloudAccess:
    """Returns an access, if its server answers; libraries would try for minutes.

    A proxy is not asked.
    """
    if urllib.request.getproxies():
        return CloudAccess(found)
    answers, failure = _within(_ANSWER_SECS, lambda: _connect(address))
    if answers:
        return CloudAccess(found)
    return CloudAccess(
        "",
        f"found no server at {mask(address)} ({failure or 'no answer in time'}). Check the "
        "network, the region, and settings of another server.",
    )


def _connect(address: str) -> bool:
    """Connects to a server, or raises ``OSError`` or ``ValueError``."""
    parts = urllib.parse.urlsplit(address if "://" in address else f"http://{address}")
    port = parts.port or _PORT_FOR_SCHEME.get(parts.scheme)
    if not parts.hostname or port is None:
        raise ValueError(f"found {address}, expected an address such as http://127.0.0.1:9000")
    with socket.create_connection((parts.hostname, port), _ANSWER_SECS):
        return True


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it is missing
        return False


def _value(name: str, options: Sequence[str]) -> str:
    """Returns the value of an option of Beam's; empty without it."""
    for option, following in itertools.zip_longest(options, options[1:], fillvalue=""):
        flag, equals, value = option.partition("=")
        if flag == f"--{name}":
            return value if equals else following
    return ""


ACCESS_FOR_SCHEME: dict[str, Callable[[Sequence[str]], CloudAccess]] = {
    "gs": gs_access,
    "s3": s3_access,
}
_AZURE = "azfs://ACCOUNT/CONTAINER/…"
# What other programs call these stores.
_KNOWN_AS = {
    "gcs": "gs://",
    **dict.fromkeys(("s3a", "s3n"), "s3://"),
    **dict.fromkeys(("abfs", "abfss", "adl", "az", "wasb", "wasbs"), _AZURE),
}


def _within(seconds: float, search: Callable[[], object]) -> tuple[object | None, str]:
    """Returns the result of a search, or why there is none."""
    try:
        return stores.answered(search, seconds), ""
    except TimeoutError:
        return None, ""
    except Exception as error:  # noqa: BLE001 - libraries raise many kinds; each is explained
        return None, str(error) or type(error).__name__


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
