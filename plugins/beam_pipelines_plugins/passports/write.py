"""Writes passports into a dataset's folder."""

from __future__ import annotations

from collections.abc import Iterable

from beam_pipelines.core.errors import RecipeError, mask
from beam_pipelines.core.process import plugins
from beam_pipelines.dataset.manifest import read_manifest
from beam_pipelines.storage import files
from beam_pipelines_plugins.passports.about import About
from beam_pipelines_plugins.passports.dataset_facts import read_facts


def write_passports(
    folder: str, kinds: Iterable[str], about: About, overwrite: bool = False
) -> list[str]:
    """Writes passports; shards and manifest stay as they are.

    Args:
      folder: of the dataset.
      kinds: names in the group of passports.
      about: what only people know of the dataset.
      overwrite: whether files that are there may be replaced.

    Returns:
      Paths of the files.

    Raises:
      RecipeError: a file is there.
      DataError: there is no dataset, or a program cannot read it; nothing was written.
    """
    read_manifest(folder)
    facts = read_facts(folder, about)
    texts = {
        files.join(folder, path): text
        for kind in kinds
        for path, text in plugins.load(plugins.PASSPORTS, kind)(facts).items()
    }
    there = [path for path in texts if files.exists(path)]
    if there and not overwrite:
        raise RecipeError(f"{mask(there[0])}: found a file. Add --overwrite to replace it.")
    for path, text in texts.items():
        with files.replace(path) as file:
            file.write(text.encode())
    return list(texts)
