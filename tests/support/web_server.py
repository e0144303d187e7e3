"""A web server for tests, with ranges, and failures on demand."""

from __future__ import annotations

import contextlib
import http.server
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

# Request's path and number -> status of a failure, "cut" for half an answer, or ``None``.
Failure = Callable[[str, int], "int | str | None"]


class Served(NamedTuple):
    """A running server, and the paths and ranges that were asked for."""

    url: str
    asked: list[str]
    ranges: list[str]


class _Server(http.server.ThreadingHTTPServer):
    """A server, with the files and settings of its handlers."""

    daemon_threads = True

    def __init__(
        self, folder: pathlib.Path, failure: Failure, has_ranges: bool, moved: str
    ) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder, self.failure = folder, failure
        self.has_ranges, self.moved = has_ranges, moved
        self.asked: list[str] = []
        self.ranges: list[str] = []


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers requests for files and ranges."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        server = self.server
        server.asked.append(self.path)
        wrong = server.failure(self.path, len(server.asked))
        path = server.folder / self.path.lstrip("/")
        if server.moved and self.path.startswith(f"/{server.moved}/"):
            self.answer(302, b"", {"Location": self.path.removeprefix(f"/{server.moved}")})
        elif isinstance(wrong, int):
            self.answer(wrong, b"no")
        elif not path.is_file():
            self.answer(404, b"no")
        else:
            self.send(path, wrong == "cut")

    def send(self, path: pathlib.Path, is_cut: bool) -> None:
        """Answers with a file, or the range that is asked for."""
        data, wanted = path.read_bytes(), self.headers.get("Range")
        date = {"Last-Modified": self.date_time_string(path.stat().st_mtime)}
        self.server.ranges.append(wanted or "all")
        if wanted is None or not self.server.has_ranges:
            self.answer(200, data, date, is_cut)
            return
        start, end = (int(number) for number in wanted.removeprefix("bytes=").split("-"))
        if start >= len(data):
            self.answer(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            return
        part = data[start : end + 1]
        range_ = f"bytes {start}-{start + len(part) - 1}/{len(data)}"
        self.answer(206, part, {"Content-Range": range_, **date}, is_cut)

    def answer(
        self, status: int, data: bytes, headers: dict[str, str] | None = None, is_cut: bool = False
    ) -> None:
        """Sends an answer, or its first half."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data[: len(data) // 2] if is_cut else data)
        self.close_connection = is_cut


@contextlib.contextmanager
def served(
    folder: pathlib.Path,
    failure: Failure = lambda _path, _number: None,
    has_ranges: bool = True,
    moved: str = "",
) -> Iterator[Served]:
    """Starts a server of a folder's files.

    Args:
      folder: of the files.
      failure: of requests.
      has_ranges: whether it answers requests for ranges with ranges.
      moved: a first name of paths that it redirects to the same path without it.
    """
    server = _Server(folder, failure, has_ranges, moved)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield Served(f"http://127.0.0.1:{server.server_port}", server.asked, server.ranges)
    finally:
        server.shutdown()
        server.server_close()
