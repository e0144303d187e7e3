"""Files in datasets of Hugging Face, from servers on this machine."""

from __future__ import annotations

import contextlib
import http.server
import re
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from beam_pipelines.cli.main import run
from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.storage import files, http_files
from tests.sources.support import plan_of, read_rows

TOKEN = "hf_aSecretOfTheUser"  # noqa: S105 - of the servers below
CSV = b"n,t\n" + b"".join(b"%d,x%d\n" % (n, n) for n in range(300))


class Asked(NamedTuple):
    """A request: its path and the token that came with it."""

    path: str
    token: str | None


class _Handler(http.server.BaseHTTPRequestHandler):
    """The Hub, which redirects to a second server or within itself."""

    asked: list[Asked]
    storage: str
    is_private: bool

    def log_message(self, *_: Any) -> None:
        """Says nothing."""

    def do_GET(self) -> None:
        """Answers as the Hub, or as its storage."""
        token = self.headers.get("Authorization")
        self.asked.append(Asked(self.path, token))
        if self.path.startswith("/stored/"):
            self.send_part()
        elif self.is_private and token != f"Bearer {TOKEN}":
            self.answer(401, error="RepoNotFound")
        elif self.path.startswith("/datasets/o/small/"):
            self.answer(307, "/datasets/o/large/" + self.path.removeprefix("/datasets/o/small/"))
        elif re.fullmatch(
            r"/datasets/o/large/resolve/(main|refs%2Fpr%2F1)/d/a%20b\.csv", self.path
        ):
            self.answer(302, f"{self.storage}/stored/a.csv?signature=1")
        elif "/o/gated/" in self.path:
            self.answer(403, error="GatedRepo")
        elif not self.path.startswith("/datasets/o/large/"):
            self.answer(404, error="RepoNotFound")
        elif "/main/" not in self.path:
            self.answer(404, error="RevisionNotFound")
        else:
            self.answer(404, error="EntryNotFound")

    def answer(self, status: int, location: str = "", error: str = "") -> None:
        """Sends an answer without a body."""
        self.send_response(status)
        if error:
            self.send_header("X-Error-Code", error)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def send_part(self) -> None:
        """Sends the range that is asked for."""
        first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
        part = CSV[first : last + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{len(CSV)}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part)


@contextlib.contextmanager
def _served(**settings: Any) -> Iterator[tuple[str, list[Asked]]]:
    asked: list[Asked] = []
    handler = type("Handler", (_Handler,), {"asked": asked, **settings})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


class Hub(NamedTuple):
    """The requests to the Hub, and to its storage."""

    asked: list[Asked]
    stored: list[Asked]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A private dataset, whose token the environment has."""
    with _served() as (storage, stored), _served(storage=storage, is_private=True) as (url, asked):
        monkeypatch.setenv("HF_ENDPOINT", f"{url}/")
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield Hub(asked, stored)


@pytest.mark.parametrize("name", ["o/large", "o/large@main", "o/large@refs/pr/1", "o/small"])
def test_rows_are_those_of_the_file(hub: Hub, name: str) -> None:
    """Ranges are read; the token goes to the Hub alone."""
    path = f"hf://datasets/{name}/d/a b.csv"
    rows = read_rows(path, range_bytes=500)
    assert [row["n"] for row in rows] == list(range(300))
    assert {one.token for one in hub.asked} == {f"Bearer {TOKEN}"}
    assert {one.token for one in hub.stored} == {None}
    assert len(hub.stored) > 2
    plan = plan_of(path)
    assert [file.path for file in plan.files] == [path]
    assert TOKEN not in repr(plan)


def test_without_a_token(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal names the variable; a wrong token is not shown."""
    monkeypatch.delenv("HF_TOKEN")
    wanted = r"a b\.csv: found no dataset 'o/large' .* a private one needs a token in HF_TOKEN\."
    with pytest.raises(DataError, match=wanted):
        plan_of("hf://datasets/o/large/d/a b.csv")
    assert {one.token for one in hub.asked} == {None}
    for token in ("hf_of another", "hf_wrong\u00e9", "hf_of\nothers"):
        monkeypatch.setenv("HF_TOKEN", token)
        with pytest.raises(DataError, match="HF_TOKEN: found blanks or other signs") as caught:
            plan_of("hf://datasets/o/large/d/a b.csv")
        assert token not in str(caught.value)


def test_a_missing_file(hub: Hub) -> None:
    """It is no file, as on any server."""
    with pytest.raises(RecipeProblems, match=r"no file matches 'hf://datasets/o/large/b\.csv'"):
        plan_of("hf://datasets/o/large/b.csv")
    assert not files.exists("hf://datasets/o/large/b.csv")
    assert hub.stored == []


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("o/larg/d/a b.csv", "found no dataset 'o/larg' that this user may read. Check its name"),
        ("o/gated/d/a b.csv", "may not read dataset 'o/gated'. Accept its terms on its page"),
        ("o/large@v9/d/a b.csv", "dataset 'o/large' has no revision 'v9'. Branches and tags"),
    ],
)
@pytest.mark.parametrize("command", ["preview", "describe", "plan"])
def test_refusals(command: str, path: str, message: str, capsys: Any) -> None:
    """A wrong dataset or revision is named by every command."""
    assert run([command, f"hf://datasets/{path}"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: hf://datasets/{path}: ")
    assert message in line


@pytest.mark.usefixtures("hub")
def test_a_conversion_stores_no_token(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """No file of the dataset and no line has the token."""
    path = "hf://datasets/o/large/d/a b.csv"
    assert run(["convert", path, "--output", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr()
    found = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert any(path.encode() in content for content in found)
    assert not any(TOKEN.encode() in content for content in found)
    assert TOKEN not in printed.out + printed.err


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("hf://datasets/o/n/*.csv", "found a pattern, expected the path of one file"),
        ("hf://datasets/o/n", r"expected hf://datasets/OWNER/NAME\[@REVISION\]/FILE"),
        ("hf://o/n/a.csv", r"expected hf://datasets/OWNER/NAME"),
        ("hf://spaces/o/n/a.csv", r"expected hf://datasets/OWNER/NAME"),
    ],
)
def test_other_paths(path: str, message: str) -> None:
    """Patterns, folders and models are errors, without a request."""
    with pytest.raises(DataError, match=message):
        plan_of(path)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("hf://datasets/o/n/a.csv", "o/n/resolve/main/a.csv"),
        ("hf://datasets/o/n@v1.0/d/a#1.csv", "o/n/resolve/v1.0/d/a%231.csv"),
        ("hf://datasets/o/n@a%2Fb/c", "o/n/resolve/a%2Fb/c"),
        ("hf://datasets/o/n@~parquet/c", "o/n/resolve/refs%2Fconvert%2Fparquet/c"),
        ("hf://datasets/o/n@refs/convert/parquet/c", "o/n/resolve/refs%2Fconvert%2Fparquet/c"),
    ],
)
def test_addresses(monkeypatch: pytest.MonkeyPatch, path: str, expected: str) -> None:
    """They are those of Hugging Face's own programs."""
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    assert http_files.hub_address(path) == f"https://huggingface.co/datasets/{expected}"
    monkeypatch.setenv("HF_ENDPOINT", "ftp://x")
    with pytest.raises(DataError, match="HF_ENDPOINT: found 'ftp://x', expected the URL"):
        http_files.hub_address(path)
