"""Reads files of web servers by ranges, over connections that stay open.

Google's storage is such a server: Arrow's client of it begins a second download for each file that
it opens, and holds the interpreter's lock meanwhile (pyarrow 25: ``NativeFile.closed``).
"""

from __future__ import annotations

import http.client
import os
import ssl
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

from beam_pipelines.core.limits import MIB
from beam_pipelines.core.process.file_locks import Lock

ANSWER_SECS = 30
# An answer may take a minute, and longer only if it has more bytes in each second.
_SLOW_SECS, _SLOW_BYTES = 60, 1000
# Of a whole file of a dataset.
_MOST_BYTES = 1 << 30
_MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_MISSING, _REFUSED, _PAST_END = (404, 410), (401, 403), 416


def read_answer(read: Callable[[int], bytes], length: int | None, most_bytes: int) -> bytes:
    """Returns what a server sends, which may have no end.

    Args:
      read: returns the next bytes, at most as many as it is asked for; ``b""`` at the end.
      length: that the server announced, if it did.
      most_bytes: of an answer.

    Raises:
      OSError: it has more bytes, or fewer than it announced, or takes too long.
    """
    pieces: list[bytes] = []
    size, start = 0, time.monotonic()
    while max(size, length or 0) <= most_bytes:
        if not (piece := read(MIB)):
            if length is not None and size < length:
                raise OSError(f"found {size:,} bytes of an answer, expected {length:,}")
            return b"".join(pieces)
        size += len(piece)
        pieces.append(piece)
        seconds = time.monotonic() - start
        if seconds > _SLOW_SECS and size < (seconds - _SLOW_SECS) * _SLOW_BYTES:
            raise OSError(
                f"found {size:,} bytes of an answer in {seconds:.0f} s, expected {_SLOW_BYTES:,} "
                "in a second"
            )
    raise OSError(f"found an answer of more than {most_bytes:,} bytes, expected at most as many")


class WebServers:
    """Connections to web servers, for threads and processes of their own."""

    def __init__(self, headers: Callable[[], dict[str, str]] = dict) -> None:
        """Prepares to read.

        Args:
          headers: returns those of the next request.
        """
        self._headers = headers
        self._connections = threading.local()

    def get(self, url: str) -> bytes:
        """Returns a whole file.

        Raises:
          FileNotFoundError: there is none.
          PermissionError: the server wants credentials.
          OSError: the request failed, or the file has more bytes.
          ValueError: the server's certificate is not trusted, or it leads to an insecure one.
        """
        return self._request(url, {}, _MOST_BYTES)[1]

    def first_byte(self, url: str) -> http.client.HTTPResponse:
        """Returns the head of the answer for a file's first byte."""
        return self._request(url, {"Range": "bytes=0-0"}, 1)[0]

    def read(self, url: str, offset: int, size: int) -> tuple[bytes, int]:
        """Returns a range of a file, and the file's size.

        Raises:
          OSError: as ``get``.
          ValueError: the server gives no ranges.
        """
        part = {"Range": f"bytes={offset}-{offset + size - 1}"}
        found, content = self._request(url, part, size)
        total = total_of(found)
        if found.status == _PAST_END and total is not None:
            return b"", total  # the file ends before
        if found.status != http.HTTPStatus.PARTIAL_CONTENT or total is None:
            raise ValueError(
                f"found a server that answers a request for a range with status {found.status}, "
                "expected one with ranges (status 206)"
            )
        return content, total

    def _request(
        self, url: str, headers: dict[str, str], most_bytes: int
    ) -> tuple[http.client.HTTPResponse, bytes]:
        first, own = origin(url), self._headers()
        for _ in range(_MOST_REDIRECTS + 1):
            parts = urllib.parse.urlsplit(url)
            key = parts.scheme, parts.netloc
            try:
                answer, content = self._ask(key, parts, headers | own, most_bytes)
            except ssl.SSLCertVerificationError as error:
                raise ValueError(
                    f"found a certificate that is not trusted ({error.verify_message}), expected "
                    "one of a known authority. Name a file with the authority's certificate, or "
                    "with the server's own, in the environment variable SSL_CERT_FILE"
                ) from error
            except (http.client.HTTPException, OSError) as error:
                self._open().pop(key, None)
                # A connection that the server closed, or an answer that ends early.
                raise OSError(str(error) or type(error).__name__) from error
            if answer.status not in _REDIRECTS:
                break
            url = urllib.parse.urljoin(url, answer.headers.get("Location", ""))
            own = own if origin(url) == first else {}  # never sent again, once it led away
            if parts.scheme == "https" and not url.startswith("https:"):
                raise ValueError("found a redirect from https to another scheme")
        status = f"status {answer.status} {answer.reason}"
        if answer.status in _MISSING:
            raise FileNotFoundError(status)
        if answer.status in _REFUSED:
            raise PermissionError(status)
        if answer.status >= http.HTTPStatus.MULTIPLE_CHOICES and answer.status != _PAST_END:
            raise OSError(status)
        return answer, content

    def _ask(
        self,
        key: tuple[str, str],
        parts: urllib.parse.SplitResult,
        headers: dict[str, str],
        most_bytes: int,
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connections = self._open()
        if key not in connections:
            connections[key] = _connect(parts)
        connection = connections[key]
        path = urllib.parse.quote(parts.path or "/", safe="/%")
        target = f"{path}?{parts.query}" if parts.query else path
        connection.request("GET", target, headers={"User-Agent": "beam-pipelines", **headers})
        answer = connection.getresponse()
        is_whole = answer.status == http.HTTPStatus.OK and "Range" in headers
        if is_whole or answer.status >= http.HTTPStatus.MULTIPLE_CHOICES:
            # The content is not used, and may have no end.
            connection.close()
            return answer, b""
        if answer.length is not None and answer.length <= most_bytes:
            return answer, answer.read()  # in half the time
        content = read_answer(answer.read1, answer.length, most_bytes)
        answer.close()
        return answer, content

    def _open(self) -> dict[tuple[str, str], http.client.HTTPConnection]:
        """Returns the connections of this thread; a forked process has none."""
        if getattr(self._connections, "process", None) != os.getpid():
            self._connections.process = os.getpid()
            self._connections.found = {}
        found: dict[tuple[str, str], http.client.HTTPConnection] = self._connections.found
        return found


def total_of(answer: http.client.HTTPResponse) -> int | None:
    """Returns the size of a file, by the answer for a part."""
    total = (answer.headers.get("Content-Range") or "").rpartition("/")[2]
    return int(total) if total.isdigit() else None


def origin(url: str) -> tuple[str, str, int | None]:
    """Returns scheme, host and port of a URL."""
    parts = urllib.parse.urlsplit(url)
    return (
        parts.scheme,
        parts.hostname or "",
        parts.port or {"https": 443, "http": 80}.get(parts.scheme),
    )


def proxy_of(parts: urllib.parse.SplitResult) -> str | None:
    """Returns the URL of the proxy for a server, by the environment."""
    proxy = urllib.request.getproxies().get(parts.scheme)
    if not proxy or urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _connect(parts: urllib.parse.SplitResult) -> http.client.HTTPConnection:
    """Returns a connection to a server, perhaps through a proxy."""
    proxy = proxy_of(parts)
    first = urllib.parse.urlsplit(proxy) if proxy else parts
    if parts.scheme == "https":
        made: http.client.HTTPConnection = http.client.HTTPSConnection(
            first.hostname or "",
            first.port,
            timeout=ANSWER_SECS,
            context=ssl.create_default_context(),
        )
    else:
        made = http.client.HTTPConnection(first.hostname or "", first.port, timeout=ANSWER_SECS)
    if proxy:
        made.set_tunnel(parts.hostname or "", parts.port or {"https": 443}.get(parts.scheme, 80))
    return made


_SERVER = "https://storage.googleapis.com"
_SCOPE = "https://www.googleapis.com/auth/devstorage.read_only"


class GoogleStore:
    """Reads objects, with the credentials that Google's own programs find."""

    def __init__(self, is_anonymous: bool) -> None:
        """Prepares to read.

        Args:
          is_anonymous: whether to ask without credentials, as for public buckets.
        """
        emulator = os.environ.get("STORAGE_EMULATOR_HOST")
        self._server = _SERVER
        if emulator:
            self._server = emulator if "://" in emulator else f"http://{emulator}"
        self._is_anonymous = is_anonymous or bool(emulator)
        self._credentials: Any = None
        self._lock = Lock()
        self._web = WebServers(self._headers)

    def get(self, url: str) -> bytes:
        """Returns a whole object; see ``WebServers.get``."""
        return self._web.get(self._address(url))

    def read(self, url: str, offset: int, size: int) -> tuple[bytes, int]:
        """Returns a range of an object; see ``WebServers.read``."""
        return self._web.read(self._address(url), offset, size)

    def _address(self, url: str) -> str:
        return f"{self._server}/{urllib.parse.quote(url.partition('://')[2])}"

    def _headers(self) -> dict[str, str]:
        """Returns the header with a token.

        Raises:
          PermissionError: there are no credentials, or no package that finds them.
        """
        if self._is_anonymous:
            return {}
        try:
            import google.auth
            from google.auth.exceptions import GoogleAuthError
            from google.auth.transport.requests import Request
        except ImportError as error:
            raise PermissionError(
                f"the package google-auth is missing ({error}); pip install google-auth requests"
            ) from error
        with self._lock:
            try:
                if self._credentials is None:
                    # Of a search for the machine's own.
                    os.environ.setdefault("GCE_METADATA_TIMEOUT", "2")
                    self._credentials, _ = google.auth.default(scopes=[_SCOPE])
                if not self._credentials.valid:
                    self._credentials.refresh(Request())
            except GoogleAuthError as error:
                raise PermissionError(str(error)) from error
            return {"Authorization": f"Bearer {self._credentials.token}"}
