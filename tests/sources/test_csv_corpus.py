"""The findings in files of many locales and layouts are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.core.errors import RecipeProblems
from beam_pipelines.sources.csv.sniffer import sniff
from tests.sources.csv_corpus import Made, corpus
from tests.sources.support import plan_of

FILES = list(corpus())


def mistakes(made: Made, folder: Path) -> list[str]:
    """Returns what is found wrongly in a file."""
    path = folder / "a.csv"
    path.write_bytes(made.data)
    if made.asked:
        try:
            plan_of(path)
        except RecipeProblems:
            return []
        return ["not asked"]
    text = made.data.decode(made.encoding).lstrip("\ufeff").encode()
    found = sniff(text)
    wrong = [] if len(found.cells) == made.columns else [f"{len(found.cells)} columns"]
    if made.delimiter and found.delimiter != made.delimiter:
        wrong.append(f"delimiter {found.delimiter!r}")
    if found.header != made.header:
        wrong.append(f"header {found.header}")
    plan = plan_of(path)
    names = plan.file_schema.names
    types = {
        name: type_name(type_)
        for name, type_ in zip(plan.read_schema.names, plan.read_schema.types, strict=True)
    }
    for number, expected in made.types.items():
        if number < len(names) and types.get(names[number]) != expected:
            wrong.append(f"{names[number]}: {types.get(names[number])}, not {expected}")
    return wrong


def test_there_are_enough_files() -> None:
    """The corpus has at least 200 different files."""
    assert len({made.data for made in FILES}) >= 200


@pytest.mark.parametrize("part", range(8))
def test_the_findings_are_right(tmp_path: Path, part: int) -> None:
    """Delimiter, header, columns and types of every file are found."""
    wrong = {made.name: found for made in FILES[part::8] if (found := mistakes(made, tmp_path))}
    assert wrong == {}
