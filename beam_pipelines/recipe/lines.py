"""Lines of a recipe's keys, which errors name."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from beam_pipelines.core.errors import Problem, RecipeError, RecipeProblems

Path: TypeAlias = tuple[str | int, ...]


@dataclasses.dataclass(frozen=True)
class Lines:
    """Where the keys of a recipe are.

    Attributes:
      origin: the recipe's path, as the user gave it.
      line_for_path: path of keys and indexes -> line, from 1; empty without a recipe file.
      option_for_path: path -> the option of the command line that set the value there.
    """

    origin: str = ""
    line_for_path: Mapping[Path, int] = dataclasses.field(default_factory=dict)
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
    located = [(lines.line(problem.path), problem) for problem in dict.fromkeys(problems)]
    located.sort(key=lambda item: item[0] or 0)
    texts = []
    for line, problem in located:
        option, inner = lines.option(problem.path)
        origin = option or (lines.origin if line is None else f"{lines.origin}:{line}")
        place = show_path(inner if option else problem.path)
        texts.append(": ".join(part for part in (origin, place, problem.message) if part))
    return RecipeError("\n".join(texts))


def show_path(path: Path) -> str:
    """Returns a path as people write it: ``join[0].how``."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(
        "."
    )
