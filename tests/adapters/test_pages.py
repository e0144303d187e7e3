"""Pages that train with PyTorch and JAX print the text on them."""

from __future__ import annotations

import re

import pytest

import beam_pipelines as bp
from tests.test_documentation import (
    blocks_of,
    make_tutorial,
    run,
    run_python,
    wrong_commands,
    wrong_programs,
)

pytestmark = [pytest.mark.adapters, pytest.mark.slow]


@pytest.mark.parametrize(
    ("page", "package"),
    [
        ("README.md", "torch"),
        ("docs/tutorial.md", "torch"),
        ("docs/pytorch.md", "torch"),
        ("docs/jax.md", "jax"),
    ],
)
def test_page_prints_what_it_shows(page, package, tmp_path, flights_data):
    """A page that is followed from top to bottom prints its texts."""
    pytest.importorskip(package)
    make_tutorial(tmp_path, flights_data)
    blocks = [block for block in blocks_of(page) if not block.mark.startswith("not run")]
    wrong = list(wrong_commands(blocks, str(tmp_path)))
    if not (tmp_path / "out").exists():
        bp.convert(tmp_path / "rides.yaml", tmp_path / "out" / "rides")
    wrong += wrong_programs(blocks, str(tmp_path))
    assert "\n\n".join(wrong) == ""


def test_tutorial_trains_on_the_recipe_of_init(tmp_path, flights_data):
    """The programs of the tutorial take the recipe that ``init`` proposes."""
    pytest.importorskip("torch")
    make_tutorial(tmp_path, flights_data)
    run("beam-pipelines init rides.csv", str(tmp_path))
    bp.convert(tmp_path / "recipe.yaml", tmp_path / "out" / "rides")
    programs = [block for block in blocks_of("docs/tutorial.md") if block.language == "python"]
    *_, found, scored = run_python(programs, str(tmp_path))
    accuracy, most_frequent = re.findall(r"0\.\d+", found)
    assert float(accuracy) > float(most_frequent)
    assert re.fullmatch(r"late with probability 0\.\d+\n", scored)
