"""docs/api.md equals the docstrings of the public names."""

from __future__ import annotations

import beam_pipelines as bp
from tests.support.api_page import ORDER, PAGE, page


def test_every_public_name_is_on_the_page() -> None:
    """Every public name is on the page once."""
    assert sorted(ORDER) == sorted(set(bp.__all__) - {"__version__"})


def test_the_page_is_made_from_the_docstrings() -> None:
    """``make api`` writes it again."""
    assert PAGE.read_text() == page()
