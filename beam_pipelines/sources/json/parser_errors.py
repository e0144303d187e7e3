"""The messages of pyarrow's JSON parser, and their remedies."""

from __future__ import annotations

import re

from beam_pipelines.recipe.text.yaml_text import yaml_text

_TWO_KINDS = re.compile(r"Column\(/(?P<path>.*)\) changed from (?P<old>\w+) to (?P<new>\w+)")


def plain(error: Exception) -> str:
    """Returns the parser's message without its row number, which misleads."""
    words = re.sub(
        r" in row \d+$", "", str(error).removeprefix("JSON parse error: ").strip()
    ).rstrip(". ")
    return re.sub(
        r"Column\(/?(.*?)\)",
        lambda match: f"field '{match[1].replace('/[]', '').replace('/', '.')}'",
        words,
    )


def cure_of_kinds(error: Exception) -> str:
    """Returns the remedy for a field with two kinds of values."""
    if "Column() changed from object to array" in str(error):
        return "Make objects of lists, for example: jq -c '{a: .[0], b: .[1]}' old > new.jsonl"
    if (found := text_for_kinds(error)) is None:
        return "Mend the line."
    name, type_ = found
    return (
        f"Mend the line, declare 'types: {{{yaml_text(name)}: {type_}}}' of the source, which "
        "keeps objects and lists as the text of their JSON, or leave the field out with 'columns'."
    )


def text_for_kinds(error: Exception) -> tuple[str, str] | None:
    """Returns the column with two kinds of values.

    The type that takes both.
    """
    if (match := _TWO_KINDS.search(str(error))) is None:
        return None
    parts = match["path"].split("/")
    name = ".".join(part for part in parts if part != "[]")
    return name, "list<text>" if "[]" in parts and parts[-2:] != ["[]", "[]"] else "text"
