"""Files of web servers as a filesystem of Beam, by range requests.

Files in datasets of Hugging Face, ``hf://datasets/OWNER/NAME/FILE``, are files of its server;
``@REVISION`` after the name is one other than ``main``.
"""

from __future__ import annotations

import email.utils
import io
import os
import re
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple, NoReturn, cast

from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem, MatchResult

from beam_pipelines.core.errors import DataError, keep_secret
from beam_pipelines.remote.stores import retried
from beam_pipelines.remote.web import WebServers, origin

HUB = "hf"
# Variables of Hugging Face's own programs.
_SERVER, _TOKEN = "HF_ENDPOINT", "HF_TOKEN"
_DEFAULT_SERVER = "https://huggingface.co"
_REFUSED, _FORBIDDEN = 401, 403
# A revision has slashes only as one of these references.
_PATH = re.compile(
    r"hf://datasets/(?P<name>[^/@]+/[^/@]+)"
    r"(?:@(?P<revision>refs/convert/[^/]+|refs/pr/[^/]+|[^/]+))?/(?P<file>.+)"
)
_ALIASES = {"~parquet": "refs/convert/parquet", "~duckdb": "refs/convert/duckdb"}


def check_hub_path(path: str) -> None:
    """Checks the path of a source.

    Raises:
      DataError: it is no file in a dataset, or a pattern; or ``HF_ENDPOINT`` or ``HF_TOKEN`` is
        wrong.
    """
    if re.search(r"[*?\[]", path):
        raise DataError(
            f"{path}: found a pattern, expected the path of one file, as files of Hugging Face are "
            "not listed. Name the files in a list, or download them: 'hf download'."
        )
    hub_address(path)
    hub_headers()


def hub_address(path: str) -> str:
    """Returns the URL of a file in a dataset.

    Raises:
      DataError: the path is none of such a file, or ``HF_ENDPOINT`` is no URL.
    """
    found = _PATH.fullmatch(path)
    if found is None:
        raise DataError(
            f"{path}: found a path of Hugging Face, expected "
            "hf://datasets/OWNER/NAME[@REVISION]/FILE. Copy it from the dataset's page."
        )
    server = os.environ.get(_SERVER) or _DEFAULT_SERVER
    if not server.startswith(("https://", "http://")):
        raise DataError(
            f"{_SERVER}: found '{server}', expected the URL of a server. Unset it, or begin it "
            "with https://."
        )
    revision = urllib.parse.unquote(found["revision"] or "main")
    names = (
        found["name"],
        urllib.parse.quote(_ALIASES.get(revision, revision), safe=""),
        urllib.parse.quote(found["file"]),
    )
    return "{}/datasets/{}/resolve/{}/{}".format(server.rstrip("/"), *names)


def check_hub_answer(path: str, status: int, code: str | None) -> None:
    """Checks an answer other than the file.

    Args:
      path: of the file.
      status: of the answer.
      code: the word for the error in its header X-Error-Code.

    Raises:
      DataError: there is no such dataset or revision, or the user may not read it.
    """
    found = _PATH.fullmatch(path)
    name, revision = (found["name"], found["revision"] or "main") if found else (path, "")
    page = f"{os.environ.get(_SERVER) or _DEFAULT_SERVER}".rstrip("/") + f"/datasets/{name}"
    if code == "RevisionNotFound":
        raise DataError(
            f"{path}: dataset '{name}' has no revision '{revision}'. Branches and tags are on its "
            f"page: {page}"
        )
    if code == "GatedRepo" or (code is None and status == _FORBIDDEN):
        raise DataError(
            f"{path}: this user may not read dataset '{name}'. Accept its terms on its page, and "
            f"set {_TOKEN} to a token that may read it: {page}"
        )
    # Without a token it does not tell whether a dataset is private or is not there.
    if code == "RepoNotFound" or status == _REFUSED:
        raise DataError(
            f"{path}: found no dataset '{name}' that this user may read. Check its name; a private "
            f"one needs a token in {_TOKEN}."
        )


def hub_headers() -> dict[str, str]:
    """Returns the header with the user's token, if there is one.

    Raises:
      DataError: the token has blanks or other signs that no header has. It is not shown.
    """
    token = os.environ.get(_TOKEN, "").strip()
    if not token:
        return {}
    if not re.fullmatch(r"[!-~]+", token):
        raise DataError(
            f"{_TOKEN}: found blanks or other signs that no token has, expected a token alone. "
            "Copy it again."
        )
    keep_secret(token)
    return {"Authorization": f"Bearer {token}"}


SCHEMES = ("https", "http", HUB)
# Bytes of one request, unless more are asked for at once.
_REQUEST_BYTES = 4 << 20
# Of a file that is looked for, and of a part of one that is there.
_PROBE_SECS, _READ_SECS = 8, 30
_TRIES = 4
_PARTIAL, _NOT_FOUND, _TOO_MANY, _SERVER_ERROR = 206, 404, 429, 500

_HUB_PATHS = f"{HUB}://"
# Its connections are of a process and a thread each.
_SERVERS = WebServers()
_HUGGING_FACE = WebServers(hub_headers)


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
      DataError: Hugging Face has no such dataset for this user, or no such revision.
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
        if url.startswith(_HUB_PATHS):
            check_hub_answer(url, error.code, error.headers.get("X-Error-Code"))
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
    own: dict[str, str] = {}
    if url.startswith(_HUB_PATHS):
        url, own = hub_address(url), hub_headers()
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - http or https, by callers
    for name, value in own.items():
        request.add_unredirected_header(name, value)
    opener = urllib.request.build_opener(_Redirects)
    try:
        return retried(lambda: opener.open(request, timeout=seconds), _is_final, tries)
    except urllib.error.URLError as error:
        if not isinstance(error.reason, ssl.SSLCertVerificationError):
            raise
        raise OSError(
            f"found a certificate that is not trusted ({error.reason.verify_message}), expected "
            "one of a known authority. Name a file with the authority's certificate, or with the "
            "server's own, in the environment variable SSL_CERT_FILE"
        ) from error


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects; a token goes to its own server only."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Returns the next request."""
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        if made is not None and origin(newurl) == origin(req.full_url):
            for name, value in req.unredirected_hdrs.items():
                made.add_unredirected_header(name, value)
        return made


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
        url, servers = self._url, _SERVERS
        if url.startswith(_HUB_PATHS):
            url, servers = hub_address(url), _HUGGING_FACE
        try:
            data, size = retried(
                lambda: servers.read(url, self._place, length),
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
            if path.startswith(_HUB_PATHS) and "*" in path:
                found.append(MatchResult(path, []))  # nothing is listed
                continue
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


class HuggingFaceFileSystem(HttpsFileSystem):
    """Files in datasets of Hugging Face."""

    @classmethod
    def scheme(cls) -> str:
        """Returns the scheme of its paths."""
        return HUB


def _metadata(path: str, file: RemoteFile) -> FileMetadata:
    return FileMetadata(path, file.size_bytes or 0, file.modified_secs)
