"""Writes passports into a dataset's folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from beam_pipelines.core.errors import RecipeError, mask
from beam_pipelines.dataset.manifest import read_manifest
from beam_pipelines.storage import files
from beam_pipelines_plugins.passports.about import About
from beam_pipelines_plugins.passports.croissant import croissant_files
from beam_pipelines_plugins.passports.dataset_facts import DatasetFacts, read_facts
from beam_pipelines_plugins.passports.hugging_face import hugging_face_files
from beam_pipelines_plugins.passports.tfds import tfds_files

PASSPORTS: Mapping[str, Callable[[DatasetFacts], dict[str, str]]] = {
    "croissant": croissant_files,
    "huggingface": hugging_face_files,
    "tfds": tfds_files,
}


def write_passports(
    folder: str, kinds: Iterable[str], about: About, overwrite: bool = False
) -> list[str]:
    """Writes passports; shards and manifest stay as they are.

    Args:
      folder: of the dataset.
      kinds: names in ``PASSPORTS``.
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
        for path, text in PASSPORTS[kind](facts).items()
    }
    there = [path for path in texts if files.exists(path)]
    if there and not overwrite:
        raise RecipeError(f"{mask(there[0])}: found a file. Add --overwrite to replace it.")
    for path, text in texts.items():
        with files.replace(path) as file:
            file.write(text.encode())
    return list(texts)
