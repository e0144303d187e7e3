"""The file of a dataset's origin and license, for its passports."""

from __future__ import annotations

import dataclasses
import re

from beam_pipelines.core.errors import RecipeError, RecipeProblems
from beam_pipelines.recipe.keys import read_keys, recipe_key
from beam_pipelines.recipe.text.yaml import parse_yaml
from beam_pipelines.recipe.values import Value, read_text, read_texts, reader

_VERSION = r"[0-9]+\.[0-9]+\.[0-9]+"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"


@reader(type="string", pattern=f"^{_VERSION}$")
def read_version(value: Value) -> str | None:
    """Reads a version of three numbers."""
    return _read_matching(value, _VERSION, "a version of three numbers such as 1.0.0")


@reader(type="string", pattern=f"^{_DATE}$")
def read_date(value: Value) -> str | None:
    """Reads a date."""
    return _read_matching(value, _DATE, "a date such as 2026-01-31")


def _read_matching(value: Value, pattern: str, expected: str) -> str | None:
    text = read_text(value)
    if text is not None and not re.fullmatch(pattern, text):
        value.expected(expected)
        return None
    return text


@dataclasses.dataclass(frozen=True)
class About:
    """The origin and license of a dataset."""

    description: str | None = recipe_key(
        read_text, None, "splits and their rows", "What the rows are, in some sentences."
    )
    license: str | None = recipe_key(
        read_text, None, "none", "An SPDX identifier such as `CC-BY-4.0`, or a URL."
    )
    url: str | None = recipe_key(read_text, None, "none", "The dataset's page.")
    citation: str | None = recipe_key(read_text, None, "none", "How to cite it, as text or BibTeX.")
    creators: tuple[str, ...] = recipe_key(
        read_texts, (), "none", "People and organizations that made it."
    )
    version: str | None = recipe_key(
        read_version, None, "`1.0.0`", "Three numbers, as semantic versions have."
    )
    published: str | None = recipe_key(read_date, None, "none", "The date of publication.")


def read_about(text: str, origin: str) -> About:
    """Reads the file.

    Args:
      text: YAML, a mapping of the keys of ``About``.
      origin: its path, for errors.

    Raises:
      RecipeError: it is not YAML, or has an unknown key or a wrong value.
    """
    if not text.strip():
        raise RecipeError(
            f"{origin}: found an empty file, expected keys such as 'license: CC-BY-4.0'."
        )
    tree, lines, problems = parse_yaml(text, origin)
    found = read_keys(About, Value(tree, (), problems), "a mapping such as {license: CC-BY-4.0}")
    with lines.explained():
        if problems:
            raise RecipeProblems(problems)
    return About(**found)
