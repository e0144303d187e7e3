"""The YAML language server checks recipes with our JSON Schema."""

from __future__ import annotations

import contextlib
import json
import pathlib
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from beam_pipelines.core.layout.dataset_layout import RECIPE_SCHEMA
from beam_pipelines_plugins.schemas.recipe_schema import MODELINE, schema_text

ROOT = pathlib.Path(__file__).resolve().parents[3]
SERVER = ROOT / ".node" / "node_modules" / ".bin" / "yaml-language-server"

pytestmark = [
    pytest.mark.editor,
    pytest.mark.skipif(
        shutil.which("node") is None or not SERVER.exists(), reason="needs `make editor`"
    ),
]


class Server:
    """The language server, over its standard streams."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def send(self, method: str, params: dict[str, Any], number: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        body = json.dumps(message if number is None else message | {"id": number}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        length = 0
        while header := self.process.stdout.readline().strip():
            name, _, value = header.partition(b": ")
            length = int(value) if name == b"Content-Length" else length
        return json.loads(self.process.stdout.read(length))

    def answer(self, number: int, method: str, params: dict[str, Any]) -> Any:
        """Returns the result of a request."""
        self.send(method, params, number)
        while True:
            message = self.receive()
            if message.get("id") == number and "method" not in message:
                return message["result"]

    def open(self, path: pathlib.Path, text: str) -> list[str]:
        """Opens a document; returns the problems as ``LINE: MESSAGE``."""
        document = {"uri": path.as_uri(), "languageId": "yaml", "version": 1, "text": text}
        self.send("textDocument/didOpen", {"textDocument": document})
        while True:
            message = self.receive()
            params = message.get("params", {})
            if (
                message.get("method") == "textDocument/publishDiagnostics"
                and params["uri"] == path.as_uri()
            ):
                return [
                    f"{found['range']['start']['line'] + 1}: {found['message']}"
                    for found in params["diagnostics"]
                ]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A running language server."""
    command = [str(SERVER), "--stdio"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        found = Server(process)
        found.answer(1, "initialize", {"processId": None, "rootUri": None, "capabilities": {}})
        found.send("initialized", {})
        with contextlib.ExitStack() as stack:
            stack.callback(process.terminate)
            yield found


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with the schema."""
    (tmp_path / RECIPE_SCHEMA).write_text(schema_text())
    return tmp_path


def test_examples_are_accepted(server: Server, folder: pathlib.Path) -> None:
    """The language server finds no problem in any example."""
    found = {}
    for number, path in enumerate(sorted((ROOT / "examples").rglob("*.yaml"))):
        text = f"{MODELINE}\n{path.read_text()}"
        found[str(path)] = server.open(folder / f"{number}.yaml", text)
    assert len(found) > 10
    assert {path: problems for path, problems in found.items() if problems} == {}


MISTAKES = """\
name: a
sources:
  d: {path: d.csv, delimter: ","}
  e:
    path: e.csv
    compression: gzipped
join:
  - source: e
    on: id
    how: outer
encode:
  x: z_scor
  y: {one_hott: 3}
outptu: {}
output:
  num_shards: many
  shuffle: maybe
append: ${later}
split: {train: 1.5, eval: 20 percent}
on_error:
  reject: some
limits:
  line_bytes: 4 XB
sample:
  rates:
    a: ten
    b: 5%
"""


def test_mistakes_are_found(server: Server, folder: pathlib.Path) -> None:
    """The language server marks the lines of planted mistakes, and no others."""
    problems = server.open(folder / "wrong.yaml", f"{MODELINE}\n{MISTAKES}")
    lines = sorted({int(problem.partition(":")[0]) for problem in problems})
    assert lines == [4, 7, 11, 13, 14, 15, 17, 18, 20, 22, 24, 27], problems
    assert not [problem for problem in problems if "pattern" in problem]
    assert "24: Expected at least 1 KiB, as '128 MiB', '100 MB' or a number of bytes." in problems


def test_keys_are_completed(server: Server, folder: pathlib.Path) -> None:
    """The language server proposes the keys of a section."""
    path = folder / "new.yaml"
    text = f"{MODELINE}\nname: a\nsources: {{a: a.csv}}\noutput:\n  \n"
    server.open(path, text)
    place = {"textDocument": {"uri": path.as_uri()}, "position": {"line": 4, "character": 2}}
    found = server.answer(2, "textDocument/completion", place)
    labels = {item["label"] for item in found["items"]}
    assert {"num_shards", "shard_size", "compression"} <= labels
