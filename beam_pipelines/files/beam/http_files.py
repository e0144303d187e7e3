"""Files of web servers as a filesystem of Beam, by range requests."""

from __future__ import annotations

import email.utils
import http
import io
from typing import Any, BinaryIO, NamedTuple, NoReturn, cast

from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem, MatchResult

from beam_pipelines.core.limits import MIB
from beam_pipelines.files import stores
from beam_pipelines.files.web import WebServers, total_of

SCHEMES = ("https", "http")
# Bytes of one request, unless more are asked for at once.
_REQUEST_BYTES = 4 << 20
# Of a file that comes whole, into memory.
_MOST_BYTES = 256 * MIB
# Its connections are of a process and a thread each.
_SERVERS = WebServers()


class RemoteFile(NamedTuple):
    """Size, date and abilities of a file on a server.

    Attributes:
      size_bytes: its size; 0 if the server does not tell.
      modified_secs: when it was last written, in seconds since 1970; 0: not known.
      has_ranges: whether parts of it can be requested.
    """

    size_bytes: int
    modified_secs: float
    has_ranges: bool


def probe(url: str) -> RemoteFile | None:
    """Asks a server for a file; ``None`` if there is none.

    Raises:
      OSError: the server does not answer, or with an error.
    """
    try:
        answer = stores.retried(lambda: _SERVERS.first_byte(url), stores.is_final, tries=2)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise OSError(str(error)) from error
    modified, total = answer.headers.get("Last-Modified"), total_of(answer)
    seconds = email.utils.parsedate_to_datetime(modified).timestamp() if modified else 0.0
    has_ranges = answer.status != http.HTTPStatus.OK and total is not None
    return RemoteFile(total or 0, seconds, has_ranges)


def read_whole(url: str) -> bytes:
    """Returns a file of at most 256 MiB, or raises ``OSError``."""
    return stores.retried(lambda: _SERVERS.get(url, _MOST_BYTES), stores.is_final, tries=4)


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
          DataError: the server answers otherwise.
          OSError: the file has another size now.
        """
        length = min(len(buffer), self._size - self._place)
        if length <= 0:
            return 0
        found = stores.read(self._url, self._place, length)
        if found.size != self._size:
            raise OSError("the file changed while it was read. Run again")
        buffer[:length] = found.content
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
        return cast("BinaryIO", io.BufferedReader(_Ranges(path, size), _REQUEST_BYTES))

    def exists(self, path: str) -> bool:
        """Whether there is a file."""
        return probe(path) is not None

    def size(self, path: str) -> int:
        """Returns a file's size in bytes."""
        return self._file(path).size_bytes

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
    return FileMetadata(path, file.size_bytes, file.modified_secs)
