"""The notebook of the examples runs, and shows what it stores."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import pytest

from tests.support import notebook

pytestmark = pytest.mark.end_to_end

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "first_steps.ipynb"


def test_the_notebook_gives_its_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell gives its stored output in an empty folder.

    Beam takes the process for IPython, as in Jupyter. To store new outputs: ``python -m tests.support.notebook examples/first_steps.ipynb``.
    """
    monkeypatch.chdir(tmp_path)
    ipython = types.ModuleType("IPython")
    shell = types.SimpleNamespace(config={"IPKernelApp": {}}, execution_count=1)
    monkeypatch.setattr(ipython, "get_ipython", lambda: shell, raising=False)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    stored = json.loads(EXAMPLE.read_text())
    cells = [cell for cell in stored["cells"] if cell["cell_type"] == "code"]
    for cell, found in zip(cells, notebook.run(stored), strict=True):
        assert found == cell["outputs"], "".join(cell["source"])
