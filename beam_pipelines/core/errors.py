"""Errors that users see, and the masking of secrets in them.

A message has four parts: where, what was found, what was expected, what to do. Exceptions take one
argument, so that Beam's processes can pickle them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

_T = TypeVar("_T")

HIDDEN = "***"
# Lengths are bounded, so that no search takes quadratic time.
# The part of a URL before its host: all up to the last @ before a slash; after a colon that begins
# no port, the part may contain slashes.
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
# The query or fragment of a URL, whatever its parameters' names are. After the ? of a pattern no
# "=" comes before a slash.
_QUERY = re.compile(r"(https?)?(://(?:(?!://)[^\s'\"?#]){0,2048}[?#])([^\s'\"]+)")
_VALUE = re.compile(r"((?:^|[?#&;])[^\s/=?#&;]+=)[^&;#]*?(?=[:,.)\]]{0,4}(?:[&;#]|$))")
_ENTRY = re.compile(
    rf"((?:['\"]{_NAME}['\"]\s*[:=]|['\"]--{_NAME}['\"],)\s*['\"])[^'\"]+", re.IGNORECASE
)
_known: set[str] = set()


def keep_secret(value: str) -> None:
    """Makes ``mask`` hide a value everywhere.

    The value may be a key from the command line, for example.
    """
    if len(value) >= len("password"):
        _known.add(value)


def _without_values(query: re.Match[str]) -> str:
    """Returns a URL's query with the names of its parameters alone."""
    scheme, start, rest = query.groups()
    if scheme and "=" not in rest:
        return f"{scheme}{start}{HIDDEN}"
    hidden = _VALUE.sub(rf"\g<1>{HIDDEN}", rest)
    return f"{scheme or ''}{start}{hidden}"


def mask(text: str) -> str:
    """Returns a text without secrets, for messages and files.

    It hides users and passwords in URLs, all values in their queries and fragments, secrets among
    other parameters, and values of ``keep_secret``.
    A masked path opens no file.
    """
    for secret in sorted(_known):
        text = text.replace(secret, HIDDEN)
    if "@" in text and "://" in text:
        text = _USER.sub(f"{HIDDEN}@", text)
    if "://" in text and ("?" in text or "#" in text):
        text = _QUERY.sub(_without_values, text)
    # Most texts are paths; there may be millions of them.
    if any(sign in text for sign in ("?", "&", ";", "--", "'", '"')):
        text = _ENTRY.sub(rf"\g<1>{HIDDEN}", _PARAMETER.sub(rf"\g<1>{HIDDEN}", text))
    return text


def masked_repr(of: type[_T]) -> type[_T]:
    """Masks the ``repr`` of a dataclass, which shows its paths."""
    shown = of.__repr__
    of.__repr__ = lambda self: mask(shown(self))  # type: ignore[method-assign]
    return of


_OUT_OF_MEMORY = re.compile(
    r"\b(Arrow)?MemoryError\b|can't start new thread|Cannot allocate memory"
)
# Of Flink and Spark, of Spark's cluster, of Prism.
_LOST_WORKER = re.compile("CANCELLED: client cancelled|ExecutorLostFailure|SDK worker disconnected")


class PipelineError(Exception):
    """A failure that is shown without a traceback. Its message is masked.

    Attributes:
      hint: how to do what the message says, on this command line; or "".
    """

    exit_code = 1
    hint = ""

    def __init__(self, message: str) -> None:
        super().__init__(mask(message))


class DataError(PipelineError):
    """The data or the run failed: exit status 1."""


class RowError(DataError):
    """A row cannot be computed or encoded; the message has its file."""


class FindingsError(DataError):
    """Rows failed checks; the message has no value of a private column."""


class RecipeError(PipelineError):
    """The recipe or the command line is wrong: exit status 2.

    The message has one line for each problem.

    Attributes:
      excerpts: for each line of the message, the place in the recipe with a mark below; or "".
    """

    exit_code = 2
    excerpts: tuple[str, ...] = ()


def out_of_memory(text: str) -> DataError | None:
    """Returns the error of lack of memory, or of a lost worker.

    The message comes from an engine, or from a system or a library that could not allocate a value,
    thread or process. Returns ``None`` for another message.
    """
    said = text.strip().splitlines()[-1].strip()
    if _LOST_WORKER.search(text):
        return DataError(
            f"the engine has lost a worker: {said}. Most often the system has ended it for lack of "
            "memory, which its log says. Run again with more memory for a worker, or fewer on a "
            "machine: 'beam-pipelines plan' says what one takes."
        )
    if not _OUT_OF_MEMORY.search(text):
        return None
    return DataError(
        f"memory ran out, or the limit that this process was started with (ulimit -v, ulimit -d): "
        f"{said}. Run again with fewer workers (--direct_num_workers), or with more memory."
    )


def nearest_word(word: str, known: Iterable[str]) -> str | None:
    """Returns the nearest known word, or ``None`` if none is near.

    Dashes before the name of an option make no two names alike.
    """
    from difflib import get_close_matches  # only errors need it

    names = {one.lstrip("-"): one for one in known}
    return next(map(names.get, get_close_matches(str(word).lstrip("-"), names, 1, 0.65)), None)


def nearest(word: str, known: Iterable[str]) -> str:
    """Returns ``" Did you mean 'x'?"`` for the nearest known word.

    Returns ``""`` if no word is near.
    """
    found = nearest_word(word, known)
    return f" Did you mean '{found}'?" if found is not None else ""


# Columns that an error names.
_SHOWN_COLUMNS = 12


def nearest_column(name: str, columns: Iterable[str]) -> str:
    """Returns a hint at a column's parts, the nearest, or all."""
    names = list(columns)
    parts = [one for one in names if one.startswith(f"{name}.")]
    if not parts and (found := nearest(name, names)):
        return found
    shown = parts or names
    others = len(shown) - _SHOWN_COLUMNS
    more = f" and {others:,} more" if others > 0 else ""
    listed = f"{', '.join(shown[:_SHOWN_COLUMNS])}{more}."
    return f" {'Its parts' if parts else 'The columns'} are {listed}" if shown else ""


def missing_column(name: str, columns: Iterable[str]) -> str:
    """Returns the message for a column that is not there."""
    return f"found column '{name}', which is not there.{nearest_column(name, columns)}"


class Problem(NamedTuple):
    """An error in a recipe.

    Attributes:
      path: its keys and indexes in the recipe: ``("join", 0, "on")``; empty for the whole recipe.
      message: what was found, what was expected, what to do.
      is_of_key: whether the key is wrong, and not its value.
      meant: the known key that an unknown one is near to.
    """

    path: tuple[str | int, ...]
    message: str
    is_of_key: bool = False
    meant: str | None = None


class RecipeProblems(Exception):
    """All problems that one part of planning found.

    ``Lines.explained`` adds line numbers and turns it into a ``RecipeError``.
    """

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(problems)
        self.problems = problems
