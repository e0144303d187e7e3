"""Reads, writes and merges statistics of datasets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tensorflow_metadata.proto.v0 import statistics_pb2

from beam_pipelines.analysis.statistics.plan import StatisticsPlan
from beam_pipelines.analysis.statistics.proto import joined_protos, proto_of, to_proto
from beam_pipelines.analysis.statistics.storage import from_bytes, joined_bytes, to_bytes
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.core.arrow.columns import type_name
from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.core.layout import dataset_layout
from beam_pipelines.core.layout.manifest import Manifest, parse_manifest
from beam_pipelines.files.beam import files, http_files, listing
from beam_pipelines.recipe.places import planner_of


class StoredStatistics(NamedTuple):
    """The statistics of a dataset: folder, statistics by split, and plan."""

    folder: str
    splits: Mapping[str, TableStatistics]
    plan: StatisticsPlan


class SplitFiles(NamedTuple):
    """The files of a split's statistics: protos and accumulators."""

    statistics: bytes
    accumulators: bytes

    @classmethod
    def joined(cls, parts: Sequence[SplitFiles]) -> SplitFiles:
        """Returns a table's files from those of its columns' shares."""
        statistics = joined_protos([part.statistics for part in parts])
        return cls(statistics, joined_bytes([part.accumulators for part in parts]))

    def named(self, split: str) -> Iterator[tuple[str, bytes]]:
        """Yields each file: path in the dataset, content."""
        yield dataset_layout.statistics_path(split), self.statistics
        yield dataset_layout.accumulators_path(split), self.accumulators


def split_to_files(table: TableStatistics, plan: StatisticsPlan) -> SplitFiles:
    """Returns the files of a split's statistics, or of some columns."""
    proto = to_proto({"": table})[""]
    return SplitFiles(proto.SerializeToString(deterministic=True), to_bytes(table, plan))


def statistics_to_files(
    statistics: Mapping[str, TableStatistics], plan: StatisticsPlan
) -> Iterator[tuple[str, bytes]]:
    """Yields the files of a dataset's statistics: path in the dataset, content."""
    for split, table in statistics.items():
        yield from split_to_files(table, plan).named(split)


def has_accumulators(folder: str) -> bool:
    """Whether there are accumulators in a folder, for ``read_accumulators``."""
    return _lists(folder, dataset_layout.accumulators_path("*"))


def _lists(folder: str, pattern: str) -> bool:
    """Whether a folder has files of a pattern; web servers have none."""
    if folder.partition("://")[0] in http_files.SCHEMES:
        return False
    return bool(listing.list_files(files.join(folder, pattern)))


def read_accumulators(folder: str) -> StoredStatistics:
    """Reads the accumulators of a dataset, a description, or a ``merge_datasets`` output.

    Those of generations, which older versions appended, are merged. Splits are in the order of the
    dataset's manifest; without one ``train`` is first, then the others by name.

    Raises:
      RecipeError: there are none.
      DataError: one is damaged.
    """
    if not has_accumulators(folder):
        raise RecipeError(
            f"{folder}: found no statistics, expected a dataset, a description or merged "
            f"statistics, which have {dataset_layout.accumulators_path('*')}. 'describe DATA "
            "--output DIR' makes them."
        )
    manifest = find_manifest(folder)
    number = len(manifest.generations) or 1 if manifest else 1
    parts = [_read_generation(folder, generation + 1) for generation in range(number)]
    found = merged_statistics(parts)
    names = [name for name in (manifest.splits if manifest else ()) if name in found.splits]
    rest = sorted(found.splits.keys() - names, key=lambda name: (name != "train", name))
    return found._replace(splits={name: found.splits[name] for name in [*names, *rest]})


def find_manifest(folder: str) -> Manifest | None:
    """Reads the manifest of a dataset or description, if any.

    Raises:
      DataError: this version cannot read it.
    """
    for name in (dataset_layout.MANIFEST, dataset_layout.DESCRIPTION):
        path = files.join(folder, name)
        if files.exists(path):
            return parse_manifest(files.read_bytes(path), path, name == dataset_layout.DESCRIPTION)
    return None


def _read_generation(dataset: str, generation: int) -> StoredStatistics:
    pattern = dataset_layout.accumulators_path("*", generation)
    splits, plans = {}, {}
    for file in listing.list_files(files.join(dataset, pattern)):
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
        if listing.files_below(files.join(output, part)):
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
    return {
        name: f"type {type_name(one.type)}{'' if one.is_counted else ', without its values'}"
        for name, one in table.columns.items()
    }


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
    return "; ".join(parts)


def is_stored(path: str) -> bool:
    """Whether a path has statistics, maybe of another tool."""
    if path.endswith(".pb") or planner_of(path) is not None:
        return path.endswith(".pb")
    protos = (
        dataset_layout.statistics_path("*"),
        f"{dataset_layout.SPLIT_PREFIX}*/{dataset_layout.FEATURE_STATS}",
    )
    return has_accumulators(path) or any(_lists(path, one) for one in protos)


def read_statistics(path: str) -> Mapping[str, TableStatistics]:
    """Returns split -> statistics, as ``read_accumulators``."""
    return read_accumulators(path).splits


def read_protos(path: str) -> dict[str, statistics_pb2.DatasetFeatureStatistics]:
    """Returns split -> the proto of all rows, as ``read_accumulators``."""
    return {name: proto_of(table) for name, table in read_statistics(path).items()}
