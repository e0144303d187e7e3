"""Files of web servers on this machine, and standard input."""

from __future__ import annotations

import functools
import gzip
import http.server
import io
import os
import re
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_pipelines.cli.main import run
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.files.beam import file_checksums, files, http_files
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


@pytest.fixture(params=[True, False], ids=["ranges", "whole"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """Serves a folder on loopback."""
    folder, failures = tmp_path / "www", list[int]()
    folder.mkdir()

    def failure(_path: str, _number: int) -> int | None:
        return failures.pop() if failures else None

    with served(folder, failure, has_ranges=request.param) as running:
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
    """With ranges a part is requested; without, the file is copied once."""
    (server.folder / "a.csv").write_bytes(csv_text(300_000))
    url = f"{server.url}/a.csv"
    plan = plan_of(url)
    has_ranges = plan.files[0].path == url
    assert has_ranges == ("all" not in server.requests)
    if has_ranges:
        sizes = [re.fullmatch(r"bytes=(\d+)-(\d+)", part) for part in server.requests]
        asked = sum(int(found[2]) - int(found[1]) + 1 for found in sizes if found)
        assert asked < plan.files[0].size_bytes + (20 << 20)
    else:
        plan_of(url)
        assert server.requests.count("all") == 1
    assert sum(chunk.batch.num_rows for chunk in read.read_chunks(plan, False)) == 300_000


def test_large_files_need_ranges(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large file that comes whole is refused."""
    monkeypatch.setattr(http_files, "_MOST_BYTES", 1000)
    (server.folder / "a.csv").write_bytes(csv_text(500))
    if http_files.probe(f"{server.url}/a.csv").has_ranges:
        assert len(read_rows(f"{server.url}/a.csv")) == 500
    else:
        with pytest.raises(DataError, match=r"an answer of more than 1,000 bytes.* download the"):
            plan_of(f"{server.url}/a.csv")


def test_a_missing_file_and_errors_of_servers(server: Server) -> None:
    """A missing file, a refusal, and no server are errors."""
    with pytest.raises(RecipeProblems) as caught:
        plan_of(f"{server.url}/none.csv")
    assert "no file matches" in caught.value.problems[0].message
    with pytest.raises(DataError, match=r"cannot be read: .*refused"):
        plan_of("http://127.0.0.1:9/a.csv")
    (server.folder / "a.csv").write_bytes(csv_text(5))
    found = http_files.probe(f"{server.url}/a.csv")
    if found is not None and found.has_ranges:
        server.failures[:] = [403]
        with pytest.raises(DataError, match=r"cannot be read: status 403"):
            plan_of(f"{server.url}/a.csv")
        server.failures[:] = [503]
        assert len(read_rows(f"{server.url}/a.csv")) == 5


def test_a_file_that_changes_is_noticed(server: Server) -> None:
    """Another size is an error; the date is the server's."""
    path = server.folder / "a.csv"
    path.write_bytes(csv_text(50))
    url = f"{server.url}/a.csv"
    found = http_files.probe(url)
    assert found is not None
    if not found.has_ranges:
        return
    os.utime(path, (1_700_000_000, 1_700_000_000))
    assert file_checksums.modified_secs([url]) == {url: 1_700_000_000.0}
    with files.open_read(url) as opened:
        path.write_bytes(csv_text(60))
        with pytest.raises(OSError, match="the file changed while it was read"):
            opened.read()


@pytest.mark.parametrize(
    ("data", "columns"),
    [(b'[{"a": 1},\n{"a": 2}]', ["a"]), (gzip.compress(b"a;b\n1,5;x\n"), ["a", "b"])],
)
def test_standard_input(tmp_path: Path, data: bytes, columns: list[str]) -> None:
    """Piped data are read in the format that they begin like."""
    command = (
        "from beam_pipelines.recipe.model import Source\n"
        "from beam_pipelines.sources.planner import plan_source\n"
        "from beam_pipelines.transforms.read import read_table\n"
        "plan = plan_source(Source('s', ('-',)), '')\n"
        "table = read_table(plan, False)[0]\n"
        "print(table.schema.names, table.num_rows, plan.files[0].path)\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", command],
        input=data,
        capture_output=True,
        env=environment,
        check=True,
    )
    assert str(columns) in done.stdout.decode()
    assert os.listdir(tmp_path) == []


def test_no_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without piped data the error shows a command."""
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match="found no piped data on standard input"):
        plan_of("-")


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
        assert capsys.readouterr().err.startswith(f"error: {path}: cannot be read: found a cert")
        monkeypatch.setenv("SSL_CERT_FILE", certificate)
        assert read_rows(path) == [{"a": 1}]
    finally:
        server.shutdown()
        server.server_close()
