"""The two kinds of failure a user can cause, and how they are worded; what must not be shown in
them or anywhere else.

A message reads *where - what was found - what was expected - what to do*. Both exceptions take one
argument, so that they survive pickling between Beam's processes.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import NamedTuple

HIDDEN = "***"
# Lengths are bounded, so that no text takes time that grows with its square.
# What stands before the host of a URL: all up to the last @ before a slash, and behind a colon that
# begins no port beyond slashes.
_USER = re.compile(r"(?<=://)(?:[^\s/'\"]{0,512}|[^\s/@:'\"]{1,512}:(?!\d{1,5}/)[^\s'\"]{0,512})@")
_NAME = (
    r"[\w.-]{0,64}(?:secret|token(?!s|iz)|password|passwd|pwd|credential|signature"
    r"|(?:api|access|account|private)_?key)[\w.-]{0,64}"
)
# ?token=… and &X-Amz-Signature=… of URLs; --s3_secret_access_key=… and --s3_secret_access_key … of
# command lines; 'api_key': '…' of mappings.
_PARAMETER = re.compile(
    rf"([?&;](?:{_NAME}|sig|auth)=|(?<!-)--(?=\w){_NAME}(?:=|\s+(?!--)))[^\s&;'\"]+", re.IGNORECASE
)
_ENTRY = re.compile(
    rf"((?:['\"]{_NAME}['\"]\s*[:=]|['\"]--{_NAME}['\"],)\s*['\"])[^'\"]+", re.IGNORECASE
)
_known: set[str] = set()


def keep_secret(value: str) -> None:
    """Has ``mask`` hide a value wherever it stands, such as a key that was given on the command
    line.
    """
    if len(value) >= len("password"):
        _known.add(value)


def mask(text: str) -> str:
    """Returns a text as it may leave us: without users and passwords in URLs, secrets among
    parameters, and values of ``keep_secret``.

    Nothing is opened by what this returns.
    """
    for secret in sorted(_known):
        text = text.replace(secret, HIDDEN)
    if "@" in text and "://" in text:
        text = _USER.sub(f"{HIDDEN}@", text)
    # Most texts are paths of files, of which there may be millions.
    if any(sign in text for sign in ("?", "&", ";", "--", "'", '"')):
        text = _ENTRY.sub(rf"\g<1>{HIDDEN}", _PARAMETER.sub(rf"\g<1>{HIDDEN}", text))
    return text


_OUT_OF_MEMORY = re.compile(
    r"\b(Arrow)?MemoryError\b|can't start new thread|Cannot allocate memory"
)


class PipelineError(Exception):
    """A failure that is explained to the user without a traceback. Its message is masked."""

    exit_code = 1

    def __init__(self, message: str) -> None:
        super().__init__(mask(message))


class DataError(PipelineError):
    """The data or the run failed: exit status 1."""


class RecipeError(PipelineError):
    """The recipe or the command line is wrong: exit status 2. The message lists every problem, one
    a line.
    """

    exit_code = 2


def out_of_memory(text: str) -> DataError | None:
    """Returns the error for what a system or a library said when there was no memory for a value, a
    thread or a process; ``None`` if it said something else.
    """
    if not _OUT_OF_MEMORY.search(text):
        return None
    said = text.strip().splitlines()[-1].strip()
    return DataError(
        f"memory ran out, or the limit that this process was started with (ulimit -v): {said}. Run "
        "again with fewer workers "
        "(--direct_num_workers), or with more memory."
    )


def nearest(word: str, known: Iterable[str]) -> str:
    """Returns ``" Did you mean 'x'?"`` for the known word nearest to ``word``, or an empty string
    if none is near.
    """
    matches = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean '{matches[0]}'?" if matches else ""


class Problem(NamedTuple):
    """One thing that is wrong with a recipe.

    Attributes:
      path: keys and indexes that lead to it in the recipe: ``("join", 0, "on")``; empty for the
        whole recipe.
      message: what was found, what was expected, what to do.
    """

    path: tuple[str | int, ...]
    message: str


class RecipeProblems(Exception):
    """All problems that one step of planning found. ``Lines.explained`` adds lines and makes a
    ``RecipeError`` of it.
    """

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems)
        self.problems = problems
