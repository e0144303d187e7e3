"""Files of web servers as a filesystem of Beam, by range requests."""

from __future__ import annotations

import email.utils
import http
import io
from typing import Any, BinaryIO, NamedTuple, NoReturn, cast

from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem, MatchResult
from apache_beam.io.filesystemio import Downloader, DownloaderStream

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


class _Ranges(Downloader):
    """A file that is read by range requests."""

    def __init__(self, url: str, size: int) -> None:
        self._url, self._size = url, size

    @property
    def size(self) -> int:
        """The file's size in bytes."""
        return self._size

    def get_range(self, start: int, end: int) -> bytes:
        """Reads bytes by one request.

        Raises:
          DataError: the server answers otherwise.
          OSError: the file has another size now.
        """
        found = stores.read(self._url, start, end - start)
        if found.size != self._size:
            raise OSError("the file changed while it was read. Run again")
        return found.content


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
                found.append(MatchResult(path, self._list(path)))
            except OSError as error:
                raise BeamIOError("cannot be looked for", {path: error}) from error
        return found

    def open(self, path: str, *_: Any, **__: Any) -> BinaryIO:
        """Opens a file, seekable."""
        stream = DownloaderStream(_Ranges(path, self.size(path)))
        return cast("BinaryIO", io.BufferedReader(stream, _REQUEST_BYTES))

    def exists(self, path: str) -> bool:
        """Whether there is a file."""
        return bool(self._list(path))

    def size(self, path: str) -> int:
        """Returns a file's size in bytes."""
        return int(self.metadata(path).size_in_bytes)

    def last_updated(self, path: str) -> float:
        """Returns when a file was last written, in seconds since 1970."""
        return float(self.metadata(path).last_updated_in_seconds)

    def metadata(self, path: str) -> FileMetadata:
        """Returns path, size and date."""
        for found in self._list(path):
            return found
        raise BeamIOError("not found", {path: FileNotFoundError("there is no such file")})

    def _list(self, path: str) -> list[FileMetadata]:
        file = probe(path)
        return [FileMetadata(path, file.size_bytes, file.modified_secs)] if file else []

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise BeamIOError("files on web servers can be read, and not be written")

    mkdirs = create = copy = rename = delete = _refuse


class HttpFileSystem(HttpsFileSystem):
    """The same without encryption."""

    @classmethod
    def scheme(cls) -> str:
        """Returns the scheme of its paths."""
        return SCHEMES[1]
