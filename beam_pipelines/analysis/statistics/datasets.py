"""Reads, writes and merges the files of datasets' statistics."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from beam_pipelines.analysis.statistics.plan import StatisticsPlan
from beam_pipelines.analysis.statistics.proto import to_proto
from beam_pipelines.analysis.statistics.storage import from_bytes, to_bytes
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.core import dataset_layout
from beam_pipelines.core.columns import type_name
from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.core.manifest import parse_manifest
from beam_pipelines.storage import files, input_files


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
    datasets = _with_common_composites(datasets)
    splits = dict.fromkeys(split for dataset in datasets for split in dataset.splits)
    return StoredStatistics(
        first.folder,
        {
            split: TableStatistics.merged(
                [dataset.splits[split] for dataset in datasets if split in dataset.splits]
            )
            for split in splits
        },
        datasets[0].plan,
    )


def _with_common_composites(datasets: Sequence[StoredStatistics]) -> list[StoredStatistics]:
    """Returns the datasets with the composites that all of them have counted."""
    common = tuple(
        composite
        for composite in datasets[0].plan.composites
        if all(composite in dataset.plan.composites for dataset in datasets)
    )
    return [
        dataset._replace(
            splits={name: table.of_composites(common) for name, table in dataset.splits.items()},
            plan=dataclasses.replace(dataset.plan, composites=common),
        )
        for dataset in datasets
    ]


def _check_alike(first: StoredStatistics, other: StoredStatistics) -> None:
    cure = "Statistics merge only of datasets with the same columns, types, weight and slices."
    mine, theirs = _types(first), _types(other)
    for name in dict.fromkeys([*mine, *theirs]):
        if mine.get(name) != theirs.get(name):
            raise DataError(
                f"{other.folder}, column '{name}': found {theirs.get(name, 'no such column')}, "
                f"expected {mine.get(name, 'none')} as in {first.folder}. {cure}"
            )
    plan = dataclasses.replace(other.plan, composites=first.plan.composites)
    if first.plan != plan:
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
