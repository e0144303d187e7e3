"""Reads files and ranges of them by URL.

Arrow's client reads S3: it is there anyway, finds the credentials that Amazon's own programs find,
and survives a fork. docs/decisions.md compares it with others.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.events import log_event

T = TypeVar("T")

# Seconds before the first repetition, and before each later one at most. Each delay is twice the
# one before, less up to a half: ranks do not ask a busy server all at once.
FIRST_DELAY, LONGEST_DELAY = 0.1, 8.0


def retried(request: Callable[[], T], is_final: Callable[[OSError], bool], tries: int) -> T:
    """Returns the result of a request.

    Args:
      request: to try.
      is_final: whether a failure would come again.
      tries: at most.

    Raises:
      OSError: the last failure.
    """
    delay = FIRST_DELAY
    for _ in range(tries - 1):
        try:
            return request()
        except OSError as error:
            if is_final(error):
                raise
            log_event("retry", what="request", error=str(error))
        time.sleep(delay * random.uniform(0.5, 1))  # noqa: S311 - no secret depends on it
        delay = min(2 * delay, LONGEST_DELAY)
    return request()


SCHEMES = ("s3", "gs", "https", "http")
# Of the requests that open a dataset. A search for credentials takes minutes where there are none.
ANSWER_SECS = 8
# Of a request that opens a dataset, within ANSWER_SECS; and of one that reads it, for 30 s or more.
OPENING_TRIES, READING_TRIES = 5, 10
_REFUSALS = (
    "ACCESS_DENIED",
    "INVALID_ACCESS_KEY_ID",
    "SIGNATURE_DOES_NOT_MATCH",
    "INVALID_CLIENT_TOKEN_ID",
    "UNRECOGNIZED_CLIENT",
    "EXPIRED_TOKEN",
    "HTTP status 401",
    "HTTP status 403",
)
_EXPECTED = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, ~/.aws/credentials, or a role of the "
    "machine, that may read it",
    "gs": "the file that GOOGLE_APPLICATION_CREDENTIALS names, 'gcloud auth application-default "
    "login', or a machine of Google's, that may read it",
}
_EXPECTED["http"] = _EXPECTED["https"] = "a server that asks for none"


class Range(NamedTuple):
    """A range of a file, and the file's size in bytes."""

    content: bytes
    size: int


class Access(NamedTuple):
    """How object stores are accessed, where the environment does not say it.

    Attributes:
      endpoint: URL of a server of S3's kind.
      key, secret, token, region: of S3.
      is_anonymous: whether Google's store is asked without credentials.
    """

    endpoint: str | None = None
    key: str | None = None
    secret: str | None = None
    token: str | None = None
    region: str | None = None
    is_anonymous: bool = False


class _Client(Protocol):
    """Reads files of a bucket or of web servers."""

    def get(self, url: str) -> bytes: ...

    def read(self, url: str, offset: int, size: int) -> tuple[bytes, int]: ...


_access = Access()


def use(access: Access) -> None:
    """Sets how object stores are accessed from now on."""
    global _access  # noqa: PLW0603 - as Beam's own options are the process's
    _access = access


def get(url: str) -> bytes:
    """Returns a whole file.

    Raises:
      DataError: it cannot be read.
      FileNotFoundError: there is none.
    """
    return _opened(url, lambda: _client(url).get(url))


def look_for(url: str) -> None:
    """Looks for a file, which need not be there.

    Raises:
      DataError: the store does not answer, or refuses.
    """
    with contextlib.suppress(FileNotFoundError):
        _opened(url, lambda: _client(url).read(url, 0, 1))


def _opened(url: str, request: Callable[[], T]) -> T:
    """Returns the answer of a request in time."""
    with _explained(url):
        return answered(partial(retried, request, is_final, OPENING_TRIES), ANSWER_SECS)


def read(url: str, offset: int, size: int) -> Range:
    """Returns a range of a file, shorter where the file ends.

    Raises:
      DataError: it cannot be read.
      FileNotFoundError: there is none.
    """

    def whole() -> Range:
        found = Range(*_client(url).read(url, offset, size))
        if len(found.content) != max(0, min(size, found.size - offset)):
            raise OSError(f"the answer ends after {len(found.content):,} bytes of {size:,}")
        return found

    with _explained(url):
        return retried(whole, is_final, READING_TRIES)


def is_final(error: OSError) -> bool:
    """Whether a request would fail again."""
    return isinstance(error, (FileNotFoundError, TimeoutError)) or _is_refused(error)


def _is_refused(error: OSError) -> bool:
    return isinstance(error, PermissionError) or any(said in str(error) for said in _REFUSALS)


@contextlib.contextmanager
def _explained(url: str) -> Iterator[None]:
    """Turns failures into a ``DataError`` with a cure."""
    scheme = url.partition("://")[0]
    try:
        yield
    except FileNotFoundError:
        raise
    except TimeoutError as error:
        raise DataError(
            f"{url}: found no answer in {ANSWER_SECS} s, neither from the store nor from a search "
            f"for credentials, expected {_EXPECTED[scheme]}. Check both."
        ) from error
    except (OSError, ValueError) as error:
        why = " ".join(str(error).split())
        if isinstance(error, OSError) and _is_refused(error):
            raise DataError(
                f"{url}: found no access ({why}), expected {_EXPECTED[scheme]}. Check the "
                "credentials and the bucket's permissions."
            ) from error
        raise DataError(
            f"{url}: cannot be read: {why}. Check the address and the network, and read again."
        ) from error


def answered(request: Callable[[], T], seconds: float) -> T:
    """Returns the result of a request, for which nothing waits longer.

    Raises:
      TimeoutError: there is none in time.
    """
    found: list[T] = []
    failed: list[BaseException] = []

    def ask() -> None:
        try:
            found.append(request())
        except BaseException as error:  # noqa: BLE001 - raised again below
            failed.append(error)

    thread = threading.Thread(target=ask, name="beam-pipelines-request", daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if not found:
        raise TimeoutError
    return found[0]


def _client(url: str) -> _Client:
    """Returns the client for a URL, which threads of this process share."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise ValueError(
            f"found '{parts.scheme}://', expected a path or one of "
            f"{', '.join(f'{scheme}://' for scheme in SCHEMES)}"
        )
    if "@" in parts.netloc and parts.scheme in ("s3", "gs"):  # a client's own error would show it
        raise ValueError("found a user, expected a bucket: credentials belong into options")
    return _made(os.getpid(), parts.scheme, parts.netloc, _access)


@functools.lru_cache(maxsize=64)
def _made(_process: int, scheme: str, bucket: str, access: Access) -> _Client:
    """Makes a client; a forked process has one of its own."""
    if scheme == "s3":
        return _ArrowStore(_s3(bucket, access))
    # Their imports take as long as a first batch.
    if scheme == "gs":
        from beam_pipelines.files.web import GoogleStore

        return GoogleStore(access.is_anonymous)
    from beam_pipelines.files.web import WebServers

    return WebServers()


class _ArrowStore:
    """Reads objects by a filesystem of Arrow's; keeps some open."""

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem
        self._files: dict[str, tuple[Any, int]] = {}

    def get(self, url: str) -> bytes:
        with self._filesystem.open_input_file(_path(url)) as file:
            found: bytes = file.read()
        return found

    def read(self, url: str, offset: int, size: int) -> tuple[bytes, int]:
        # Opening asks for the size. Two threads may both do, which costs a request.
        if url not in self._files:
            file = self._filesystem.open_input_file(_path(url))
            self._files[url] = file, file.size()
        file, total = self._files[url]
        return file.read_at(max(0, min(size, total - offset)), offset), total


def _path(url: str) -> str:
    """Returns bucket and name of an object."""
    return url.partition("://")[2]


def _s3(bucket: str, access: Access) -> Any:
    from pyarrow import fs

    environment, profile = os.environ, _profile()
    endpoint = (
        access.endpoint
        or environment.get("AWS_ENDPOINT_URL_S3")
        or environment.get("AWS_ENDPOINT_URL")
        or profile.get("endpoint_url")
    )
    region = (
        access.region
        or environment.get("AWS_REGION")
        or environment.get("AWS_DEFAULT_REGION")
        or profile.get("region")
    )
    options: dict[str, Any] = {"region": region}
    if access.key:
        options |= {"access_key": access.key, "secret_key": access.secret or ""}
        options |= {"session_token": access.token} if access.token else {}
    parts = urllib.parse.urlsplit(endpoint or "https://s3.amazonaws.com")
    if endpoint:
        options |= {"endpoint_override": parts.netloc + parts.path, "scheme": parts.scheme}
    elif region is None:
        options["region"] = fs.resolve_s3_region(bucket)
    if f"{parts.scheme}_proxy" in map(str.lower, environment):
        from beam_pipelines.files.web import proxy_of

        options["proxy_options"] = proxy_of(parts)
    # The repetitions are those of ``retries``.
    return fs.S3FileSystem(**options, retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1))


def _profile() -> Mapping[str, str]:
    """Returns settings of Amazon's programs that Arrow does not read."""
    import configparser

    found = configparser.RawConfigParser(strict=False)
    name = os.environ.get("AWS_PROFILE", "default")
    found.read(os.environ.get("AWS_CONFIG_FILE") or os.path.expanduser("~/.aws/config"))
    section = name if name == "default" else f"profile {name}"
    return found[section] if found.has_section(section) else {}
