"""Reads, writes and merges statistics: of datasets, of TFX, and of TFDV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tensorflow_metadata.proto.v0 import statistics_pb2

from beam_pipelines.analysis.statistics.plan import StatisticsPlan
from beam_pipelines.analysis.statistics.proto import to_proto
from beam_pipelines.analysis.statistics.storage import from_bytes, to_bytes
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.analysis.statistics.view import Statistics
from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.core.layout import dataset_layout
from beam_pipelines.core.layout.dataset_layout import (
    DESCRIPTION,
    FEATURE_STATS,
    MANIFEST,
    SPLIT_PREFIX,
    STATISTICS,
)
from beam_pipelines.core.layout.manifest import parse_manifest
from beam_pipelines.core.layout.statistics_file import parse_statistics
from beam_pipelines.recipe.places import planner_of
from beam_pipelines.storage import files, http_files, input_files


class StoredStatistics(NamedTuple):
    """The statistics of a dataset: folder, statistics by split, and plan."""

    folder: str
    splits: Mapping[str, TableStatistics]
    plan: StatisticsPlan


def statistics_to_files(
    statistics: Mapping[str, TableStatistics], plan: StatisticsPlan
) -> Iterator[tuple[str, bytes]]:
    """Yields the files of a dataset's statistics: path in the dataset, content."""
    for split, proto in to_proto(statistics).items():
        yield dataset_layout.statistics_path(split), proto.SerializeToString(deterministic=True)
    for split, table in statistics.items():
        yield dataset_layout.accumulators_path(split), to_bytes(table, plan)


def has_accumulators(folder: str) -> bool:
    """Whether there are accumulators in a folder, for ``read_accumulators``."""
    return bool(input_files.list_files(files.join(folder, dataset_layout.accumulators_path("*"))))


def read_accumulators(folder: str) -> StoredStatistics:
    """Reads the accumulators of a dataset, a description, or a ``merge_datasets`` output.

    Those of generations, which older versions appended, are merged.

    Raises:
      DataError: there are none, or one is damaged.
    """
    numbers = range(1, _count_generations(folder) + 1)
    first, *others = (_read_generation(folder, number) for number in numbers)
    return merged_statistics([first, *others]) if others else first


def _count_generations(folder: str) -> int:
    path = files.join(folder, dataset_layout.MANIFEST)
    if not files.exists(path):
        return 1
    return len(parse_manifest(files.read_bytes(path), path).generations) or 1


def _read_generation(dataset: str, generation: int) -> StoredStatistics:
    pattern = dataset_layout.accumulators_path("*", generation)
    listed = input_files.list_files(files.join(dataset, pattern))
    if not listed:
        raise DataError(
            f"{dataset}: found no {pattern}, expected a dataset with the accumulators of its "
            "statistics. "
            "Compute them with 'describe' or 'convert'."
        )
    splits, plans = {}, {}
    for file in listed:
        split = files.name_of(file.path)[
            len(dataset_layout.SPLIT_PREFIX) : -len(dataset_layout.ACCUMULATORS_SUFFIX)
        ]
        splits[split], plans[split] = from_bytes(files.read_bytes(file.path), file.path)
    return StoredStatistics(dataset, splits, next(iter(plans.values())))


def merge_datasets(folders: Sequence[str], output: str) -> dict[str, TableStatistics]:
    """Merges the statistics of datasets into a folder; returns them by split.

    The datasets must have the same columns.

    Raises:
      RecipeError: the output already has statistics.
      DataError: a dataset has no accumulators, or they differ in columns or plan.
    """
    for part in (dataset_layout.STATISTICS, dataset_layout.ACCUMULATORS):
        if files.list_files(files.join(output, part, "*")) or files.list_files(
            files.join(output, part, "*", "*")
        ):
            raise RecipeError(f"{output}: there are statistics already. Choose another --output.")
    merged = merged_statistics([read_accumulators(folder) for folder in folders])
    for path, content in statistics_to_files(merged.splits, merged.plan):
        files.write_bytes(files.within(output, path), content)
    return dict(merged.splits)


def merged_statistics(datasets: Sequence[StoredStatistics]) -> StoredStatistics:
    """Returns the statistics of all datasets' rows.

    A split may be in only some of the datasets.

    Raises:
      DataError: the datasets differ in columns, types, weight or slices; names the two that do.
    """
    first, *others = datasets
    for other in others:
        _check_alike(first, other)
    splits = dict.fromkeys(split for dataset in datasets for split in dataset.splits)
    return StoredStatistics(
        first.folder,
        {
            split: TableStatistics.merged(
                [dataset.splits[split] for dataset in datasets if split in dataset.splits]
            )
            for split in splits
        },
        first.plan,
    )


def _check_alike(first: StoredStatistics, other: StoredStatistics) -> None:
    cure = "Statistics merge only of datasets with the same columns, types, weight and slices."
    mine, theirs = _types(first), _types(other)
    for name in dict.fromkeys([*mine, *theirs]):
        if mine.get(name) != theirs.get(name):
            raise DataError(
                f"{other.folder}, column '{name}': found {theirs.get(name, 'no such column')}, "
                f"expected {mine.get(name, 'none')} as in {first.folder}. {cure}"
            )
    if first.plan != other.plan:
        raise DataError(
            f"{other.folder}: found {_shown(other.plan)}, expected {_shown(first.plan)} as in "
            f"{first.folder}. {cure}"
        )


def _types(dataset: StoredStatistics) -> dict[str, str]:
    table = next(iter(dataset.splits.values()))
    return {name: f"type {type_name(column.type)}" for name, column in table.columns.items()}


def _shown(plan: StatisticsPlan) -> str:
    parts = [f"weight {plan.weight}" if plan.weight else "no weight"]
    parts.append(f"slices by {', '.join(plan.slice_by)}" if plan.slice_by else "no slices")
    parts.append(
        f"categorical {', '.join(plan.categorical)}"
        if plan.categorical
        else "no categorical integers"
    )
    if plan.lists:
        parts.append(f"feature lists {', '.join(plan.lists)}")
    if plan.features:
        parts.append(f"values of {', '.join(plan.features)} only")
    if plan.sample is not None:
        parts.append(f"values of {100 * plan.sample:.6g} % of the rows")
    return "; ".join(parts)


def is_stored(path: str) -> bool:
    """Whether a path has statistics, rather than a recipe or data."""
    return path.endswith(".pb") or (planner_of(path) is None and bool(_folder(path)))


def read_statistics(path: str) -> dict[str, Statistics]:
    """Returns split -> statistics of all rows: accumulators if stored, else protos.

    Splits are as in ``read_protos``.

    Raises:
      RecipeError: there are no statistics.
      DataError: the file has something else.
    """
    found = _proto_files(path)
    is_exact = not path.endswith(".pb") and has_accumulators(path)
    exact = read_accumulators(path).splits if is_exact else {}
    return {name: exact[name] if name in exact else _read(file) for name, file in found.items()}


def read_protos(path: str) -> dict[str, statistics_pb2.DatasetFeatureStatistics]:
    """Returns split -> the proto of all rows.

    Splits are in the order of the dataset's manifest; without one ``train`` is first, then the
    others by name. The split of a single file is named after its folder, ``Split-train``, or else
    ``all``.

    Raises:
      RecipeError, DataError: as ``read_statistics``.
    """
    return {name: _read(file) for name, file in _proto_files(path).items()}


def _proto_files(path: str) -> dict[str, str]:
    if path.endswith(".pb"):
        name = files.name_of(path[: -len(files.name_of(path))]) if "/" in path else ""
        return {name.removeprefix(SPLIT_PREFIX) if name.startswith(SPLIT_PREFIX) else "all": path}
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
    return {name: found[name] for name in [*names, *rest]}


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
