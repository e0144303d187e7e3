"""Answers of web servers are bounded in bytes and time."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from itertools import repeat

import pytest

from beam_pipelines.files.web import WebServers, read_answer


@pytest.mark.parametrize(
    ("pieces", "length", "found"),
    [
        ([b"ab", b"c"], None, b"abc"),
        ([b"ab", b"c"], 3, b"abc"),
        ([], 0, b""),
        ([b"x" * 10], None, b"x" * 10),
        ([b"x" * 11], None, "more than 10 bytes"),
        (repeat(b"x"), None, "more than 10 bytes"),
        ([b"x"], 11, "more than 10 bytes"),
        ([b"ab"], 3, "found 2 bytes of an answer, expected 3"),
    ],
)
def test_answers(pieces: Iterator[bytes], length: int | None, found: bytes | str) -> None:
    """An answer is as long as announced, and not longer than allowed."""
    rest = iter(pieces)
    if isinstance(found, bytes):
        assert read_answer(lambda _: next(rest, b""), length, 10) == found
        return
    with pytest.raises(OSError, match=found):
        read_answer(lambda _: next(rest, b""), length, 10)


def test_slow_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond its time an answer needs a thousand bytes in each second."""
    monkeypatch.setattr("beam_pipelines.files.web._SLOW_SECS", -50)
    rest = iter([b"x" * 100_000, b"x"])
    assert len(read_answer(lambda _: next(rest, b""), None, 1 << 20)) == 100_001
    with pytest.raises(OSError, match="expected 1,000 in a second"):
        read_answer(lambda _: b"x", None, 1 << 20)


class _Endless(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        status = int(self.path.rpartition("/")[2])
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", "bytes 0-9/1000000")
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"x" * 65_536)
        except OSError:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def test_servers_whose_answers_do_not_end() -> None:
    """Answers without an end keep their errors."""
    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Endless)
    thread = threading.Thread(target=running.serve_forever, args=(0.01,))
    thread.start()
    url, servers = f"http://127.0.0.1:{running.server_port}", WebServers()
    try:
        with pytest.raises(FileNotFoundError, match="status 404"):
            servers.get(f"{url}/404")
        with pytest.raises(PermissionError, match="status 403"):
            servers.get(f"{url}/403")
        with pytest.raises(OSError, match="status 503"):
            servers.get(f"{url}/503")
        with pytest.raises(ValueError, match="request for a range with status 200"):
            servers.read(f"{url}/200", 0, 10)
        with pytest.raises(OSError, match="an answer of more than 10 bytes"):
            servers.read(f"{url}/206", 0, 10)
    finally:
        running.shutdown()
        thread.join()
        running.server_close()
