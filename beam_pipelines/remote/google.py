"""Reads objects of Google's storage, over its interface for web clients.

Arrow's client of this store begins a second download for each file that it opens, and holds the
interpreter's lock meanwhile (pyarrow 25: ``NativeFile.closed``).
"""

from __future__ import annotations

import os
import urllib.parse
from typing import Any

from beam_pipelines.core.process.file_locks import Lock
from beam_pipelines.remote.web import WebServers

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
