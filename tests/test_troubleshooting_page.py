"""docs/troubleshooting.md equals the messages in the source."""

from __future__ import annotations

import pytest

from tests.support import troubleshooting_page


def test_the_page_is_made_from_the_messages() -> None:
    """``make api`` writes it again."""
    assert troubleshooting_page.PAGE.read_text() == troubleshooting_page.page()


def test_a_message_that_is_gone_is_found() -> None:
    """Words that no message has are an error."""
    with pytest.raises(ValueError, match="found no message with 'no such words"):
        troubleshooting_page.shown("no such words" + " at all")
