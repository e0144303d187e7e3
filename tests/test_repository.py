"""Rules for the repository's files as a whole."""

from __future__ import annotations

import ast
import functools
import io
import pathlib
import re
import subprocess
import tokenize
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.test_documentation import PAGES, prose_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Hosts of indexes and mirrors, and options that name one: where packages come from is the machine's
# business.
INDEX_HOST = re.compile(
    r"--(?:extra-)?index-url|--trusted-host|index-url\s*=|files\.pythonhosted\.org|/simple/?(?:\s|$)|artifactory|devpi|nexus"
)
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|home|Users)/[\w.]")
# Words that have a plainer one, and questions as subjects.
DIALECT = re.compile(
    r"\b(?:of which|beside|as of|lies?|whoever|nobody|somebody)\b"
    r"|^(?:[-#|*]+ )?What (?:is|are|was|were|has|have|there|comes|goes|no)\b",
    re.IGNORECASE | re.MULTILINE,
)
# This file spells out what it looks for.
EXEMPT = {"tests/test_repository.py"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# Folders whose docstrings begin with a short line, and whose comments use plain words.
PLAIN_FOLDERS = (
    "beam_pipelines/",
    "benchmarks/",
    "dataflow/",
    "examples/",
    "plugins/",
    "tests/",
    "website/",
)


def tracked_files() -> list[pathlib.Path]:
    """Files that git tracks or would track: everything that is not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


class Definition(NamedTuple):
    """A module, class or function.

    Attributes:
      kind: name of its class in ``ast``.
      name: its name; empty for a module.
      line: where its body begins.
      docstring: its docstring, or an empty text.
      is_command: whether it is a command, which shows its docstring.
    """

    kind: str
    name: str
    line: int
    docstring: str
    is_command: bool


@functools.cache
def texts() -> dict[str, str]:
    """Name -> content of every text file of the repository."""
    found = {}
    for path in tracked_files():
        data = path.read_bytes()
        name = path.relative_to(ROOT).as_posix()
        if b"\0" not in data and name not in EXEMPT:
            found[name] = data.decode(errors="replace")
    return found


@pytest.mark.parametrize(
    "pattern", [INDEX_HOST, MACHINE_PATH], ids=["package index hosts", "machine paths"]
)
def test_files_say_nothing_about_the_machine_they_were_written_on(pattern):
    """Files say nothing about the machine that they were written on.

    No file names a package index's host or a path of a user's machine.
    """
    hits = [
        f"{name}:{number}: {line.strip()}"
        for name, text in texts().items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert hits == []


@pytest.mark.parametrize("page", PAGES)
def test_pages_use_plain_words(page):
    """No page uses a word of ``DIALECT`` outside of code."""
    text = re.sub(r"`[^`\n]*`|\]\([^)\s]*\)", "", prose_of(page))
    hits = [line for line in text.splitlines() if DIALECT.search(line)]
    assert hits == []


@pytest.mark.parametrize("command", ["make demo", "make test"])
def test_readme_has_the_two_commands(command):
    """The README has both commands of a newcomer.

    The Makefile has them, too.
    """
    assert command in (ROOT / "README.md").read_text()
    assert re.search(rf"^{command.split()[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_every_module_says_what_it_is_for():
    """Every Python file says what it is for.

    Each one that is not empty begins with a docstring: of the package, the tests, benchmarks and
    examples.
    """
    silent = [
        name
        for name, text in python_files()
        if text and not any(one.docstring for one in definitions(text) if one.kind == "Module")
    ]
    assert silent == []


def test_docstrings_begin_with_a_short_line():
    """A docstring's first line has at most 12 words and 88 characters.

    It is a paragraph of its own. Commands are left out, because they show their docstrings.
    """
    long = [
        f"{name}:{one.line}: {lines[0]}"
        for name, text in python_files(*PLAIN_FOLDERS)
        for one in definitions(text)
        if one.docstring and not one.is_command
        if len((lines := one.docstring.splitlines())[0]) > 88
        or len(lines[0].split()) > 12
        or lines[1:2] not in ([], [""])
    ]
    assert long == []


def test_docstrings_and_comments_use_plain_words():
    """No docstring or comment uses a word of ``DIALECT`` outside of code."""
    hits = [
        f"{name}:{line}: {found[0]}"
        for name, text in python_files(*PLAIN_FOLDERS)
        for line, words in [*docstrings(text), *comments(text)]
        if (found := DIALECT.search(paragraphs(words)))
    ]
    assert hits == []


@pytest.mark.parametrize(
    ("source", "hits"),
    [
        ('"""The rows, of which\none is bad."""', ["of which"]),
        ('"""The rows.\n\nWhat is\nbad fails."""', ["What is"]),
        ('"""The rows say\nwhat is bad."""', []),
        ('"""Reads ``beside``."""', []),
        ("# The table as\n# of today.", ["as of"]),
        ("# One.\n\nx = 1  # What has a name", ["What has"]),
        ("x = 'beside'", []),
    ],
)
def test_words_are_found_across_lines(source, hits):
    """The check joins the lines of a paragraph and leaves strings and code out."""
    spoken = [paragraphs(words) for _, words in [*docstrings(source), *comments(source)]]
    assert [found[0] for text in spoken if (found := DIALECT.search(text))] == hits


def python_files(*folders: str) -> Iterator[tuple[str, str]]:
    """Yields name and content of the Python files in folders, or of all."""
    for name, text in texts().items():
        if name.startswith(folders or "") and name.endswith(".py"):
            yield name, text


@functools.cache
def definitions(text: str) -> list[Definition]:
    """Returns the module, and its classes and functions."""
    return [
        Definition(
            type(node).__name__,
            getattr(node, "name", ""),
            node.body[0].lineno,
            ast.get_docstring(node) or "",
            any(".command(" in ast.unparse(one) for one in getattr(node, "decorator_list", ())),
        )
        for node in ast.walk(ast.parse(text))
        if isinstance(node, DOCUMENTED) and node.body
    ]


def docstrings(text: str) -> Iterator[tuple[int, str]]:
    """Yields line and text of each docstring."""
    for one in definitions(text):
        if one.docstring:
            yield one.line, one.docstring


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Yields line and text of each comment; comments on successive lines are one."""
    block: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        if block and token.start[0] > last + 1:
            yield last, "\n".join(block)
            block = []
        last = token.start[0]
        block.append(token.string.lstrip("# "))
    if block:
        yield last, "\n".join(block)


def paragraphs(text: str) -> str:
    """Returns a text without its code, and with each paragraph on one line."""
    return re.sub(r"(?<=\S)\n(?=\S)", " ", re.sub(r"``[^`]*``|`[^`]*`", "", text))


def test_every_test_says_what_it_shows():
    """Each test function has a docstring."""
    silent = [
        f"{name}: {one.name}"
        for name, text in python_files("tests/")
        for one in definitions(text)
        if one.kind == "FunctionDef" and one.name.startswith("test_") and not one.docstring
    ]
    assert silent == []


def test_constraints_pin_every_requirement():
    """Constraints pin every requirement.

    Every package that pyproject.toml asks for has an exact version in constraints.txt, TFX in a
    list of its own, and nothing there is loose. The reader is a distribution of this repository.
    """
    assert requirements() - pinned("constraints.txt") == {"tfx", "beam-pipelines-reader"}
    assert "tfx" in pinned("constraints-tfx.txt")


def pinned(name: str) -> set[str]:
    """Names of the packages in a list of exact versions."""
    lines = [
        line for line in (ROOT / name).read_text().splitlines() if line and not line.startswith("#")
    ]
    loose = [
        line
        for line in lines
        if not re.match(r"[A-Za-z0-9._-]+==[^\s*]+( ; python_version .*)?$", line)
    ]
    assert loose == []
    return {normalised(line.split("==")[0]) for line in lines}


def requirements() -> set[str]:
    """Returns the names of the packages in pyproject.toml.

    It does not use tomllib, which Python 3.10 lacks.
    """
    text = (
        (ROOT / "pyproject.toml")
        .read_text()
        .split("[project.scripts]")[0]
        .split("dependencies = ", 1)[1]
    )
    return {normalised(name) for name in re.findall(r'"([A-Za-z0-9._-]+)[=<>~]', text)}


def normalised(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()
