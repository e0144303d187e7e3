"""Lines of a recipe's keys, which errors name."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from beam_pipelines.core.errors import Problem, RecipeError, RecipeProblems, mask
from beam_pipelines.core.formatting import visible

Path: TypeAlias = tuple[str | int, ...]
_WIDTH = 100  # of an excerpt, in characters


class LineSpan(NamedTuple):
    """A part of a line.

    Attributes:
      line: its number, from 1.
      start, end: its first character, and the one after its last, from 1.
    """

    line: int
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class Lines:
    """Where the keys of a recipe are.

    Attributes:
      origin: the recipe's path, as the user gave it.
      line_for_path: path of keys and indexes -> line, from 1; empty without a recipe file.
      spans: path -> places of its key (or of its item) and of its value.
      text: lines of the recipe.
      option_for_path: path -> the option of the command line that set the value there.
    """

    origin: str = ""
    line_for_path: Mapping[Path, int] = dataclasses.field(default_factory=dict)
    spans: Mapping[Path, tuple[LineSpan, LineSpan]] = dataclasses.field(default_factory=dict)
    text: tuple[str, ...] = ()
    option_for_path: Mapping[Path, str] = dataclasses.field(default_factory=dict)

    def __reduce__(self) -> tuple[type[Lines], tuple[str]]:
        # Workers get recipes in their plans, and no lines: only the launcher explains problems.
        return Lines, (self.origin,)

    def line(self, path: Path) -> int | None:
        """Returns the line of a path's longest known beginning.

        ``None`` without a recipe file.
        """
        for length in range(len(path), -1, -1):
            if path[:length] in self.line_for_path:
                return self.line_for_path[path[:length]]
        return None

    def option(self, path: Path) -> tuple[str, Path]:
        """Returns the option that set a value, and the path inside.

        The option is empty if the value is the recipe's own.
        """
        for length in range(len(path), 0, -1):
            if path[:length] in self.option_for_path:
                return self.option_for_path[path[:length]], path[length:]
        for set_path, option in self.option_for_path.items():
            if path and path not in self.line_for_path and set_path[: len(path)] == path:
                return option, path  # a part that the option has made
        return "", path

    def excerpt(self, problem: Problem) -> str:
        """Returns the line of a problem and a mark below its place.

        Empty if the value is not the recipe's own.
        """
        path = problem.path
        if self.option(path)[0]:
            return ""
        for length in range(len(path), 0, -1):
            if path[:length] in self.spans:
                key, value = self.spans[path[:length]]
                return show_span(self.text, key if problem.is_of_key else value)
        return ""

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Turns ``RecipeProblems`` of the block into a ``RecipeError`` with lines."""
        try:
            yield
        except RecipeProblems as error:
            raise explain(error.problems, self) from error


def explain(problems: Iterable[Problem], lines: Lines) -> RecipeError:
    """Returns the error that lists all problems, ordered by line.

    A line reads ``recipe.yaml:17: join[0].how: found …``, or ``--set join[0].how: found …``.
    """
    found = dict.fromkeys(problems)
    meant = [(one.path[:-1], f"'{one.meant}'") for one in found if one.meant]
    located = [
        (lines.line(one.path), one)
        for one in found
        # Others follow from the misspelled key.
        if one.meant
        or not any(at in (one.path, one.path[:-1]) and key in one.message for at, key in meant)
    ]
    located.sort(key=lambda item: item[0] or 0)
    texts, excerpts = [], []
    for line, problem in located:
        option, inner = lines.option(problem.path)
        origin = option or (lines.origin if line is None else f"{lines.origin}:{line}")
        place = show_path(inner if option else problem.path)
        text = ": ".join(part for part in (origin, place, problem.message) if part)
        texts.append(text)
        excerpts += [*[""] * text.count("\n"), lines.excerpt(problem)]
    error = RecipeError("\n".join(texts))
    error.excerpts = tuple(excerpts)
    return error


def show_span(text: Sequence[str], span: LineSpan) -> str:
    """Returns a line with a mark below a part of it.

    Line and column come first. Secrets are masked, and long lines are cut.
    """
    if not 0 < span.line <= len(text):
        return ""
    line, start = text[span.line - 1].replace("\t", " "), span.start - 1
    end = max(start + 1, min(span.end - 1, len(line)))
    if mask(line) != line:
        line = before = mask(line)
        end = len(before)
        start = len(before) - len(before.lstrip())
    first = max(0, min(start - _WIDTH // 4, len(line) - _WIDTH)) if len(line) > _WIDTH else 0
    shown = line[first : first + _WIDTH].rstrip()
    place = f"{span.line}:{span.start}"
    carets = "^" * max(1, min(end, first + _WIDTH) - start)
    return (
        f"  {place} | {visible(shown)}\n  {' ' * len(place)} | "
        f"{' ' * len(visible(line[first:start]))}{carets}"
    )


def show_path(path: Path) -> str:
    """Returns a path as people write it: ``join[0].how``."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(
        "."
    )
