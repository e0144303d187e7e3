"""Findings of a target.

An error that says what is wrong is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from beam_pipelines.core.errors import PipelineError, RecipeProblems

T = TypeVar("T")


class Finding(Exception):  # noqa: N818 - what is found need not be an error
    """Something that must not happen.

    ``kind`` is the same for inputs with the same finding.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind, message)
        self.kind, self.message = kind, message

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


def require(is_fine: bool, kind: str, message: object = "") -> None:
    """Raises ``Finding`` if something is not as it has to be."""
    if not is_fine:
        raise Finding(kind, str(message)[:2_000])


def explained(call: Callable[[], T]) -> tuple[T | None, str]:
    """Calls the product.

    Returns:
      Its result, or ``None`` and its explanation.

    Any other exception passes through: it is a finding.
    """
    try:
        return call(), ""
    except PipelineError as error:
        message = str(error)
    except RecipeProblems as error:
        message = "\n".join(problem.message for problem in error.problems)
    require(bool(message.strip()), "an error without a message")
    return None, message
