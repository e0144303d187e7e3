"""The commit: makes a dataset of the written files, or leaves nothing.

It is the last step of a conversion.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from functools import partial

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout import dataset_layout
from beam_pipelines.core.layout.shard_formats import SHARD_FOLDERS
from beam_pipelines.dataset.manifest import listed_shards, read_manifest
from beam_pipelines.files.beam import file_changes, file_checksums, files, listing
from beam_pipelines.pipeline.artifacts import write_files, write_indexes
from beam_pipelines.pipeline.first_pass_result import FirstPassResult, check_joins_of
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.validate import (
    OFFENDERS,
    anomalies_error,
    check_findings,
    has_errors,
    write_listed,
    write_offenders,
)
from beam_pipelines.sources import format_of
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


def commit(
    plan: Plan, result: FirstPassResult, shards: Sequence[ShardInfo], folder: str, started: float
) -> None:
    """Checks counts, writes the other files, and moves all into place.

    An existing dataset stays as it is until everything is written. A replacement takes a rename or
    two for each of ``PARTS`` on a local disk. The step can run twice: it skips files that are
    written or moved.

    Args:
      plan: of the conversion.
      result: of the first pass.
      shards: all shards of the run, written under ``folder/_temporary``.
      folder: the dataset.
      started: start of the run, in seconds since 1970.

    Raises:
      DataError: rows were lost, or an input changed during the run.
    """
    temporary = files.join(folder, dataset_layout.TEMPORARY)
    check_unchanged(plan)
    check_written(result.row_counts, result.shards.num_shards, shards)
    paths = _staged(temporary)
    if not paths:
        if not files.exists(_stage(temporary, shards[0].path)) and is_committed(folder, shards):
            return  # an earlier attempt of this step committed and cleaned up
        paths = _write_staged(plan, result, shards, folder, started)
    _replace(folder, temporary, paths, shards)
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
    place = partial(_stage, temporary)
    indexes = write_indexes(shards, temporary, place)
    graph = listing.files_below(files.join(temporary, dataset_layout.TRANSFORM_GRAPH))
    others = [*(files.relative(file.path, temporary) for file in graph), *indexes]
    written = write_files(plan, result, shards, place, dataset_layout.MANIFEST, started, others)
    moved = [*(shard.path for shard in shards), *others, *written]
    paths = list(dict.fromkeys(moved))
    # Files of a killed worker must not be moved with their folder.
    own = {shard.path for shard in shards}
    for name, path in listed_shards(temporary).items():
        if name not in own:
            file_changes.delete(path)
    with files.replace(files.join(temporary, STAGED, _PATHS)) as file:
        file.write(json.dumps(paths).encode())
    return paths


def _staged(temporary: str) -> list[str]:
    """Returns the paths to move if an earlier attempt wrote them all."""
    path = files.join(temporary, STAGED, _PATHS)
    return list(json.loads(files.read_bytes(path))) if files.exists(path) else []


def _replace(
    folder: str, temporary: str, paths: Sequence[str], shards: Sequence[ShardInfo]
) -> None:
    """Removes the old dataset, manifest first; moves the new one, manifest last.

    Raises:
      DataError: a shard is not in its place. Engines may run this step twice at once, and the one
        may take what the other has moved for the old dataset.
    """
    if not files.exists(_stage(temporary, paths[-1])):
        return  # an earlier attempt has moved all
    file_changes.delete(files.join(folder, dataset_layout.MANIFEST))
    file_changes.delete(files.join(folder, dataset_layout.DESCRIPTION))
    parts = dict.fromkeys(path.split("/")[0] for path in paths[:-1])
    if files.is_local(folder):
        for part in PARTS:
            if part not in parts or files.exists(_stage(temporary, part)):
                _set_aside(files.join(folder, part), files.join(temporary, _REPLACED, part))
        moved: Sequence[str] = tuple(parts)
    else:
        listed = {files.relative(file.path, temporary) for file in listing.files_below(temporary)}
        waiting = {files.relative(_stage(temporary, path), temporary) for path in paths}
        if waiting <= listed:  # an earlier attempt moved none
            for part in PARTS:
                file_changes.delete(files.join(folder, part))
        moved = paths[:-1]
    _move(folder, temporary, moved)
    found = listed_shards(folder)
    lost = [shard.path for shard in shards if shard.path not in found]
    if lost and files.exists(_stage(temporary, paths[-1])):
        raise DataError(
            f"{files.join(folder, lost[0])}: found no file, expected the shard that was moved "
            "there. The dataset was not committed. Run again, without speculative execution."
        )
    _move(folder, temporary, paths[-1:])


def _move(folder: str, temporary: str, paths: Sequence[str]) -> None:
    """Moves files, or folders, of the temporary folder into the dataset."""
    file_changes.rename([(_stage(temporary, path), files.within(folder, path)) for path in paths])


def _set_aside(path: str, target: str) -> None:
    """Moves an old file or folder away, which is quicker than deletion."""
    try:
        file_changes.rename([(path, target)])
    except DataError:  # such as a folder in a lower layer of a container's filesystem
        file_changes.delete(path)


def write_description(
    plan: Plan,
    result: FirstPassResult,
    folder: str,
    started: float,
    stops: bool = False,
    stays: bool = True,
) -> None:
    """Writes the result of the first pass, without examples.

    These files are schema, statistics, anomalies, report and ``description.json``.

    Args:
      plan, result, folder, started: as in ``commit``.
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
    paths = write_listed(result.findings, folder)
    if stops:
        check_findings(result.findings, "the data do not pass", paths if stays else {})
    offenders, path = write_offenders(plan, result.anomalies, result.schema, folder, OFFENDERS)
    if stops and has_errors(result.anomalies):
        outcome = "the data do not pass"
        raise anomalies_error(
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


def _stage(temporary: str, path: str) -> str:
    """Returns the path of a file or part before it is moved.

    Stages of the job write to their final names; the other files are in ``STAGED``.
    """
    names = path.split("/")
    return files.join(temporary, *(() if names[0] in _STAGES_WRITE else (STAGED,)), *names)
