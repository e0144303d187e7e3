"""Reads statistics of datasets, descriptions, TFX's StatisticsGen, and TFDV's files."""

from __future__ import annotations

from tensorflow_metadata.proto.v0 import statistics_pb2

from beam_pipelines.analysis.statistics.datasets import has_accumulators, read_accumulators
from beam_pipelines.analysis.statistics.view import Statistics
from beam_pipelines.core.dataset_layout import (
    DESCRIPTION,
    FEATURE_STATS,
    MANIFEST,
    SPLIT_PREFIX,
    STATISTICS,
)
from beam_pipelines.core.errors import RecipeError
from beam_pipelines.core.manifest import parse_manifest
from beam_pipelines.core.statistics_file import parse_statistics
from beam_pipelines.recipe.places import planner_of
from beam_pipelines.storage import files, http_files, input_files


def is_stored(path: str) -> bool:
    """Whether a path has statistics, rather than a recipe or data."""
    return path.endswith(".pb") or (planner_of(path) is None and bool(_folder(path)))


def read_statistics(path: str) -> dict[str, Statistics]:
    """Returns split -> statistics of all rows: accumulators if stored, else protos.

    Splits are in the order of the dataset's manifest; without one ``train`` is first, then the
    others by name. The split of a single file is named after its folder, ``Split-train``, or else
    ``all``.

    Raises:
      RecipeError: there are no statistics.
      DataError: the file has something else.
    """
    if path.endswith(".pb"):
        name = files.name_of(path[: -len(files.name_of(path))]) if "/" in path else ""
        return {
            name.removeprefix(SPLIT_PREFIX) if name.startswith(SPLIT_PREFIX) else "all": _read(path)
        }
    folder = _folder(path)
    if not folder:
        raise RecipeError(
            f"{path}: found no statistics, expected a dataset, a description, a folder with "
            f"{SPLIT_PREFIX}*/{FEATURE_STATS}, or a file of "
            "statistics (.pb)."
        )
    found = {
        _split_of(listed.path): listed.path
        for listed in input_files.list_files(files.join(folder, "*", FEATURE_STATS))
    }
    names = [name for name in _manifest_order(path) if name in found]
    rest = sorted(set(found) - set(names), key=lambda name: (name != "train", name))
    exact = read_accumulators(path).splits if has_accumulators(path) else {}
    return {name: exact[name] if name in exact else _read(found[name]) for name in [*names, *rest]}


def _folder(path: str) -> str:
    """Returns the folder with the splits' folders; empty if there is none."""
    if path.partition("://")[0] in http_files.SCHEMES:
        return ""  # a web server has files alone
    candidates = (files.join(path, STATISTICS), path)
    return next(
        (
            one
            for one in candidates
            if input_files.list_files(files.join(one, f"{SPLIT_PREFIX}*", FEATURE_STATS))
        ),
        "",
    )


def _split_of(path: str) -> str:
    folder = path[: -len(files.name_of(path))]
    return files.name_of(folder).removeprefix(SPLIT_PREFIX)


def _manifest_order(path: str) -> list[str]:
    for name in (MANIFEST, DESCRIPTION):
        full = files.join(path, name)
        if files.exists(full):
            return list(parse_manifest(files.read_bytes(full), full, name == DESCRIPTION).splits)
    return []


def _read(path: str) -> statistics_pb2.DatasetFeatureStatistics:
    if not files.exists(path):
        raise RecipeError(f"{path}: there is no such file, expected statistics.")
    return parse_statistics(files.read_bytes(path), path)
