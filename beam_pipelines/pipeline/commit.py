"""The commit: makes a dataset of the written files, or leaves nothing.

It is the last step of a conversion.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import apache_beam as beam

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.events import log_event
from beam_pipelines.core.layout import dataset_layout
from beam_pipelines.core.layout.shard_formats import SHARD_FOLDERS
from beam_pipelines.dataset.manifest import listed_files, listed_shards, read_manifest
from beam_pipelines.files.beam import file_changes, file_checksums, files, listing
from beam_pipelines.pipeline import run_lock, validate
from beam_pipelines.pipeline.artifacts import write_files, write_indexes
from beam_pipelines.pipeline.first_pass_result import FirstPassResult, check_joins_of
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.sources import format_of
from beam_pipelines.transforms import metrics
from beam_pipelines.transforms.row_counts import RowCounts
from beam_pipelines.transforms.write import ShardInfo

PARTS = (
    *SHARD_FOLDERS,
    dataset_layout.INDEX,
    dataset_layout.RAW_SCHEMA_FOLDER,
    dataset_layout.STATISTICS,
    dataset_layout.ACCUMULATORS,
    dataset_layout.ANOMALIES,
    dataset_layout.TRANSFORM_GRAPH,
    dataset_layout.REJECTED,
    dataset_layout.INPUTS,
    dataset_layout.REPORT,
    dataset_layout.REPORT_DATA,
    dataset_layout.LABELS,
    dataset_layout.LABELS_FOLDER,
)
PARTS_OF_DESCRIPTION = tuple(
    part
    for part in PARTS
    if part not in (*SHARD_FOLDERS, dataset_layout.INDEX, dataset_layout.TRANSFORM_GRAPH)
)
# In the temporary folder: what is to be moved, but for what stages have written; the list of all of
# it; and what it takes the place of.
STAGED = "staged"
_PATHS = "paths.json"
_REPLACED = "replaced"
_STAGES_WRITE = (*SHARD_FOLDERS, dataset_layout.TRANSFORM_GRAPH)
# Files that a worker moves in an object store before it takes others.
_MOVED_FILES = 1000
# Within the dataset.
Paths: TypeAlias = Sequence[str]


@dataclasses.dataclass(frozen=True)
class CommitSteps:
    """The steps of a commit, which an engine may run twice.

    Attributes:
      stage: gets the shards and what else it needs; returns what ``stage`` does.
      folder: the dataset.
      mark: the run's, as in ``RunFolders``.
      started: start of the run, in seconds since 1970.
    """

    stage: Callable[..., Sequence[Paths]]
    folder: str
    mark: str
    started: float

    def begin(self, shards: Sequence[ShardInfo], *needed: Any) -> Sequence[Paths]:
        """Returns what is to be moved; nothing after a commit.

        Raises:
          DataError: another run has begun; or as ``stage`` raises it.
        """
        temporary = files.join(self.folder, dataset_layout.TEMPORARY)
        waits = files.exists(staged_path(temporary, shards[0].path))
        if not waits and is_committed(self.folder, shards):
            log_event("retry", what="commit")
            return ()
        if self.mark and run_lock.mark_of(temporary) != self.mark:
            raise run_lock.other_run(self.folder, temporary)
        metrics.end_stage("write", self.started, sum(shard.rows for shard in shards))
        return self.stage(shards, *needed)

    def end(self, shards: Sequence[ShardInfo]) -> str:
        """Writes the manifest, and returns the folder."""
        seal(self.folder, shards, self.mark)
        metrics.end_stage("commit", self.started, sum(shard.rows for shard in shards))
        return self.folder

    def run(self, shards: Sequence[ShardInfo], *needed: Any) -> str:
        """Does all in one worker."""
        for paths in self.begin(shards, *needed):
            move(paths, self.folder, self.mark)
        return self.end(shards)


@dataclasses.dataclass
class CommitShards(beam.PTransform):
    """Makes a dataset of written shards.

    On a disk one worker renames folders. An object store copies each file: there all workers move
    files, and one writes the manifest when all are in place.

    Input: one element. Output: the folder, after the commit.

    Attributes:
      steps: of the commit.
      shards: all of the run.
      needed: side inputs of the first step.
    """

    steps: CommitSteps
    shards: beam.PCollection[ShardInfo]
    needed: Sequence[beam.pvalue.AsSideInput]

    def expand(self, once: beam.PCollection[Any]) -> beam.PCollection[str]:
        steps, shards = self.steps, beam.pvalue.AsList(self.shards)
        if files.is_local(steps.folder):
            return once | "All" >> beam.Map(lambda _, *own: steps.run(*own), shards, *self.needed)
        begun = once | "Stage" >> beam.FlatMap(
            lambda _, *own: steps.begin(*own), shards, *self.needed
        )
        spread = begun | "Spread" >> beam.Reshuffle()
        moved = beam.pvalue.AsList(spread | "Move" >> beam.Map(move, steps.folder, steps.mark))
        return once | "Seal" >> beam.Map(lambda _, own, _moved: steps.end(own), shards, moved)


def stage(
    plan: Plan, result: FirstPassResult, shards: Sequence[ShardInfo], folder: str, started: float
) -> list[Paths]:
    """Checks counts, writes the other files, removes the old dataset.

    The old one stays as it is until everything is written. This step, ``move`` and ``seal`` can run
    twice, also at once in an object store: files that are written or moved are skipped.

    Args:
      plan: of the conversion.
      result: of the first pass.
      shards: all shards of the run, written under ``folder/_temporary``.
      folder: the dataset.
      started: start of the run, in seconds since 1970.

    Returns:
      Lists of what ``move`` has to move.

    Raises:
      DataError: rows were lost, or an input changed during the run.
    """
    temporary = files.join(folder, dataset_layout.TEMPORARY)
    check_unchanged(plan)
    check_written(result.row_counts, result.shards.num_shards, shards)
    paths = _staged(temporary) or _write_staged(plan, result, shards, folder, started)
    return _make_room(folder, temporary, paths)


def move(paths: Paths, folder: str, mark: str = "") -> None:
    """Moves files, or folders, of the temporary folder into the dataset.

    Args:
      paths: within the dataset; those that are moved already are skipped.
      folder: the dataset.
      mark: as in ``RunFolders``.

    Raises:
      DataError: one cannot be moved, or another run has begun.
    """
    temporary = files.join(folder, dataset_layout.TEMPORARY)
    if mark and run_lock.mark_of(temporary) not in ("", mark):
        raise run_lock.other_run(folder, temporary)
    file_changes.rename(
        [(staged_path(temporary, path), files.within(folder, path)) for path in paths]
    )


def seal(folder: str, shards: Sequence[ShardInfo], mark: str = "") -> None:
    """Moves the manifest once all shards are in their places.

    Arguments are those of ``stage`` and ``move``.

    Raises:
      DataError: a shard is not in its place. On a disk an engine may run the commit twice at once,
        and the one may take what the other has moved for the old dataset.
    """
    temporary = files.join(folder, dataset_layout.TEMPORARY)
    found, left = listed_shards(folder), listed_shards(temporary)
    for file in shards:
        listed = found.get(file.path)
        if file.path in left or listed is None or listed.size_bytes != file.bytes:
            raise DataError(
                f"{files.within(folder, file.path)}: found no file of {file.bytes:,} bytes, "
                "expected the shard that was moved there. The dataset was not committed. Run "
                "again, without speculative execution."
            )
    move(_staged(temporary)[-1:], folder, mark)
    # The dataset is complete. The launcher tries again, and reports a folder that stays.
    with contextlib.suppress(DataError):
        file_changes.delete(temporary)


def _write_staged(
    plan: Plan, result: FirstPassResult, shards: Sequence[ShardInfo], folder: str, started: float
) -> list[str]:
    """Writes all files except the shards to the temporary folder.

    Returns:
      The paths of all files to move, in order.
    """
    temporary = files.join(folder, dataset_layout.TEMPORARY)
    place = partial(staged_path, temporary)
    indexes = write_indexes(shards, temporary, place)
    graph = listing.files_below(files.join(temporary, dataset_layout.TRANSFORM_GRAPH))
    others = [*(files.relative(file.path, temporary) for file in graph), *indexes]
    written = write_files(plan, result, shards, place, dataset_layout.MANIFEST, started, others)
    paths = [*dict.fromkeys([*(shard.path for shard in shards), *others, *written])]
    # Files of a killed worker must not be moved with their folder.
    found = listed_shards(temporary)
    for name in sorted(found.keys() - {shard.path for shard in shards}):
        file_changes.delete(found[name].path)
    files.write_bytes(files.join(temporary, STAGED, _PATHS), json.dumps(paths).encode())
    return paths


def _staged(temporary: str) -> list[str]:
    """Returns the paths to move if an earlier attempt wrote them all."""
    path = files.join(temporary, STAGED, _PATHS)
    return list(json.loads(files.read_bytes(path))) if files.exists(path) else []


def _make_room(folder: str, temporary: str, paths: Paths) -> list[Paths]:
    """Removes the old dataset, manifest first.

    Returns:
      What to move before the new manifest.
    """
    manifest = files.join(folder, dataset_layout.MANIFEST)
    # Seen first: while another file waits, no attempt has moved the new one.
    seen = file_changes.version_of(manifest)
    if seen is not None and files.exists(staged_path(temporary, paths[0])):
        file_changes.change_version(manifest, seen)
    file_changes.delete(files.join(folder, dataset_layout.DESCRIPTION))
    parts = dict.fromkeys(path.split("/")[0] for path in paths[:-1])
    if files.is_local(folder):
        for part in PARTS:
            if part not in parts or files.exists(staged_path(temporary, part)):
                _set_aside(files.join(folder, part), files.join(temporary, _REPLACED, part))
        return [[*parts]]
    # Files of the new names are replaced when they are moved. Another attempt may have moved them.
    for part in sorted({*PARTS} - parts.keys()):
        file_changes.delete(files.join(folder, part))
    old = listed_files(folder, parts)
    file_changes.delete_files([old[name].path for name in old.keys() - set(paths)])
    # The files of a list are in one folder, which is listed.
    by_folder: dict[str, list[str]] = {}
    for path in paths[:-1]:
        part = path.split("/")[0]
        by_folder.setdefault(part if part in _STAGES_WRITE else STAGED, []).append(path)
    return [
        own[start : start + _MOVED_FILES]
        for own in by_folder.values()
        for start in range(0, len(own), _MOVED_FILES)
    ]


def _set_aside(path: str, target: str) -> None:
    """Moves an old file or folder away, which is quicker than deletion."""
    try:
        file_changes.rename([(path, target)])
    except DataError:  # such as a folder in a lower layer of a container's filesystem
        file_changes.delete(path)


def write_description(
    plan: Plan, result: FirstPassResult, folder: str, started: float, stops: bool, stays: bool
) -> None:
    """Writes the result of the first pass, without examples.

    These files are schema, statistics, anomalies, report and ``description.json``.

    Args:
      plan, result, folder, started: as in ``stage``.
      stops: fails if an anomaly is not accepted.
      stays: whether the folder stays, so that an error may name files in it.

    Raises:
      DataError: ``stops``, and an anomaly is not accepted, a check stops the run, or a join has too
        few matches or too many.
    """
    if stops:
        check_joins_of(plan, result.row_counts.joins)
    write_files(
        plan, result, (), partial(files.within, folder), dataset_layout.DESCRIPTION, started
    )
    paths = validate.write_listed(result.findings, folder)
    if stops:
        validate.check_findings(result.findings, "the data do not pass", paths if stays else {})
    offenders, path = validate.write_offenders(
        plan, result.anomalies, result.schema, folder, validate.OFFENDERS
    )
    if stops and validate.has_errors(result.anomalies):
        outcome = "the data do not pass"
        raise validate.anomalies_error(
            result.anomalies, plan.contract_path, outcome, offenders, path if stays else "", plan
        )


def is_committed(folder: str, shards: Sequence[ShardInfo]) -> bool:
    """Whether these shards are a part of the dataset that is there."""
    if not files.exists(files.join(folder, dataset_layout.MANIFEST)):
        return False
    found = {(shard.path, shard.crc32c) for shard in read_manifest(folder).shards}
    return found >= {(shard.path, f"{shard.crc32c:08x}") for shard in shards}


def check_unchanged(plan: Plan) -> None:
    """Checks that no input file changed since the run was planned.

    Raises:
      DataError: names the first file that changed.
    """
    planned = [
        (file.archive or file.path, file)
        for source in plan.sources.values()
        if source.files and format_of(source).has_files
        for file in source.files
    ]
    dates = file_checksums.modified_secs(dict.fromkeys(path for path, _ in planned))
    for path, file in planned:
        if dates[path] != file.modified_secs:
            raise DataError(
                f"{file.path}: the file changed during the run; nothing was written. Run again "
                "when it is complete."
            )


def check_written(row_counts: RowCounts, num_shards: int, shards: Sequence[ShardInfo]) -> None:
    """Checks that every row of every split was written once.

    Raises:
      DataError: the rows in the shards differ from the row counts.
    """
    written = dict.fromkeys(row_counts.rows, 0)
    for shard in shards:
        written[shard.split] += shard.rows
    if (
        written != dict(row_counts.rows)
        or len({shard.path for shard in shards}) != num_shards
        or len(shards) != num_shards
    ):
        raise DataError(
            f"{len(shards)} of {num_shards} shards hold {written} rows, expected "
            f"{dict(row_counts.rows)}. The runner lost or repeated "
            "some; the dataset was not committed. Run again, with --direct_num_workers=1 if it was "
            "a local run, and report it."
        )


def staged_path(temporary: str, path: str) -> str:
    """Returns the path of a file or part before it is moved.

    Stages of the job write to their final names; the other files are in ``STAGED``.
    """
    names = path.split("/")
    return files.join(temporary, *(() if names[0] in _STAGES_WRITE else (STAGED,)), *names)
