"""Files of web servers on this machine."""

from __future__ import annotations

import functools
import gzip
import http.server
import io
import os
import re
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_pipelines.cli.main import run
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.files.beam import file_checksums, files
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, read_rows
from tests.support.web_server import served

pytestmark = pytest.mark.end_to_end


class Server(NamedTuple):
    """A running server."""

    url: str
    folder: Path
    requests: list[str]
    failures: list[int]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Serves a folder on loopback."""
    folder, failures = tmp_path / "www", list[int]()
    folder.mkdir()

    def failure(_path: str, _number: int) -> int | None:
        return failures.pop() if failures else None

    with served(folder, failure) as running:
        yield Server(running.url, folder, running.ranges, failures)


def csv_text(rows: int) -> bytes:
    """Returns rows with quoted line ends."""
    return b"n,s\n" + b"".join(b'%d,"a\n%d"\n' % (n, n) for n in range(rows))


def test_tables_of_a_web_server(server: Server) -> None:
    """CSV in ranges, gzip and Parquet give the rows of local files."""
    (server.folder / "a.csv").write_bytes(csv_text(2000))
    (server.folder / "b.csv.gz").write_bytes(gzip.compress(csv_text(2000)))
    stream = io.BytesIO()
    pq.write_table(pa.table({"n": list(range(2000))}), stream, row_group_size=300)
    (server.folder / "c.parquet").write_bytes(stream.getvalue())
    for name in ("a.csv", "b.csv.gz", "c.parquet"):
        wanted = read_rows(server.folder / name)
        assert read_rows(f"{server.url}/{name}", range_bytes=6_000) == wanted
    assert len(plan_of(f"{server.url}/a.csv", range_bytes=6_000).ranges) > 3


def test_a_plan_reads_only_what_it_needs(server: Server) -> None:
    """Planning requests a part of a file."""
    (server.folder / "a.csv").write_bytes(csv_text(300_000))
    url = f"{server.url}/a.csv"
    plan = plan_of(url)
    sizes = [re.fullmatch(r"bytes=(\d+)-(\d+)", part) for part in server.requests]
    assert all(sizes)
    asked = sum(int(found[2]) - int(found[1]) + 1 for found in sizes if found)
    assert asked < plan.files[0].size_bytes + (20 << 20)
    assert sum(chunk.batch.num_rows for chunk in read.read_chunks(plan, False)) == 300_000


def test_files_need_ranges(tmp_path: Path) -> None:
    """A file that comes whole is refused."""
    (tmp_path / "a.csv").write_bytes(csv_text(500))
    with (
        served(tmp_path, has_ranges=False) as running,
        pytest.raises(DataError, match=r"found a server that gives no ranges.* Download the file"),
    ):
        plan_of(f"{running.url}/a.csv")


def test_a_missing_file_and_errors_of_servers(server: Server) -> None:
    """A missing file, a refusal, and no server are errors."""
    with pytest.raises(RecipeProblems) as caught:
        plan_of(f"{server.url}/none.csv")
    assert "no file matches" in caught.value.problems[0].message
    with pytest.raises(DataError, match=r"cannot be listed: .*refused"):
        plan_of("http://127.0.0.1:9/a.csv")
    (server.folder / "a.csv").write_bytes(csv_text(5))
    server.failures[:] = [403]
    with pytest.raises(DataError, match=r"cannot be listed: status 403"):
        plan_of(f"{server.url}/a.csv")
    server.failures[:] = [503]
    assert len(read_rows(f"{server.url}/a.csv")) == 5


def test_a_file_that_changes_is_noticed(server: Server) -> None:
    """Another size is an error; the date is the server's."""
    path = server.folder / "a.csv"
    path.write_bytes(csv_text(50))
    url = f"{server.url}/a.csv"
    os.utime(path, (1_700_000_000, 1_700_000_000))
    assert file_checksums.modified_secs([url]) == {url: 1_700_000_000.0}
    with files.open_read(url) as opened:
        path.write_bytes(csv_text(60))
        with pytest.raises(OSError, match="the file changed while it was read"):
            opened.read()


def test_an_untrusted_certificate(tmp_path, monkeypatch, capsys):
    """A server's own certificate is refused until it is named."""
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "own.pem")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-keyout", key, "-out", certificate, "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    (tmp_path / "a.csv").write_text("a\n1\n")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    path = f"https://127.0.0.1:{server.server_port}/a.csv"
    try:
        with pytest.raises(DataError, match=r"found a certificate .*self-signed.* SSL_CERT_FILE\."):
            read_rows(path)
        assert run(["describe", path]) == 1
        assert capsys.readouterr().err.startswith(f"error: {path}: cannot be listed: found a cert")
        monkeypatch.setenv("SSL_CERT_FILE", certificate)
        with pytest.raises(DataError, match="found a server that gives no ranges"):
            read_rows(path)
    finally:
        server.shutdown()
        server.server_close()
