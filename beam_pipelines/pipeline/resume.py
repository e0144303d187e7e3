"""Finished shards of an interrupted run, for a run that resumes it.

A shard's bytes follow from the recipe, its inputs and this package's version. So each shard that
was written and read back is noted under a key of these. A run that finds notes with its own key,
and files that match them, does not write these shards again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.dataset_layout import INDEX
from beam_pipelines.core.layout.shard_formats import SHARD_FOLDERS, part_compression_of
from beam_pipelines.core.version import __version__
from beam_pipelines.files.beam import file_changes, file_checksums, files, listing
from beam_pipelines.pipeline.first_pass_result import FirstPassResult
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.recipe.normal_form import recipe_hash
from beam_pipelines.transforms.shards import read_own_index
from beam_pipelines.transforms.write import ShardInfo

# Names in the temporary folder: the notes, and also their shards with the indexes of these.
FINISHED = "finished"
KEPT = (FINISHED, *SHARD_FOLDERS, INDEX)


def run_key(plan: Plan, result: FirstPassResult) -> str:
    """Returns the key of runs that write the same shards.

    Its 64 hexadecimal digits cover path, size, date and fingerprint of every input file. A file
    with a new date counts as changed.
    """
    own = plan.preprocessing.source if plan.preprocessing else ""
    parts = [__version__, recipe_hash(plan.recipe), str(plan.recipe.date), own, str(result.encoded)]
    parts += [] if plan.take is None else [str(plan.take)]
    parts += [
        file_checksums.folder_fingerprint(folder)
        for folder in (result.fitted, result.analyzed)
        if folder
    ]
    for name, source in sorted(plan.sources.items()):
        prints = result.row_counts.sources[name].fingerprints
        parts += [
            f"{name} {file.path} {file.size_bytes} {file.modified_secs}" for file in source.files
        ]
        parts += [f"{name} {path} {prints[path]}" for path in sorted(prints)]
        if source.snapshot is not None and source.snapshot.table:
            # Another version may have the same files, and other deleted rows.
            parts.append(f"{name} {source.snapshot.table} {source.snapshot.id}")
    digest = hashlib.sha256("\n".join(parts).encode())
    for split in result.shards.splits.values():
        digest.update(
            f"{split.name} {split.rows} {split.num_shards} {split.partitions_per_shard}\n".encode()
        )
        digest.update(split.offsets.rows.tobytes())
    return digest.hexdigest()


def note_finished(shard: ShardInfo, key: str, temporary: str) -> ShardInfo:
    """Notes that a shard was written and read back, and returns it."""
    path = files.join(temporary, FINISHED, f"{files.name_of(shard.path)}.{shard.split}.json")
    files.write_bytes(path, json.dumps({"key": key, **shard._asdict()}).encode())
    return shard


def find_finished(key: str, temporary: str) -> Iterator[ShardInfo]:
    """Yields the shards that were noted under a key, ordered by path."""
    shards = []
    for listed in listing.list_files(files.join(temporary, FINISHED, "*.json")):
        try:
            note = json.loads(files.read_bytes(listed.path))
            found = note.pop("key")
            shard = ShardInfo(**note)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # cut off: an object store may keep the first part of a killed upload
        if found == key:
            shards.append(shard)
    yield from sorted(shards, key=lambda shard: shard.path)


def check_finished(shard: ShardInfo, temporary: str) -> Iterator[ShardInfo]:
    """Yields a shard if its file matches its note and its index."""
    path = files.within(temporary, shard.path)
    try:
        read_own_index(shard.indexed(), part_compression_of(shard.path), temporary)
        found = files.exists(path) and file_checksums.size_and_crc32c(path)
    except (OSError, DataError):
        return
    if found == (shard.bytes, shard.crc32c):
        yield shard


def clear_temporary(temporary: str, keeps: bool) -> int:
    """Deletes the files that runs have left in a temporary folder.

    Args:
      temporary: the folder.
      keeps: whether finished shards and their notes stay.

    Returns:
      How many notes stay.
    """
    notes = listing.list_files(files.join(temporary, FINISHED, "*.json")) if keeps else []
    if not notes:
        file_changes.delete(temporary)
        return 0
    for name in listing.names_in(temporary):
        if name not in KEPT:
            file_changes.delete(files.join(temporary, name))
    return len(notes)
