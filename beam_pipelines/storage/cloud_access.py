"""Checks packages and credentials of object stores before a run.

Beam and its libraries search for credentials for minutes, in silence.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from beam_pipelines.core.errors import RecipeError, mask

# Of a search for credentials. Those of a machine in the cloud answer in milliseconds.
_ANSWER_SECS = 8


class Access(NamedTuple):
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
        if scheme in ACCESS_FOR_SCHEME and scheme not in checked:
            checked.add(scheme)
            access = ACCESS_FOR_SCHEME[scheme](_of_command)
            if access.problem:
                raise RecipeError(f"{mask(path)}: {access.problem}")


def s3_access(options: Sequence[str] = ()) -> Access:
    """Returns the access to ``s3://``: boto3, and its credentials and region."""
    if importlib.util.find_spec("boto3") is None:
        return Access("", "s3:// needs the package boto3: pip install 'beam-pipelines[s3]'.")
    if any(option.startswith("--s3_access_key_id") for option in options):
        return Access("keys of --s3_access_key_id")
    import botocore.session

    session = botocore.session.Session()
    # One try of one second at a machine's own credentials.
    session.set_config_variable("metadata_service_timeout", 1)
    session.set_config_variable("metadata_service_num_attempts", 1)
    credentials, failure = _within(_ANSWER_SECS, session.get_credentials)
    if credentials is None:
        why = f" ({failure})" if failure else ""
        return Access(
            "",
            f"found no credentials for s3://{why}, expected AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, ~/.aws/credentials, or a role of the machine.",
        )
    region = session.get_config_variable("region") or "none, so that AWS chooses"
    return Access(f"credentials by {credentials.method}, region {region}")  # type: ignore[attr-defined]


def gs_access(options: Sequence[str] = ()) -> Access:
    """Returns the access to ``gs://``: Google's package and its credentials."""
    if os.environ.get("STORAGE_EMULATOR_HOST"):
        return Access(f"emulator at {os.environ['STORAGE_EMULATOR_HOST']}")
    if any(option.startswith("--no_auth") for option in options):
        return Access("no credentials, by --no_auth")
    if importlib.util.find_spec("google.auth") is None:
        return Access("", "gs:// needs Google's packages: pip install 'apache-beam[gcp]'.")
    os.environ.setdefault("GCE_METADATA_TIMEOUT", "2")
    import google.auth

    found, failure = _within(_ANSWER_SECS, google.auth.default)
    if found is None:
        first = (failure or "no answer in time").splitlines()[0].split(". ")[0]
        return Access(
            "",
            f"found no credentials for gs:// ({first.rstrip('.')}), expected the file that "
            "GOOGLE_APPLICATION_CREDENTIALS names, 'gcloud auth application-default login', or a "
            "machine of Google's. For a public bucket, add --no_auth.",
        )
    return Access(f"credentials of {type(found[0]).__module__.removeprefix('google.')}")  # type: ignore[index]


ACCESS_FOR_SCHEME: dict[str, Callable[[Sequence[str]], Access]] = {
    "gs": gs_access,
    "s3": s3_access,
}


def _within(seconds: float, search: Callable[[], object]) -> tuple[object | None, str]:
    """Returns the result of a search, or why there is none."""
    found: list[object] = []
    failures: list[str] = []

    def run() -> None:
        try:
            found.append(search())
        except Exception as error:  # noqa: BLE001 - libraries raise many kinds; each is explained
            failures.append(str(error) or type(error).__name__)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    return (found[0] if found else None), (failures[0] if failures else "")
