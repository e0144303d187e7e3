"""Files of web servers as a filesystem of Beam, by range requests."""

from __future__ import annotations

import email.utils
import io
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple, NoReturn, cast

from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem, MatchResult

from beam_pipelines.remote.stores import retried
from beam_pipelines.remote.web import WebServers

SCHEMES = ("https", "http")
# Bytes of one request, unless more are asked for at once.
_REQUEST_BYTES = 4 << 20
# Of a file that is looked for, and of a part of one that is there.
_PROBE_SECS, _READ_SECS = 8, 30
_TRIES = 4
_PARTIAL, _NOT_FOUND, _TOO_MANY, _SERVER_ERROR = 206, 404, 429, 500

# Its connections are of a process and a thread each.
_SERVERS = WebServers()


class RemoteFile(NamedTuple):
    """Size, date and abilities of a file on a server.

    Attributes:
      size_bytes: its size; ``None`` if the server does not tell.
      modified_secs: when it was last written, in seconds since 1970; 0: not known.
      has_ranges: whether parts of it can be requested.
    """

    size_bytes: int | None
    modified_secs: float
    has_ranges: bool


def probe(url: str) -> RemoteFile | None:
    """Asks a server for a file; ``None`` if there is none.

    Raises:
      OSError: the server does not answer, or with an error.
    """
    try:
        with _answer(url, "bytes=0-0", _PROBE_SECS, tries=2) as answer:
            modified = answer.headers.get("Last-Modified")
            seconds = email.utils.parsedate_to_datetime(modified).timestamp() if modified else 0.0
            if answer.status == _PARTIAL:
                return RemoteFile(_total(answer), seconds, has_ranges=True)
            length = answer.headers.get("Content-Length")
            return RemoteFile(None if length is None else int(length), seconds, has_ranges=False)
    except urllib.error.HTTPError as error:
        if error.code == _NOT_FOUND:
            return None
        raise


def blocks_of(url: str) -> Iterator[bytes]:
    """Yields a whole file in one request.

    Raises:
      OSError: the server does not answer, or the file ends early.
    """
    with _answer(url, None, _READ_SECS) as answer:
        length = answer.headers.get("Content-Length")
        count = 0
        while block := answer.read(_REQUEST_BYTES):
            count += len(block)
            yield block
        if length is not None and count != int(length):
            raise OSError(f"found {count:,} bytes, expected {int(length):,}")


def _answer(url: str, part: str | None, seconds: float, tries: int = _TRIES) -> Any:
    """Returns an open response; tries again if the server is busy."""
    headers = {"User-Agent": "beam-pipelines", "Accept-Encoding": "identity"}
    headers |= {"Range": part} if part else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - http or https, by callers
    try:
        return retried(
            lambda: urllib.request.urlopen(request, timeout=seconds),  # noqa: S310 - as above
            _is_final,
            tries,
        )
    except urllib.error.URLError as error:
        if not isinstance(error.reason, ssl.SSLCertVerificationError):
            raise
        raise OSError(
            f"found a certificate that is not trusted ({error.reason.verify_message}), expected "
            "one of a known authority. Name a file with the authority's certificate, or with the "
            "server's own, in the environment variable SSL_CERT_FILE"
        ) from error


def _is_final(error: OSError) -> bool:
    if not isinstance(error, urllib.error.HTTPError):
        return False
    return error.code != _TOO_MANY and error.code < _SERVER_ERROR


def _total(answer: Any) -> int:
    """Returns the size of a file, by the header of a part."""
    total = (answer.headers.get("Content-Range") or "").rpartition("/")[2]
    if not total.isdigit():
        raise OSError("found a part of the file without the size of the whole")
    return int(total)


class _Ranges(io.RawIOBase):
    """A file that is read by range requests."""

    def __init__(self, url: str, size: int) -> None:
        self._url, self._size, self._place = url, size, 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Returns the position."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Goes to a position, without a request."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = max(0, start + offset)
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Reads bytes by one request.

        Raises:
          OSError: the server answers otherwise, or the file has another size now.
        """
        length = min(len(buffer), self._size - self._place)
        if length <= 0:
            return 0
        try:
            data, size = retried(
                lambda: _SERVERS.read(self._url, self._place, length),
                lambda error: isinstance(error, (FileNotFoundError, PermissionError)),
                _TRIES,
            )
        except ValueError as error:
            raise OSError(str(error)) from error
        if size != self._size:
            raise OSError("the file changed while it was read. Run again")
        if len(data) != length:
            raise OSError(f"found {len(data):,} bytes of a part, expected {length:,}")
        buffer[:length] = data
        self._place += length
        return length


class HttpsFileSystem(FileSystem):
    """Files on web servers, to read; nothing can be listed."""

    @classmethod
    def scheme(cls) -> str:
        """Returns the scheme of its paths."""
        return SCHEMES[0]

    def join(self, basepath: str, *paths: str) -> str:
        """Joins names with slashes."""
        return "/".join([basepath.rstrip("/"), *paths])

    def split(self, path: str) -> tuple[str, str]:
        """Splits off the last name."""
        folder, _, name = path.rpartition("/")
        return folder, name

    def has_dirs(self) -> bool:
        """Never."""
        return False

    def match(self, patterns: list[str], _limits: Any = None) -> list[MatchResult]:
        """Returns the file of each path; a path is no pattern."""
        found = []
        for path in patterns:
            try:
                file = probe(path)
            except OSError as error:
                raise BeamIOError("cannot be looked for", {path: error}) from error
            listed = [] if file is None else [_metadata(path, file)]
            found.append(MatchResult(path, listed))
        return found

    def open(self, path: str, *_: Any, **__: Any) -> BinaryIO:
        """Opens a file, seekable."""
        size = self._file(path).size_bytes
        return cast("BinaryIO", io.BufferedReader(_Ranges(path, size or 0), _REQUEST_BYTES))

    def exists(self, path: str) -> bool:
        """Whether there is a file."""
        return probe(path) is not None

    def size(self, path: str) -> int:
        """Returns a file's size in bytes."""
        return self._file(path).size_bytes or 0

    def last_updated(self, path: str) -> float:
        """Returns when a file was last written, in seconds since 1970."""
        return self._file(path).modified_secs

    def metadata(self, path: str) -> FileMetadata:
        """Returns path, size and date."""
        return _metadata(path, self._file(path))

    def _file(self, path: str) -> RemoteFile:
        file = probe(path)
        if file is None:
            raise BeamIOError("not found", {path: FileNotFoundError("there is no such file")})
        return file

    def _list(self, _dir_or_prefix: str) -> list[FileMetadata]:
        return []

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise BeamIOError("files on web servers can be read, and not be written")

    mkdirs = create = copy = rename = delete = _refuse


class HttpFileSystem(HttpsFileSystem):
    """The same without encryption."""

    @classmethod
    def scheme(cls) -> str:
        """Returns the scheme of its paths."""
        return SCHEMES[1]


def _metadata(path: str, file: RemoteFile) -> FileMetadata:
    return FileMetadata(path, file.size_bytes or 0, file.modified_secs)
