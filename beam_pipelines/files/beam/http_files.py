"""Files of web servers as a filesystem of Beam, by range requests."""

from __future__ import annotations

import email.utils
import http
import io
from typing import Any, BinaryIO, NoReturn, cast

from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem, MatchResult
from apache_beam.io.filesystemio import Downloader, DownloaderStream

from beam_pipelines.files import stores
from beam_pipelines.files.web import WebServers, total_of

SCHEMES = ("https", "http")
# Bytes of one request, unless more are asked for at once.
_REQUEST_BYTES = 4 << 20
# Its connections are of a process and a thread each.
_SERVERS = WebServers()


def probe(url: str) -> FileMetadata | None:
    """Returns size and date of a file; ``None`` if there is none.

    Raises:
      OSError: the server does not answer, or with an error, or gives no ranges of the file.
    """
    try:
        answer = stores.retried(lambda: _SERVERS.first_byte(url), stores.is_final, tries=2)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise OSError(str(error)) from error
    modified, total = answer.headers.get("Last-Modified"), total_of(answer)
    if answer.status == http.HTTPStatus.OK or total is None:
        raise OSError(
            "found a server that gives no ranges of it, expected one that does. Download the file"
        )
    seconds = email.utils.parsedate_to_datetime(modified).timestamp() if modified else 0.0
    return FileMetadata(url, total, seconds)


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
        return probe(path) is not None

    def size(self, path: str) -> int:
        """Returns a file's size in bytes."""
        return int(self.metadata(path).size_in_bytes)

    def last_updated(self, path: str) -> float:
        """Returns when a file was last written, in seconds since 1970."""
        return float(self.metadata(path).last_updated_in_seconds)

    def metadata(self, path: str) -> FileMetadata:
        """Returns path, size and date."""
        if found := probe(path):
            return found
        raise BeamIOError("not found", {path: FileNotFoundError("there is no such file")})

    def _list(self, path: str) -> list[FileMetadata]:
        file = probe(path)
        return [file] if file else []

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise BeamIOError("files on web servers can be read, and not be written")

    mkdirs = create = copy = rename = delete = _refuse


class HttpFileSystem(HttpsFileSystem):
    """The same without encryption."""

    @classmethod
    def scheme(cls) -> str:
        """Returns the scheme of its paths."""
        return SCHEMES[1]
