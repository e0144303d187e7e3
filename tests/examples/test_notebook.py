"""The notebook of the examples runs, and shows what it stores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import notebook

pytestmark = pytest.mark.end_to_end

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "first_steps.ipynb"


def test_the_notebook_gives_its_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell gives its stored output in an empty folder.

    To store new outputs: ``python -m tests.support.notebook examples/first_steps.ipynb``.
    """
    monkeypatch.chdir(tmp_path)
    stored = json.loads(EXAMPLE.read_text())
    cells = [cell for cell in stored["cells"] if cell["cell_type"] == "code"]
    for cell, found in zip(cells, notebook.run(stored), strict=True):
        assert found == cell["outputs"], "".join(cell["source"])
