"""Reads and writes statistics of datasets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tensorflow_metadata.proto.v0 import statistics_pb2

from beam_pipelines.analysis.statistics.plan import StatisticsPlan
from beam_pipelines.analysis.statistics.proto import joined_protos, proto_of, to_proto
from beam_pipelines.analysis.statistics.storage import from_bytes, joined_bytes, to_bytes
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.core.errors import RecipeError
from beam_pipelines.core.layout import dataset_layout
from beam_pipelines.core.layout.manifest import Manifest, parse_manifest
from beam_pipelines.files.beam import files, http_files, listing
from beam_pipelines.recipe.places import planner_of


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


def has_accumulators(folder: str) -> bool:
    """Whether there are accumulators in a folder, for ``read_statistics``."""
    return _lists(folder, dataset_layout.accumulators_path("*"))


def _lists(folder: str, pattern: str) -> bool:
    """Whether a folder has files of a pattern; web servers have none."""
    if folder.partition("://")[0] in http_files.SCHEMES:
        return False
    return bool(listing.list_files(files.join(folder, pattern)))


def read_statistics(folder: str) -> dict[str, TableStatistics]:
    """Returns split -> statistics of a dataset or a description.

    Those of generations, which older versions appended, are merged. Splits are in the order of the
    dataset's manifest; without one ``train`` is first, then the others by name.

    Raises:
      RecipeError: there are none.
      DataError: one is damaged.
    """
    if not has_accumulators(folder):
        raise RecipeError(
            f"{folder}: found no statistics, expected a dataset or a description, which have "
            f"{dataset_layout.accumulators_path('*')}. 'describe DATA --output DIR' makes them."
        )
    manifest = find_manifest(folder)
    parts: dict[str, list[TableStatistics]] = {}
    for generation in range(len(manifest.generations) or 1 if manifest else 1):
        pattern = dataset_layout.accumulators_path("*", generation + 1)
        for file in listing.list_files(files.join(folder, pattern)):
            split = files.name_of(file.path)[
                len(dataset_layout.SPLIT_PREFIX) : -len(dataset_layout.ACCUMULATORS_SUFFIX)
            ]
            table, _ = from_bytes(files.read_bytes(file.path), file.path)
            parts.setdefault(split, []).append(table)
    names = [name for name in (manifest.splits if manifest else ()) if name in parts]
    rest = sorted(parts.keys() - names, key=lambda name: (name != "train", name))
    return {name: TableStatistics.merged(parts[name]) for name in [*names, *rest]}


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


def is_stored(path: str) -> bool:
    """Whether a path has statistics, maybe of another tool."""
    if path.endswith(".pb") or planner_of(path) is not None:
        return path.endswith(".pb")
    protos = (
        dataset_layout.statistics_path("*"),
        f"{dataset_layout.SPLIT_PREFIX}*/{dataset_layout.FEATURE_STATS}",
    )
    return has_accumulators(path) or any(_lists(path, one) for one in protos)


def read_protos(path: str) -> dict[str, statistics_pb2.DatasetFeatureStatistics]:
    """Returns split -> the proto of all rows, as ``read_statistics``."""
    return {name: proto_of(table) for name, table in read_statistics(path).items()}
