"""No artifact or message has a value of a private column."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from beam_pipelines.cli.main import run as run_command
from beam_pipelines.core.errors import RecipeProblems
from tests.support.runs import plan_in

pytestmark = pytest.mark.end_to_end

KEY = "a-very-secret-key-of-some-length"


def _secret(row: int) -> str:
    return f"zq{row * 7919 % 10007}x"


LINES = [
    f"{row},{_secret(row)}@mail.example.org,+4917{10**8 + row * 7919},Qo{_secret(row)},{row % 7}"
    for row in range(300)
]
# Nothing of the planted columns may be found: parts of all addresses, numbers and names.
PLANTED = [
    text.encode()
    for row in range(300)
    for text in (_secret(row), f"{10**8 + row * 7919}", f"Qo{_secret(row)}")
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table with three columns of personal data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIVATE_TEST_KEY", KEY)
    (tmp_path / "d.csv").write_text("n,email,phone,nick,day\n" + "\n".join(LINES) + "\n")
    return tmp_path


def _contents(data: bytes) -> Iterator[bytes]:
    """Yields bytes, and what they are compressed of."""
    yield data
    if data[:2] == b"\x1f\x8b":
        yield from _contents(gzip.decompress(data))
    elif data[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                yield from _contents(archive.read(name))
    else:
        try:
            yield zlib.decompress(data)
        except zlib.error:
            return


def found_in(folder: Path, said: str = "") -> set[str]:
    """The files, and ``said``, that have a planted value or the key."""
    found = set()
    texts = {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for name, data in {**texts, "said": said.encode()}.items():
        for content in _contents(data):
            if any(planted in content for planted in (*PLANTED, KEY.encode())):
                found.add(name)
    return found


def run(recipe: str, *arguments: str, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Runs the command line; returns its exit status and output."""
    Path("r.yaml").write_text(f"name: d\nsources: {{d: {{path: d.csv{recipe}")
    status = run_command(["convert", "r.yaml", "--output", "out", "--overwrite", *arguments])
    said = capfd.readouterr()
    return status, said.out + said.err


PROTECT = (
    "protect: {email: {keyed_hash: env:PRIVATE_TEST_KEY}, phone: {keyed_hash: env:PRIVATE_TEST_KEY}, nick: drop}\n"
    "split: {train: 0.8, eval: 0.2, by: email}\n"
)
ALLOW = (
    "pii: {action: error, allow: [email, phone, nick]}\n"
    "encode: {email: {hash_bucket: 50}, phone: {hash_bucket: 50}, nick: drop}\n"
    "split: {train: 0.8, eval: 0.2}\nlabel: day\n"
)


@pytest.mark.parametrize("columns", [PROTECT, ALLOW])
def test_no_artifact_has_a_value(folder, columns, capfd):
    """Shards, statistics, schema, report, manifest, encodings, serving graph and output."""
    status, said = run("}}\n" + columns + "output: {serving: true}\n", capfd=capfd)
    assert status == 0, said
    assert found_in(folder / "out", said) == set()
    manifest = json.loads((folder / "out" / "dataset.json").read_text())
    assert manifest["counts"]["written"] == 300
    run_command(["describe", "out"])
    assert found_in(folder / "nothing", capfd.readouterr().out) == set()


@pytest.mark.parametrize("columns", [PROTECT, ALLOW])
@pytest.mark.parametrize(
    ("source", "more"),
    [
        (", types: {email: int64}}}\n", ""),
        (", types: {phone: int8}}}\n", "on_error: {reject: 1000}\nfilter: n > -1\n"),
        (", types: {day: date}}}\n", ""),
        ("}}\n", "split: {column: n, a: {before: 0}, b: {after: 1000}}\n"),
        ("}}\n", "expect: [{name: a, row: CAST(nick AS BIGINT) > 0}]\n"),
        ("}}\n", "derive: {number: 'CAST(nick AS BIGINT)'}\n"),
        ("}}\n", "derive: {number: 'CAST(nick AS BIGINT)'}\non_error: {reject: 299}\n"),
        ("}}\n", "expect: [{name: short, row: length(email) < 3}]\n"),
        ("}}\n", "duplicates: {by: day, action: error}\n"),
        ("}}\n", "duplicates: {by: day, action: drop}\n"),
    ],
)
def test_no_failing_run_says_a_value(folder, source, more, columns, capfd):
    """Errors, and rows that are rejected, have file and line only."""
    if "expect" in more and "protect" in columns:
        more = more.replace("nick", "phone")
    if "split" in more:
        columns = "".join(line for line in columns.splitlines(True) if "split" not in line)
    _, said = run(source + columns + more, capfd=capfd)
    assert found_in(folder / "out", said) == set()
    assert "Traceback" not in said
    assert "line" in said or "rows" in said


def test_the_search_finds_values(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Without private columns they are in shards, statistics, report and errors."""
    status, said = run("}}\nsplit: {train: 0.8, eval: 0.2}\n", capfd=capfd)
    found = {Path(name).suffix for name in found_in(folder / "out", said)}
    assert status == 0
    assert {".gz", ".html", ".pb"} <= found
    _, said = run(", types: {email: int64}}}\n", capfd=capfd)
    assert "said" in found_in(folder / "out", said)


@pytest.mark.parametrize("command", ["convert", "describe", "preview", "plan"])
def test_planning_says_no_value(folder, command, capfd):
    """A text among numbers, too many cells, and examples of dates."""
    lines = [f"{row},{row * 7919},0{row % 9 + 1}.02.1990" for row in range(300)]
    recipe = "name: d\nsources: {d: d.csv}\npii: {allow: [phone, born]}\n"
    Path("r.yaml").write_text(recipe)
    output = [] if command in ("preview", "plan") else ["--output", "out", "--overwrite"]
    for few, wrong in (
        (lines, f"1,{_secret(1)},01.02.1990"),
        (lines, f"1,2,03.04.1990,{_secret(1)}"),
        ([], f"1,{_secret(1)},01.02.1990"),  # a column of texts, which is worth a remark
    ):
        if command == "convert" and not few:  # its shards have the values
            continue
        Path("d.csv").write_text("\n".join(["n,phone,born", *lines[:40], wrong, *few]) + "\n")
        run_command([command, "r.yaml", *output])
        said = capfd.readouterr()
        assert found_in(folder / "out", said.out + said.err) == set()
        assert "such as '0" not in said.out + said.err


def test_a_preview_shows_no_value(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Private columns are hidden before and after encoding."""
    for columns in (PROTECT, ALLOW):
        (folder / "r.yaml").write_text(f"name: d\nsources: {{d: d.csv}}\n{columns}")
        run_command(["preview", "r.yaml"])
        assert found_in(folder / "nothing", capfd.readouterr().out) == set()


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ("encode: {email: vocabulary}\n", "found 'vocabulary' of a column that 'pii"),
        ("statistics: {slice_by: email}\n", "found 'email', whose values 'pii"),
        ("split: {a: 0.5, b: 0.5, stratify: email}\n", "found 'email', whose values 'pii"),
        ("sample: {rates: {a: 0.5}, by: email}\n", "found 'email', whose values 'pii"),
        ("expect: [{name: a, column: max(n) > 0}]\n", "found max with a column that 'pii"),
    ],
)
def test_what_would_show_values_is_refused(folder: Path, more: str, found: str) -> None:
    """Fitted encodings, slices and extremes."""
    text = f"name: d\nsources: {{d: d.csv}}\npii: {{allow: [email, n]}}\n{more}"
    with pytest.raises(RecipeProblems, match=found):
        plan_in(folder, text)
