"""The component without TFX."""

from __future__ import annotations

import subprocess
import sys

import pytest


def test_the_component_says_what_to_install():
    """Importing the component without TFX names all that it needs.

    These are the package, the extra and the system.
    """
    code = "import sys; sys.modules['tfx'] = None; import beam_pipelines.integrations.tfx.component"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    last = run.stderr.strip().splitlines()[-1]
    assert run.returncode == 1
    assert last.startswith("ImportError: beam_pipelines.integrations.tfx.component: found no TFX")
    assert "pip install '.[tfx]' in a clone" in last
    assert "glibc 2.39" in last


@pytest.mark.parametrize(
    "module",
    ["beam_pipelines.cli.main", "beam_pipelines.pipeline.convert", "beam_pipelines.dataset.loader"],
)
def test_nothing_else_needs_tfx(module):
    """The rest of the package can be imported without it."""
    code = f"import sys; sys.modules['tfx'] = None; import {module}"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
