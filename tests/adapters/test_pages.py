"""Pages that train with PyTorch print the text on them."""

from __future__ import annotations

import re

import pytest

from tests.test_documentation import FOLDERS, agrees, blocks_of, run, run_python

pytestmark = [pytest.mark.adapters, pytest.mark.slow]


@pytest.mark.parametrize(("page", "folder", "package"), [("docs/tutorial.md", "tutorial", "torch")])
def test_page_prints_what_it_shows(page, folder, package, tmp_path, flights_data):
    """A page that is followed from top to bottom prints its texts."""
    pytest.importorskip(package)
    FOLDERS[folder](tmp_path, flights_data)
    wrong = []
    for block in blocks_of(page):
        if block.language == "console":
            for part in re.split(r"(?m)^\$ ", block.text)[1:]:
                command, _, shown = part.partition("\n")
                output = run(command, str(tmp_path))
                if not agrees(shown, output):
                    wrong.append(f"$ {command}\n{output}")
    programs = [block for block in blocks_of(page) if block.language == "python"]
    outputs = run_python([(str(tmp_path), page, block.text) for block in programs])
    for block, output in zip(programs, outputs, strict=True):
        if not agrees(block.output, output):
            wrong.append(f"{block.text}\n{output}")
    assert "\n\n".join(wrong) == ""
