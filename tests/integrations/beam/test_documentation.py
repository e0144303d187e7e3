"""Runs the Python blocks of docs/beam.md."""

from __future__ import annotations

import contextlib
import io
import itertools
import re

import pytest

import beam_pipelines.integrations.beam
from beam_pipelines.dataset.verify import verify_dataset

pytestmark = pytest.mark.end_to_end

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def blocks(repository) -> list[tuple[str, str]]:
    """Returns (language, text) of every block of the page, in order."""
    return BLOCK.findall((repository / "docs" / "beam.md").read_text())


def test_python_on_the_page_prints_what_the_page_says(blocks, tmp_path, monkeypatch):
    """Python blocks print the text blocks that follow them.

    All blocks run in one namespace.
    """
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    shown = [*blocks, ("", "")]
    ran = 0
    for (language, text), (following, output) in itertools.pairwise(shown):
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, f"docs/beam.md, block {ran}", "exec"), names)  # noqa: S102 - the page's own code
        assert printed.getvalue() == (output if following == "text" else ""), text
        ran += 1
    assert ran == sum(language == "python" for language, _ in blocks) == 5
    assert verify_dataset("out/clicks").rows == 3000
    assert verify_dataset("out/recipe").rows == 2959


def test_the_page_has_every_stage(repository):
    """The page names each exported stage."""
    page = (repository / "docs" / "beam.md").read_text()
    assert [name for name in beam_pipelines.integrations.beam.__all__ if name not in page] == []
