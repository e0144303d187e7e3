"""The pages of the Python interface equal the docstrings."""

from __future__ import annotations

import beam_pipelines as bp
from tests.support.api_page import DOCS, PAGES, page


def test_every_public_name_is_on_a_page() -> None:
    """Every public name is on the pages once."""
    names = [name for _, _, public in PAGES.values() for name in public]
    assert sorted(names) == sorted(set(bp.__all__) - {"__version__"})


def test_the_pages_are_made_from_the_docstrings() -> None:
    """``make api`` writes them again."""
    assert {name: (DOCS / name).read_text() for name in PAGES} == {
        name: page(name) for name in PAGES
    }
