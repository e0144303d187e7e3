"""Generations of a dataset that runs append to.

Each has its rows in shards of its own; one manifest names all of them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from beam_pipelines.analysis.sampled_classes import merge_entries
from beam_pipelines.core.dataset_layout import ACCUMULATORS, INDEX, INPUTS, REJECTED
from beam_pipelines.core.shard_formats import SHARD_FOLDERS, files_of
from beam_pipelines.dataset.manifest import Manifest, read_manifest
from beam_pipelines.storage import file_changes, files

# A generation's own files, other than its shards, are in folders g2, g3 and so on of these.
_FOLDERS = (ACCUMULATORS, INDEX, REJECTED, INPUTS)
_SHARD = re.compile(r"-g(\d+)-\d+-of-\d+\.(tfrecord|parquet)")
_FOLDER = re.compile(r"g(\d+)")


def with_generation(manifest: Manifest, added: Manifest) -> Manifest:
    """Returns the manifest of a dataset with one more generation.

    Args:
      manifest: of the dataset before.
      added: of the generation, as if it were the whole dataset.
    """
    latest: tuple[str, ...] = ("recipe", "recipe_hash", "directory", "versions", "timings")
    latest += ("findings",) if "findings" in added else ()
    return (
        {key: value for key, value in manifest.items() if key != "findings"}
        | {key: added[key] for key in latest}
        | {
            "splits": {
                name: _total(split, added["splits"][name], "shards")
                for name, split in manifest["splits"].items()
            },
            "sources": {
                name: source
                | _total(source, added["sources"][name], "files")
                | _snapshot(source, added["sources"][name])
                for name, source in manifest["sources"].items()
            },
            "joins": [
                join | _total(join, more, "")
                for join, more in zip(manifest["joins"], added["joins"], strict=True)
            ],
            "counts": _total(manifest["counts"], added["counts"], ""),
            **_sampled(manifest, added),
            "generations": [*manifest["generations"], *added["generations"]],
        }
    )


def _total(entry: Mapping[str, Any], added: Mapping[str, Any], items: str) -> dict[str, Any]:
    """Returns the sums of two entries' numbers, and their joined items."""
    total = {key: value + added[key] for key, value in entry.items() if isinstance(value, int)}
    return total | ({items: [*entry[items], *added[items]]} if items else {})


def _sampled(manifest: Manifest, added: Manifest) -> dict[str, Any]:
    if "sample" not in manifest:
        return {}
    return {"sample": merge_entries(manifest["sample"], added["sample"])}


def _snapshot(source: Mapping[str, Any], added: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the later snapshot, with the rows of both reads.

    The decisions of the later read go with it.
    """
    if "snapshot" not in added:
        return {}
    rows = [each["snapshot"]["rows"] for each in (source, added)]
    total = None if None in rows else sum(rows)
    found = {"decisions": added["decisions"]} if "decisions" in added else {}
    return {"snapshot": {**added["snapshot"], "rows": total}} | found


def count_generations(manifest: Manifest) -> int:
    """Returns the number of a dataset's generations.

    0 if the manifest is older than generations.
    """
    return len(manifest.get("generations", ()))


def shards_of(
    shards: Sequence[Mapping[str, Any]], generation: int | None
) -> list[Mapping[str, Any]]:
    """Returns the entries of one generation's shards; ``None``: of all."""
    return [shard for shard in shards if generation in (None, shard.get("generation", 1))]


def left_behind(folder: str, manifest: Manifest) -> Iterator[str]:
    """Yields the paths of files that an interrupted append left.

    Their generation is not in the manifest.
    """
    known = {
        file["path"]
        for split in manifest["splits"].values()
        for shard in split["shards"]
        for file in files_of(shard)
    }
    generations = count_generations(manifest)
    shards = (files.list_files(files.join(folder, part, "*", "*")) for part in SHARD_FOLDERS)
    for listed in itertools.chain.from_iterable(shards):
        path = files.relative(listed.path, folder)
        found = _SHARD.search(path)
        if path not in known and found and int(found[1]) > generations:
            yield listed.path
    for part in _FOLDERS:
        for listed in files.list_files(files.join(folder, part, "g*", "*")):
            found = _FOLDER.fullmatch(files.relative(listed.path, folder).split("/")[1])
            if found and int(found[1]) > generations:
                yield listed.path


def remove_left_behind(folder: str) -> None:
    """Removes from a dataset what an interrupted append left.

    Readers of the manifest do not see those files.
    """
    for path in list(left_behind(folder, read_manifest(folder))):
        file_changes.delete(path)
