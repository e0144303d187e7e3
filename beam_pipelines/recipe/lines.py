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
    """

    origin: str = ""
    line_for_path: Mapping[Path, int] = dataclasses.field(default_factory=dict)

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

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Turns ``RecipeProblems`` of the block into a ``RecipeError`` with lines."""
        try:
            yield
        except RecipeProblems as error:
            raise explain(error.problems, self) from error


def explain(problems: Iterable[Problem], lines: Lines) -> RecipeError:
    """Returns the error that lists all problems, ordered by line.

    A line reads ``recipe.yaml:17: join[0].how: found …``.
    """
    located = [(lines.line(problem.path), problem) for problem in dict.fromkeys(problems)]
    located.sort(key=lambda item: item[0] or 0)
    texts = []
    for line, problem in located:
        origin = lines.origin if line is None else f"{lines.origin}:{line}"
        texts.append(
            ": ".join(part for part in (origin, show_path(problem.path), problem.message) if part)
        )
    return RecipeError("\n".join(texts))


def show_path(path: Path) -> str:
    """Returns a path as people write it: ``join[0].how``."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(
        "."
    )
