"""Plans an append: converts a source's new files into an existing dataset.

Encodings, types and schema are the dataset's; nothing is fitted or inferred again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tensorflow_metadata.proto.v0 import anomalies_pb2

from beam_pipelines.analysis.anomalies.policy import Override
from beam_pipelines.analysis.schema import read_schema
from beam_pipelines.analysis.statistics.datasets import read_accumulators
from beam_pipelines.analysis.statistics.view import proto_of
from beam_pipelines.core.dataset_layout import (
    ACCUMULATORS,
    MANIFEST,
    RAW_SCHEMA,
    RAW_SCHEMA_FOLDER,
    TRANSFORM_GRAPH,
)
from beam_pipelines.core.errors import DataError, Problem, RecipeProblems, mask
from beam_pipelines.dataset.checked_files import check_files
from beam_pipelines.dataset.generations import count_generations
from beam_pipelines.dataset.manifest import Manifest, read_manifest
from beam_pipelines.pipeline.planning.plan import Append, Plan, RunPlan, Validation
from beam_pipelines.pipeline.planning.policy import read_contract
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.pipeline.planning.transform import as_in_dataset, check_columns
from beam_pipelines.recipe.model import Recipe, Sequences
from beam_pipelines.recipe.normal_form import normalised
from beam_pipelines.sources import format_of
from beam_pipelines.sources.file_list import files_from_bytes
from beam_pipelines.sources.plan import FileInfo, SourcePlan
from beam_pipelines.sources.planner import with_files
from beam_pipelines.storage import files
from beam_pipelines.storage.input_roots import only_below
from beam_pipelines.transforms.protect import with_fingerprints
from beam_pipelines.transforms.read import fingerprint_files
from beam_pipelines.transforms.split import by_file

# Options of reading, checking and packing; they do not shape the rows.
_NOT_OF_ROWS = ("on_error", "limits", "schema", "validation_config")
_NOT_OF_RECORDS = (
    "shard_size",
    "num_shards",
    "shards_multiple_of",
    "level",
    "part_size",
    "shuffle",
    "shuffle_seed",
    "serving",
)
# Where the base source is; its new files or snapshot may be elsewhere.
_OF_PLACE = ("path", "version", "snapshot_id", "as_of")
# The string domain of an inferred schema has the strings of earlier files only.
_ALLOWED_OF_INFERRED = (
    Override(anomalies_pb2.AnomalyInfo.ENUM_TYPE_UNEXPECTED_STRING_VALUES, None, is_accepted=True),
)


def appends(recipe: Recipe, output: str) -> bool:
    """Whether a run that does not overwrite adds to a dataset.

    It does if the recipe says so and the folder has a dataset.
    """
    return recipe.append and files.exists(files.join(output, MANIFEST))


def plan_append(recipe: Recipe, dataset: str, input_roots: Sequence[str] = ()) -> Plan:
    """Plans to convert a source's new files into new shards.

    The plan has no files if there are no new ones. Types of columns, encodings and schema are the
    dataset's. Its statistics are the baseline of the schema's drift comparators. If the schema was
    inferred, new strings are accepted and added to their domain, as if all files were converted at
    once.

    Args:
      recipe: of the dataset; options that do not shape its rows may differ.
      dataset: its folder.
      input_roots: as in ``make_plan``.

    Raises:
      RecipeProblems: the recipe differs from the dataset's.
      RecipeError: the new files have other columns.
      DataError: there is no dataset, or its files have changed.
    """
    manifest = read_manifest(dataset)
    check_files(dataset, manifest, RAW_SCHEMA_FOLDER, ACCUMULATORS, TRANSFORM_GRAPH)
    if not count_generations(manifest):
        raise DataError(
            f"{files.join(dataset, MANIFEST)}: found no generations, expected a dataset of a "
            "version that can be appended to. Convert "
            "again with --overwrite."
        )
    if "taken" in manifest:
        raise DataError(
            f"{dataset}: found a dataset that was made with --limit or --sample, expected one of "
            "all rows to append to. Convert again with --overwrite."
        )
    sequence = manifest["recipe"]["sequence"]
    if recipe.sources[recipe.base].planning.keeps_steps and recipe.sequence is None and sequence:
        recipe = dataclasses.replace(recipe, sequence=Sequences(tuple(sequence["features"])))
    with only_below(input_roots):
        recipe_contract = read_contract(recipe.schema, recipe.directory)
        protect = with_fingerprints(recipe.protect, recipe.directory)
    recipe = dataclasses.replace(recipe, protect=protect)
    _check_recipe(recipe, recipe_contract, manifest, dataset)
    schema_path = files.absolute(files.within(dataset, RAW_SCHEMA))
    contract: bytes = read_schema(schema_path).SerializeToString()
    sources = {
        name: as_in_dataset(source, manifest["sources"].get(name))
        for name, source in recipe.sources.items()
    }
    of_dataset = dataclasses.replace(recipe, sources=sources, schema=None)
    plan = make_plan(of_dataset, None if recipe.schema is None else contract, input_roots)
    check_columns(dataset, manifest["columns"], plan.encode.columns)
    base = _added(dataset, manifest, plan.base, recipe.directory)
    if base.files:
        base = by_file(plan.split, with_files(base, base.files))
    generation, split = count_generations(manifest) + 1, plan.split
    if split.sample is not None:
        split = dataclasses.replace(split, sample=split.sample.of_generation(generation))
    graph = files.join(dataset, TRANSFORM_GRAPH)
    before = read_accumulators(dataset)
    allowed = () if recipe.schema is not None else _ALLOWED_OF_INFERRED
    policy = dataclasses.replace(
        plan.policy,
        baseline={name: proto_of(table) for name, table in before.splits.items()},
        baseline_path=dataset,
        overrides=(*allowed, *plan.policy.overrides),
    )
    return dataclasses.replace(
        plan,
        recipe=dataclasses.replace(of_dataset, schema=schema_path),
        sources={**plan.sources, recipe.base: base},
        statistics=before.plan,
        validation=Validation(contract, policy),
        split=split,
        run=RunPlan(
            Append(generation, recipe),
            transform_graph=graph if files.list_files(files.join(graph, "**")) else "",
        ),
    )


def _added(dataset: str, manifest: Manifest, base: SourcePlan, directory: str) -> SourcePlan:
    """Returns the plan of the files that a dataset lacks, without ranges."""
    added = format_of(base).added(base, manifest["sources"][base.source.name])
    if added is not None:
        return added
    return dataclasses.replace(base, files=new_files(dataset, manifest, base, directory), ranges=())


def _check_recipe(recipe: Recipe, contract: bytes | None, manifest: Manifest, dataset: str) -> None:
    """Checks that a recipe makes the rows of a dataset.

    Raises:
      RecipeProblems: one problem for each part of the recipe that differs.
    """
    found, expected = (
        _of_rows(normalised(recipe), recipe.base),
        _of_rows(manifest["recipe"], recipe.base),
    )
    cure = "Change it back, or convert everything anew with --overwrite."
    problems = [
        Problem(
            (name,),
            f"found another '{name}' than the dataset in {dataset} was made by, with 'append'. "
            f"{cure}",
        )
        for name in dict.fromkeys([*found, *expected])
        if found.get(name) != expected.get(name)
    ]
    fingerprint = contract and f"sha256:{hashlib.sha256(contract).hexdigest()}"
    if fingerprint != manifest.get("contract"):
        message = (
            f"found another schema than the dataset in {dataset} was made by, with 'append', where "
            "the dataset's own holds, "
            f"{RAW_SCHEMA}. Accept what is new with --allow_anomalies, or convert everything anew "
            "with --overwrite."
        )
        problems.append(Problem(("schema",), message))
    if problems:
        raise RecipeProblems(problems)


def _of_rows(recipe: Mapping[str, Any], base: str) -> dict[str, Any]:
    """Returns the parts of a normalised recipe that shape its rows.

    Derived columns and encodings are lists, because their order matters.
    """
    kept = {key: value for key, value in recipe.items() if key not in _NOT_OF_ROWS}
    kept["output"] = {
        key: value for key, value in recipe["output"].items() if key not in _NOT_OF_RECORDS
    }
    # Files are compared in new_files, snapshots in plan_added; the types are the dataset's.
    kept["sources"] = {
        name: {
            key: list(value.items()) if key == "derive" else value
            for key, value in source.items()
            if key != "infer" and not (name == base and key in _OF_PLACE)
        }
        for name, source in recipe["sources"].items()
    }
    kept["join"] = [
        {key: value for key, value in join.items() if key != "strategy"} for join in recipe["join"]
    ]
    for name in ("derive", "encode"):
        kept[name] = list(recipe[name].items())
    # The manifest's recipe was stored as JSON.
    return {key: _plain(value) for key, value in kept.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


_SHOWN = 5
_CURE = "Put it back, or convert everything anew with --overwrite."


class _Known(NamedTuple):
    """Files of a dataset that have one fingerprint.

    They are one file, or small files that were read together.

    Attributes:
      generation: number of the generation that read them.
      fingerprint: of their content.
      files: their sizes and dates then, by ``file_key``.
    """

    generation: int
    fingerprint: str
    files: Mapping[str, FileInfo]


def new_files(
    dataset: str, manifest: Manifest, plan: SourcePlan, directory: str
) -> tuple[FileInfo, ...]:
    """Returns the files of a source that a dataset lacks, in order.

    A file of the same size and date counts as the same. A file with another date is read and
    compared by its fingerprint.

    Args:
      dataset: its folder.
      manifest: of the dataset.
      plan: the source with all its files now.
      directory: where the recipe's relative paths start.

    Raises:
      DataError: a file of the dataset has changed or is missing; lists the first ones.
    """
    now = {file_key(file.path, directory): file for file in plan.files}
    known = list(_known_files(dataset, manifest, plan.source.name))
    wrong: list[str] = []
    for group in known:
        problems = [
            problem
            for key, file in group.files.items()
            if (problem := _difference(file, now.get(key)))
        ]
        if not problems:
            problems = _changed_contents(group, now, plan)
        wrong += problems
    if wrong:
        more = f"\n  and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
        raise DataError(
            f"{dataset}: {len(wrong):,} file(s) of source '{plan.source.name}' are not as when "
            "they were converted, expected that files "
            f"are only added with 'append'. {_CURE}\n"
            + "\n".join(f"  {line}" for line in wrong[:_SHOWN])
            + more
        )
    there = {key for group in known for key in group.files}
    return tuple(file for key, file in now.items() if key not in there)


def file_key(path: str, directory: str) -> str:
    """Returns a file's path relative to the recipe's folder, its key.

    So a dataset and its recipe can move together. A file that the recipe names by an absolute path
    or a URL keeps it.
    """
    if not files.is_local(path):
        path, directory = mask(path), mask(directory)  # as in the manifest
        return (
            files.relative(path, directory)
            if directory and path.startswith(directory.rstrip("/") + "/")
            else path
        )
    here = os.path.abspath(directory or os.curdir)
    there = os.path.abspath(path)
    is_relative = not os.path.isabs(path) or (
        directory and path.startswith(os.path.join(directory, ""))
    )
    return (
        os.path.relpath(there, here)
        if is_relative or there.startswith(os.path.join(here, ""))
        else there
    )


def _known_files(dataset: str, manifest: Manifest, source: str) -> Iterator[_Known]:
    """Yields the files of a source that a dataset was made of.

    Raises:
      DataError: a list of files is missing or damaged.
    """
    for generation in manifest["generations"]:
        number, listed = generation["number"], generation["sources"][source].get("list")
        entries = [
            entry for entry in manifest["sources"][source]["files"] if entry["generation"] == number
        ]
        found = [_listed(entry) for entry in entries if "modified" in entry]
        if listed is not None:
            path = files.within(dataset, listed)
            found = list(files_from_bytes(files.read_bytes(path), path))
        start = 0
        for entry in entries:
            own = found[start : start + entry.get("files", 1)]
            start += len(own)
            yield _Known(
                number,
                entry["fingerprint"],
                {file_key(file.path, generation["directory"]): file for file in own},
            )


def _listed(entry: Mapping[str, Any]) -> FileInfo:
    return FileInfo(entry["path"], entry["bytes"], entry["modified"])


def _difference(before: FileInfo, now: FileInfo | None) -> str:
    """Returns how a file's size differs, or an empty text."""
    if now is None:
        return f"{before.path}: found nothing, expected {before.size_bytes:,} bytes"
    if now.size_bytes != before.size_bytes:
        return f"{now.path}: found {now.size_bytes:,} bytes, expected {before.size_bytes:,}"
    return ""


def _changed_contents(group: _Known, now: Mapping[str, FileInfo], plan: SourcePlan) -> list[str]:
    """Reads files with another date, and returns their differences."""
    written = [
        now[key].path
        for key, file in group.files.items()
        if now[key].modified_secs != file.modified_secs
    ]
    if not written:
        return []
    chosen: Sequence[FileInfo] = [now[key] for key in group.files]
    found = fingerprint_files(with_files(plan, chosen, together=len(chosen) > 1)).get(
        chosen[0].path, ""
    )
    if found == group.fingerprint:
        return []
    shown = " or ".join(written[:_SHOWN]) + (" or another" if len(written) > _SHOWN else "")
    return [f"{shown}: found other content than then ({found}, expected {group.fingerprint})"]
