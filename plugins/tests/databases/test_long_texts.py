"""Patterns read long texts in linear time."""

from __future__ import annotations

import re

import pytest

from beam_pipelines.sources.csv import sniffer
from beam_pipelines.sources.libsvm import lines
from beam_pipelines.sources.text import encodings

LENGTH = 1_000_000


@pytest.mark.parametrize(
    ("pattern", "method", "text"),
    [
        (re.compile(lines.NUMBER), "match", "1" * LENGTH + "x"),
        (sniffer._MARK, "search", "1" * LENGTH),
        (encodings._WORD, "search", "a" * LENGTH),
    ],
)
def test_long_texts(pattern: re.Pattern[str], method: str, text: str) -> None:
    """A long text without a match is refused at once."""
    assert getattr(pattern, method)(text) is None


@pytest.mark.parametrize("text", ["1", "1.", "1.5", ".5", "+1e5", "-1.5E-3", "007"])
def test_numbers_of_libsvm(text: str) -> None:
    """Numbers are recognised as before."""
    assert re.match(lines.NUMBER, text)
    assert not re.match(lines.NUMBER, f"{text}x")
