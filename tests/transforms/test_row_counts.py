"""transforms/row_counts.py notices every row, piece and range that is lost or comes twice."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pytest

from beam_pipelines.core.chunks import Piece, Receipt, Rejected
from beam_pipelines.core.errors import DataError
from beam_pipelines.pipeline.commit import check_written
from beam_pipelines.recipe.model import Join, OnError, Recipe, Source
from beam_pipelines.sources.plan import FileInfo, Range, SourcePlan
from beam_pipelines.transforms.rejected_rows import store_rejected
from beam_pipelines.transforms.row_counts import base_account
from beam_pipelines.transforms.write import ShardInfo

FILE = FileInfo("rows.csv", 100)
SOURCE = Source("rows", ("rows.csv",))
PLAN = SourcePlan(
    SOURCE, "csv", (FILE,), pa.schema([]), pa.schema([]), (Range(0, 0, FILE, 0, 50), Range(1, 1, FILE, 50, 100))
)
JOIN = Join("other", (("key", "key"),))
RECIPE = Recipe("test", {"rows": SOURCE}, "rows", join=(JOIN,))


def receipt(number: int, part: int = 0, rows: int = 10, **counts: int) -> Receipt:
    """Returns the receipt of a piece from which ``rows`` rows came into the train split."""
    return Receipt(number, part, {"read": 10, "rejected": 0, **counts}, {"train": rows}, "", number, "rows.csv")


GOOD = [receipt(1, 0, 8, filtered=4, **{"added/0": 2}), receipt(0, 1, 7, **{"dropped/0": 3}), receipt(0, 0)]


def test_every_row_is_accounted_for() -> None:
    """Read and added rows are written, filtered or dropped."""
    account = base_account(PLAN, GOOD, 1, ("train", "eval"))
    account.check(RECIPE)
    assert account.rows == {"train": 25, "eval": 0}
    assert (account.filtered, account.joins[0].dropped, account.joins[0].added) == (4, 3, 2)
    assert account.sources["rows"].fingerprints["rows.csv"].startswith("crc32c:")


def test_a_lost_row_fails_the_run() -> None:
    """One row fewer in a split does not add up."""
    lost = [*GOOD[:2], receipt(0, 0, 9)]
    with pytest.raises(DataError, match="32 rows came in and 31 went out"):
        base_account(PLAN, lost, 1, ("train",)).check(RECIPE)


@pytest.mark.parametrize(
    "receipts",
    [
        GOOD[1:],
        GOOD[:1],
        [*GOOD, GOOD[0]],
        GOOD[:2],
        [receipt(0), receipt(0, 2), receipt(1)],
        [receipt(0, 1), receipt(1)],
        [],
    ],
)
def test_a_lost_or_repeated_piece_fails_the_run(receipts: list[Receipt]) -> None:
    """Every range has parts 0, 1, …, each once."""
    with pytest.raises(DataError, match="pieces of 2 ranges arrived"):
        base_account(PLAN, receipts, 1, ("train",))


def test_too_many_rejected_rows_fail_with_examples(tmp_path: pathlib.Path) -> None:
    """The share is taken over the whole source, and the first bad rows are shown."""
    bad = Rejected("rows", "rows.csv", "line 7", "age", "found 'x', expected an integer", "x,1")
    stored = store_rejected(Piece(0, 0, pa.record_batch([]), {}, (bad,)), str(tmp_path))
    receipts = [receipt(0)._replace(counts={"read": 10, "rejected": 1}, rejected=stored), receipt(1)]
    account = base_account(PLAN, receipts, 0, ("train",))
    account.check(Recipe("test", {}, "rows", on_error=OnError(0.048)))
    with pytest.raises(DataError, match=r"1 of 21 rows are bad[^\n]*\n  rows.csv, line 7, column 'age': found 'x'"):
        account.check(Recipe("test", {}, "rows", on_error=OnError(0.047)))


@pytest.mark.parametrize("rows", [(13, 11), (25,), (25, 0, 0)])
def test_lost_records_and_shards_fail_the_run(rows: tuple[int, ...]) -> None:
    """The shards' rows are counted by the writers, and must be those of the account."""
    account = base_account(PLAN, GOOD, 1, ("train",))
    good = [ShardInfo("train", f"shard-{number}", count, 1, 1, 0) for number, count in enumerate((13, 12))]
    check_written(account, 2, good)
    shards = [ShardInfo("train", f"shard-{number}", count, 1, 1, 0) for number, count in enumerate(rows)]
    with pytest.raises(DataError, match="was not committed"):
        check_written(account, 2, shards)
    with pytest.raises(DataError, match="was not committed"):
        check_written(account, 2, [good[0], good[0]._replace(rows=12)])
