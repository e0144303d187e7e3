"""The commit: the last step of a conversion, which makes a dataset of what was written, or nothing."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines import files
from beam_pipelines.account import Account
from beam_pipelines.anomalies import anomalies_to_proto, describe
from beam_pipelines.class_names import LABELS, LABELS_FOLDER, label_files, label_names
from beam_pipelines.encode_plan import with_fitted
from beam_pipelines.encodings.store import load_encodings
from beam_pipelines.errors import DataError
from beam_pipelines.learn import Learned
from beam_pipelines.manifest import FILE_NAME, Manifest, make_manifest, write_manifest
from beam_pipelines.planning import Plan
from beam_pipelines.report import JoinSummary, Report, SourceSummary, SplitSummary, render_report
from beam_pipelines.schema import schema_to_text
from beam_pipelines.statistics.datasets import ACCUMULATORS, has_accumulators, read_accumulators, statistics_to_files
from beam_pipelines.validation import OFFENDERS, anomalies_error, has_errors, write_offenders
from beam_pipelines.write import ShardInfo

TEMPORARY = "_temporary"
DESCRIPTION = "description.json"
PARTS = (
    "examples",
    "schema",
    "statistics",
    ACCUMULATORS,
    "anomalies",
    "transform_graph",
    "rejected",
    "report.html",
    LABELS,
    LABELS_FOLDER,
)
TRANSFORM_GRAPH = "transform_graph"
ENCODINGS = "transform_graph/encodings"  # what was fitted, as encodings.store keeps it
RAW_SCHEMA = "schema/schema.pbtxt"
ENCODED_SCHEMA = "transform_graph/transformed_metadata/schema.pbtxt"
# Beside it: tensorflow-transform knows no feature lists, and reads the one without them.
SEQUENCE_SCHEMA = "transform_graph/transformed_metadata/sequence_schema.pbtxt"


def commit(
    plan: Plan,
    learned: Learned,
    shards: Sequence[ShardInfo],
    folder: str,
    started: float,
) -> None:
    """Checks that nothing was lost, moves the shards into place and writes everything else, the manifest last.

    It can be repeated: what an earlier attempt has moved stays where it is.

    Args:
      plan: of the conversion.
      learned: from the first read.
      shards: all shards, as they were written under ``folder/_temporary``.
      folder: the dataset.
      started: when the run started, in seconds since 1970.

    Raises:
      DataError: rows were lost, or the input changed during the run.
    """
    check_unchanged(plan)
    check_written(learned.account, learned.shards.num_shards, shards)
    _remove_earlier(folder, shards)
    temporary = files.join(folder, TEMPORARY)
    files.rename([(_under(temporary, path), _under(folder, path)) for path in _written(temporary, shards)])
    _write_learned(plan, learned, shards, folder, FILE_NAME, started)
    files.delete(temporary)


def write_description(
    plan: Plan, learned: Learned, folder: str, started: float, stops: bool = False, stays: bool = True
) -> None:
    """Writes what the first read taught, without any examples: schema, statistics, anomalies, report, description.json.

    Args:
      plan, learned, folder, started: as of ``commit``.
      stops: whether anomalies that were not accepted fail the run.
      stays: whether the folder stays, so that an error may name what is in it.

    Raises:
      DataError: there are such anomalies, and they are to fail the run.
    """
    _write_learned(plan, learned, (), folder, DESCRIPTION, started)
    offenders, path = write_offenders(plan, learned.anomalies, learned.schema, folder, OFFENDERS)
    if stops and has_errors(learned.anomalies):
        outcome = "the data do not pass"
        raise anomalies_error(learned.anomalies, plan.contract_path, outcome, offenders, path if stays else "")


def check_unchanged(plan: Plan) -> None:
    """Checks that no file was written to since the run was planned.

    Raises:
      DataError: names the first file that was.
    """
    planned = [(file.archive or file.path, file) for source in plan.sources.values() for file in source.files]
    dates = files.modified_secs(dict.fromkeys(path for path, _ in planned))
    for path, file in planned:
        if dates[path] != file.modified_secs:
            raise DataError(
                f"{file.path}: the file changed during the run; nothing was written. Run again when it is complete."
            )


def check_written(account: Account, num_shards: int, shards: Sequence[ShardInfo]) -> None:
    """Checks that every row of every split was written, once.

    Raises:
      DataError: the rows in the shards are not those of the account.
    """
    written = dict.fromkeys(account.rows, 0)
    for shard in shards:
        written[shard.split] += shard.rows
    if (
        written != dict(account.rows)
        or len({shard.path for shard in shards}) != num_shards
        or len(shards) != num_shards
    ):
        raise DataError(
            f"{len(shards)} of {num_shards} shards hold {written} rows, expected {dict(account.rows)}. The runner lost or repeated "
            "some; the dataset was not committed. Run again, with --direct_num_workers=1 if it was a local run, and report it."
        )


def _write_learned(
    plan: Plan, learned: Learned, shards: Sequence[ShardInfo], folder: str, manifest_name: str, started: float
) -> None:
    """Writes schema, statistics, anomalies, rejected rows and report to their places, and then the manifest."""
    _write(folder, RAW_SCHEMA, schema_to_text(learned.schema))
    for path, content in statistics_to_files(learned.statistics, plan.statistics):
        _write(folder, path, content)
    expected = learned.schema if plan.contract is None else schema_pb2.Schema.FromString(plan.contract)
    for name, anomalies in anomalies_to_proto(learned.anomalies, expected).items():
        _write(folder, f"anomalies/Split-{name}/SchemaDiff.pb", anomalies.SerializeToString(deterministic=True))
    for name, source in learned.account.sources.items():
        if source.rejected_rows:
            lines = [json.dumps(rejected._asdict(), ensure_ascii=False) for rejected in source.rejected_rows]
            _write(folder, f"rejected/{name}.jsonl", "\n".join(lines) + "\n")
    schema = ENCODED_SCHEMA if learned.encoded is not None else RAW_SCHEMA
    if learned.encoded is not None and plan.encode.lists:
        schema = SEQUENCE_SCHEMA
        _write(folder, SEQUENCE_SCHEMA, schema_to_text(learned.encoded))
    timings = {"total_secs": round(time.time() - started, 3)}
    columns, labels = plan.encode.columns, plan.labels | _vocabulary_of_label(plan, learned, folder)
    for path, text in label_files(labels, plan.recipe.label).items():
        _write(folder, path, text)
    encodings = None if learned.encoded is None else _fingerprint_of_encodings(plan, folder)
    manifest = make_manifest(
        plan.recipe, plan.sources, learned.account, shards, schema, columns, labels, encodings, timings
    )
    _write(folder, "report.html", render_report(_report(plan, learned, manifest)))
    write_manifest(folder, manifest, manifest_name)


def _vocabulary_of_label(plan: Plan, learned: Learned, folder: str) -> dict[str, tuple[str, ...]]:
    """Returns label -> its class names, by id, if a vocabulary has learned them."""
    if not learned.fitted or plan.preprocessing is not None:
        return {}
    fitted = with_fitted(plan.encode, load_encodings(files.join(folder, *ENCODINGS.split("/"))))
    return label_names(fitted, plan.recipe.label)


def _fingerprint_of_encodings(plan: Plan, folder: str) -> str:
    """Returns what two datasets have in common if the same value is the same number in both."""
    # What a preprocessing_fn has learned lies in the graph alone.
    learned = files.join(folder, *(ENCODINGS if plan.preprocessing is None else TRANSFORM_GRAPH).split("/"))
    digest = hashlib.sha256()
    for file in files.list_files(files.join(learned, "**")):
        size, crc = files.size_and_crc32c(file.path)
        digest.update(f"{files.relative(file.path, learned)}:{size}:{crc:08x}\n".encode())
    return f"sha256:{digest.hexdigest()}"


def _written(temporary: str, shards: Sequence[ShardInfo]) -> list[str]:
    """Returns what is to be moved, relative to the dataset: the shards, and all files of the transform graph."""
    graph = files.list_files(files.join(temporary, TRANSFORM_GRAPH, "**"))
    return [*(shard.path for shard in shards), *(files.relative(file.path, temporary) for file in graph)]


def _report(plan: Plan, learned: Learned, manifest: Manifest) -> Report:
    account, recipe, baseline = learned.account, plan.recipe, plan.gate.baseline_path
    splits = {
        name: SplitSummary(split["rows"], tuple(shard["bytes"] for shard in split["shards"]))
        for name, split in manifest["splits"].items()
    }
    sources = [
        SourceSummary(
            name, len(source.files), source.size_bytes, account.sources[name].read, account.sources[name].rejected
        )
        for name, source in plan.sources.items()
    ]
    joins = [
        JoinSummary(
            step.join.source,
            step.join.how,
            step.strategy,
            ", ".join(left if left == right else f"{left} = {right}" for left, right in step.join.on),
            counts.matched,
            counts.unmatched + counts.dropped,
            counts.dropped,
            counts.added,
        )
        for step, counts in zip(plan.joins.steps, account.joins, strict=True)
    ]
    return Report(
        recipe.name,
        recipe.base,
        splits,
        sources,
        joins,
        describe(learned.anomalies),
        learned.statistics,
        filter=recipe.filter or "",
        filtered=account.filtered,
        label=recipe.label,
        rejected=[row for source in account.sources.values() for row in source.rejected_rows],
        images=learned.images,
        baseline=read_accumulators(baseline).splits if baseline and has_accumulators(baseline) else {},
    )


def _remove_earlier(folder: str, shards: Sequence[ShardInfo]) -> None:
    """Removes an earlier dataset, its manifest first; but not shards of this run, which an earlier attempt has moved."""
    files.delete(files.join(folder, FILE_NAME))
    files.delete(files.join(folder, DESCRIPTION))
    temporary = files.join(folder, TEMPORARY)
    written = {
        files.relative(file.path, temporary) for file in files.list_files(files.join(temporary, "examples", "**"))
    }
    if written.issuperset(shard.path for shard in shards):
        for part in PARTS:
            files.delete(files.join(folder, part))


def _under(folder: str, path: str) -> str:
    return files.join(folder, *path.split("/"))


def _write(folder: str, path: str, content: str | bytes) -> None:
    files.write_bytes(_under(folder, path), content.encode() if isinstance(content, str) else content)
