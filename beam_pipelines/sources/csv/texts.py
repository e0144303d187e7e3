"""Tells files of texts from tables, by their first lines."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import Limits
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.files.compression import read_head
from beam_pipelines.sources.options import CsvOptions
from beam_pipelines.storage.path_patterns import has_wildcard

# Files that are looked at to tell texts from tables, and bytes of each. A text has a sentence that
# ends within its first line, or at the end of it.
_SOME_TEXTS, _TEXT_BYTES = 8, 4096
_SENTENCE = re.compile(r"[^\W\d_][.!?] +[^\W\d_]|\w[\"')\]]*[.!?\u2026\u3002][\"')\]]*\s*$")


def are_texts(paths: Sequence[str]) -> bool:
    """Whether most of some ``.txt`` files begin with a sentence."""
    if len(paths) < 2 or not all(path.lower().endswith(".txt") for path in paths):
        return False
    some = paths[:: max(1, len(paths) // _SOME_TEXTS)]
    heads = [read_head(path, "none", _TEXT_BYTES, Limits()) for path in some]
    lines = [head.decode(errors="replace").strip().partition("\n")[0] for head in heads]
    return 2 * sum(_SENTENCE.search(line) is not None for line in lines) > len(some)


def texts_cure(folder: str) -> str:
    """Returns how to read a folder of texts."""
    return (
        f"pack them: 'tar cf texts.tar -C {folder} .'. Then texts.tar has a row a file, its text "
        "in 'txt', and the name of its folder is \"split_part(__key__, '/', -2)\" in 'derive'."
    )


def check_no_texts(source: Source, paths: Sequence[str]) -> None:
    """Checks that the files of a source are not a text each.

    Raises:
      DataError: they are, and the recipe has neither a format nor columns.
    """
    is_told = source.format is not None or source.options_of(CsvOptions).header is not None
    if is_told or source.columns or not are_texts(paths):
        return
    folder = source.path[0] if len(source.path) == 1 else ""
    folder = os.path.dirname(paths[0]) if not folder or has_wildcard(folder) else folder
    raise DataError(
        f"{paths[0]}: found {len(paths):,} files that begin with a sentence, expected tables. If "
        "each line is a text, set 'format: lines'; if they are tables, 'format: csv'. If each file "
        f"is a text, {texts_cure(folder)}"
    )
