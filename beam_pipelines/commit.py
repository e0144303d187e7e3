"""The commit: the last step of a conversion, which makes a dataset of what was written, or nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

from beam_pipelines import files
from beam_pipelines.account import Account
from beam_pipelines.anomalies import anomalies_to_proto, describe
from beam_pipelines.errors import DataError
from beam_pipelines.learn import Learned
from beam_pipelines.manifest import FILE_NAME, Manifest, make_manifest, write_manifest
from beam_pipelines.pieces import Receipt
from beam_pipelines.planning import Plan
from beam_pipelines.report import JoinSummary, Report, SourceSummary, SplitSummary, render_report
from beam_pipelines.schema import schema_to_text
from beam_pipelines.statistics import to_proto
from beam_pipelines.write import ShardInfo

TEMPORARY = "_temporary"
DESCRIPTION = "description.json"
PARTS = ("examples", "schema", "statistics", "anomalies", "transform_graph", "rejected", "report.html")
RAW_SCHEMA = "schema/schema.pbtxt"
ENCODED_SCHEMA = "transform_graph/transformed_metadata/schema.pbtxt"


def commit(
    plan: Plan,
    learned: Learned,
    first: Sequence[Receipt],
    second: Sequence[Receipt],
    shards: Sequence[ShardInfo],
    folder: str,
    started: float,
) -> None:
    """Checks that nothing was lost, moves the shards into place and writes everything else, the manifest last.

    It can be repeated: what an earlier attempt has moved stays where it is.

    Args:
      plan: of the conversion.
      learned: from the first read.
      first, second: the receipts of both reads.
      shards: all shards, as they were written under ``folder/_temporary``.
      folder: the dataset.
      started: when the run started, in seconds since 1970.

    Raises:
      DataError: rows were lost, or the input changed between the reads.
    """
    check_reads_agree(first, second)
    check_unchanged(plan)
    check_written(learned.account, learned.shards.num_shards, shards)
    _remove_earlier(folder, shards)
    temporary = files.join(folder, TEMPORARY)
    files.rename([(_under(temporary, shard.path), _under(folder, shard.path)) for shard in shards])
    _write_learned(plan, learned, shards, folder, FILE_NAME, started)
    files.delete(temporary)


def write_description(plan: Plan, learned: Learned, folder: str, started: float) -> None:
    """Writes what the first read taught, without any examples: schema, statistics, anomalies, report, description.json."""
    _write_learned(plan, learned, (), folder, DESCRIPTION, started)


def check_reads_agree(first: Sequence[Receipt], second: Sequence[Receipt]) -> None:
    """Checks that both reads saw the same: same pieces, same rows, same bytes.

    Raises:
      DataError: names the file where they differ first.
    """
    before = {(receipt.range_number, receipt.part): receipt for receipt in first}
    for receipt in sorted(second, key=lambda receipt: (receipt.range_number, receipt.part)):
        earlier = before.pop((receipt.range_number, receipt.part), None)
        if earlier is None or (earlier.rows, earlier.crc32c, earlier.counts) != (
            receipt.rows,
            receipt.crc32c,
            receipt.counts,
        ):
            raise DataError(
                f"{receipt.path}: the second read found something else than the first ({receipt.rows} against "
                f"{earlier.rows if earlier else 'nothing'}). The file changed during the run; nothing was written. Run again "
                "when it is complete."
            )
    if before:
        raise DataError(
            f"the second read lacks {len(before)} pieces of the first; nothing was written. Run again, and report it."
        )


def check_unchanged(plan: Plan) -> None:
    """Checks that no file of a right source was written to since the run was planned.

    Their content is not compared between the reads, as that of the base source is; so their dates are.

    Raises:
      DataError: names the first file that was.
    """
    for name, source in plan.sources.items():
        for file in source.files if name != plan.recipe.base else ():
            if files.modified_secs(file.path) != file.modified_secs:
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
    for name, statistics in to_proto(learned.statistics).items():
        _write(folder, f"statistics/Split-{name}/FeatureStats.pb", statistics.SerializeToString(deterministic=True))
    for name, anomalies in anomalies_to_proto(learned.anomalies, learned.schema).items():
        _write(folder, f"anomalies/Split-{name}/SchemaDiff.pb", anomalies.SerializeToString(deterministic=True))
    if learned.encoded is not None:
        _write(folder, "transform_graph/metadata/schema.pbtxt", schema_to_text(learned.schema))
        _write(folder, ENCODED_SCHEMA, schema_to_text(learned.encoded))
    for name, source in learned.account.sources.items():
        if source.rejected_rows:
            lines = [json.dumps(rejected._asdict(), ensure_ascii=False) for rejected in source.rejected_rows]
            _write(folder, f"rejected/{name}.jsonl", "\n".join(lines) + "\n")
    schema = ENCODED_SCHEMA if learned.encoded is not None else RAW_SCHEMA
    timings = {"total_secs": round(time.time() - started, 3)}
    manifest = make_manifest(plan.recipe, plan.sources, learned.account, shards, schema, timings)
    _write(folder, "report.html", render_report(_report(plan, learned, manifest)))
    write_manifest(folder, manifest, manifest_name)


def _report(plan: Plan, learned: Learned, manifest: Manifest) -> Report:
    account = learned.account
    splits = {
        name: SplitSummary(split["rows"], len(split["shards"]), split["bytes"])
        for name, split in manifest["splits"].items()
        if split["shards"]
    }
    sources = [
        SourceSummary(
            name, len(source.files), source.size_bytes, account.sources[name].read, account.sources[name].rejected
        )
        for name, source in plan.sources.items()
    ]
    joins = [
        JoinSummary(step.join.source, step.join.how, step.strategy, counts.matched, counts.unmatched + counts.dropped)
        for step, counts in zip(plan.joins.steps, account.joins, strict=True)
    ]
    return Report(
        plan.recipe.name, splits, sources, joins, describe(learned.anomalies), learned.statistics, account.filtered
    )


def _remove_earlier(folder: str, shards: Sequence[ShardInfo]) -> None:
    """Removes an earlier dataset, its manifest first; but not shards of this run, which an earlier attempt has moved."""
    files.delete(files.join(folder, FILE_NAME))
    files.delete(files.join(folder, DESCRIPTION))
    temporary = files.join(folder, TEMPORARY)
    if all(files.exists(_under(temporary, shard.path)) for shard in shards):
        for part in PARTS:
            files.delete(files.join(folder, part))


def _under(folder: str, path: str) -> str:
    return files.join(folder, *path.split("/"))


def _write(folder: str, path: str, content: str | bytes) -> None:
    files.write_bytes(_under(folder, path), content.encode() if isinstance(content, str) else content)
