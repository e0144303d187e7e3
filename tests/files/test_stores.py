"""Files of web servers are read by ranges, and failures are explained."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from beam_pipelines.core.errors import DataError
from beam_pipelines.files import stores
from tests.support.web_server import served


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    """Leaves out the delays between tries."""
    monkeypatch.setattr(stores, "FIRST_DELAY", 0.0)


@pytest.fixture
def file(tmp_path):
    """A file of 1,000 bytes."""
    path = tmp_path / "data" / "plain"
    path.parent.mkdir()
    path.write_bytes(bytes(number % 251 for number in range(1000)))
    return path


def test_ranges(file):
    """Ranges have the bytes of the file, and its size."""
    data = file.read_bytes()
    with served(file.parent) as server:
        url = f"{server.url}/plain"
        assert stores.get(url) == data
        for offset, size in ((0, 1), (0, 1000), (990, 10), (990, 50), (1000, 5), (2000, 5)):
            assert stores.read(url, offset, size) == (data[offset : offset + size], 1000)
    with pytest.raises(FileNotFoundError), served(file.parent) as server:
        stores.read(f"{server.url}/other", 0, 5)


def test_redirects(file):
    """A file that moved is read at its new place."""
    with served(file.parent, moved="old") as server:
        assert stores.read(f"{server.url}/old/plain", 3, 2).content == file.read_bytes()[3:5]


@pytest.mark.parametrize("wrong", [500, 503, 429, "cut"])
def test_failures_that_pass(file, wrong):
    """A request is tried again after a failure or half an answer."""
    with served(file.parent, lambda _, number: wrong if number <= 3 else None) as server:
        assert stores.read(f"{server.url}/plain", 10, 5).content == file.read_bytes()[10:15]
        assert len(server.asked) == 4
    with served(file.parent, lambda _, number: wrong if number <= 3 else None) as server:
        assert stores.get(f"{server.url}/plain") == file.read_bytes()


@pytest.mark.parametrize(
    ("wrong", "message", "tries"),
    [
        (401, "found no access .status 401 .*expected a server that asks for none", 1),
        (403, "found no access .status 403 ", 1),
        (500, "cannot be read: status 500 .*Check the address and the network", 10),
    ],
)
def test_failures_that_stay(file, wrong, message, tries):
    """A failure that stays is an error with the URL."""
    with served(file.parent, lambda *_: wrong) as server:
        with pytest.raises(DataError, match=message) as caught:
            stores.read(f"{server.url}/plain", 0, 5)
        assert str(caught.value).startswith(f"{server.url}/plain: ")
        assert len(server.asked) == tries


def test_a_server_without_ranges(file):
    """A server that sends whole files is refused."""
    with (
        served(file.parent, has_ranges=False) as server,
        pytest.raises(DataError, match="answers a request for a range with status 200"),
    ):
        stores.read(f"{server.url}/plain", 0, 5)


def test_s3_without_access(file, monkeypatch):
    """A refusal of S3 says which credentials are expected, at once."""
    with served(file.parent, lambda *_: 403) as server:
        for name, value in {
            "AWS_ENDPOINT_URL": server.url,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "AKIAEXAMPLEKEY000000",
            "AWS_SECRET_ACCESS_KEY": "wrong",
        }.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(DataError, match=r"found no access .* expected AWS_ACCESS_KEY_ID and"):
            stores.get("s3://bucket/out/dataset.json")
        assert len(server.asked) == 1


def test_s3_through_a_proxy(file, monkeypatch):
    """The proxy of the environment is asked for S3's server."""
    with served(file.parent) as server:
        for name, value in {
            "AWS_ENDPOINT_URL": "http://store.invalid",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "AKIAEXAMPLEKEY000000",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "http_proxy": server.url,
        }.items():
            monkeypatch.setenv(name, value)
        stores._made.cache_clear()
        stores.look_for("s3://bucket/plain")
        assert "store.invalid" in str(server.asked)


def test_google_without_credentials(monkeypatch, tmp_path):
    """Without credentials, an error names those that are expected."""
    pytest.importorskip("google.auth")
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    stores._made.cache_clear()
    with pytest.raises(DataError, match=r"found no access .*none\.json.* expected the file that"):
        stores.get("gs://bucket/out/dataset.json")


def test_no_answer(monkeypatch):
    """A store that does not answer is an error in time."""
    monkeypatch.setattr(stores, "ANSWER_SECS", 0.1)
    is_over = threading.Event()
    monkeypatch.setattr(stores._ArrowStore, "get", lambda *_: is_over.wait())
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with pytest.raises(DataError, match=r"found no answer in 0.1 s, .* expected AWS_ACCESS_KEY"):
        stores.get("s3://bucket/out/dataset.json")
    is_over.set()


def test_an_unknown_scheme():
    """A URL of another kind names the known ones."""
    with pytest.raises(DataError, match="found 'ftp://', expected a path or one of s3://"):
        stores.get("ftp://host/file")


def test_a_forked_process_makes_its_own_connections(file):
    """After a fork, parent and child use connections of their own."""
    with served(file.parent) as server:
        code = f"""
import os
from beam_pipelines.files import stores
url = {server.url!r} + "/plain"
first = stores.read(url, 0, 5).content
if not (child := os.fork()):
    os._exit(stores.read(url, 0, 5).content != first)
for _ in range(5):
    assert stores.read(url, 0, 5).content == first
assert os.waitpid(child, 0)[1] == 0
"""
        # A process of its own has no threads of other tests' libraries, which end in a fork.
        subprocess.run([sys.executable, "-c", code], check=True)
