"""Statistics travel in pickles that name nothing but statistics."""

from __future__ import annotations

import builtins
import functools
import os
import pickle
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.analysis.statistics import messages, storage
from beam_pipelines.analysis.statistics.blocks import Columns
from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.plan import StatisticsPlan
from beam_pipelines.analysis.statistics.table import TableStatistics
from beam_pipelines.core.errors import DataError
from tests.analysis.statistics.support import VALUES_FOR_TYPE

STEPS = pa.list_(pa.list_(pa.int64()))
VALUES = VALUES_FOR_TYPE | {STEPS: st.lists(st.lists(st.integers(0, 9), max_size=3), max_size=3)}
NAMES = {str(number): kind for number, kind in enumerate(VALUES)}
SCHEMA = pa.schema([*NAMES.items(), ("weight", pa.float64())])
PLAN = StatisticsPlan(
    weight="weight", slice_by=("0",), categorical=("1",), lists=(str(len(VALUES) - 1),)
)
ROW = st.fixed_dictionaries(
    {name: st.none() | VALUES[kind] for name, kind in NAMES.items()}
    | {"weight": st.floats(0, 9, width=32)}
)


class Calls:
    """Is pickled as a call."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


@given(st.lists(ROW, max_size=9), st.booleans(), st.integers(1, 99))
def test_all_statistics_pass(rows: list[dict[str, Any]], plain: bool, columns: int) -> None:
    """Statistics of all types come back as they were, slices too."""
    plan = StatisticsPlan() if plain else PLAN
    table = TableStatistics.of(pa.RecordBatch.from_pylist(rows, SCHEMA), plan)
    blocks, _ = Columns(table.columns).blocks()
    message = messages.to_message((columns, table, blocks))
    found, loaded, loaded_blocks = messages.from_message(message, "a file")
    assert (found, repr(loaded_blocks)) == (columns, repr(blocks))
    assert storage.to_bytes(loaded, plan) == storage.to_bytes(table, plan)


def test_sketches_pass() -> None:
    """Statistics of more values than are kept come back as they were."""
    texts = pa.array(range(300_000)).cast(pa.string())
    table = TableStatistics.of(pa.record_batch({"a": texts, "b": range(300_000)}))
    assert table.columns["a"].values.value_counts.sketch is not None
    loaded = messages.from_message(messages.to_message(table), "a file")
    assert storage.to_bytes(loaded, PLAN) == storage.to_bytes(table, PLAN)


@pytest.mark.parametrize(
    "named",
    [
        os.system,
        subprocess.Popen,
        builtins.eval,
        functools.partial,
        pa.py_buffer,
        pa.array,
        ColumnStatistics.of,
        TableStatistics.merged,
        messages.from_message,
        StatisticsPlan,
    ],
    ids=lambda named: named.__qualname__,
)
def test_no_other_name_is_called(named: Any, tmp_path: Path) -> None:
    """Any other function or class is refused, and not called."""
    mark = tmp_path / "ran"
    data = pickle.dumps(Calls(named, f"touch {mark}"), pickle.HIGHEST_PROTOCOL)
    with pytest.raises(DataError, match=r"^/x/7: found UnpicklingError: the name '"):
        messages.from_message(data, "/x/7")
    assert not mark.exists()


@pytest.mark.parametrize("make", [ColumnStatistics, storage.counts_of])
def test_a_pickle_changes_no_class(make: Any) -> None:
    """The attributes of what it names stay."""
    state = pickle.dumps((None, {"merged": 1}), 2)[2:-1]
    data = b"\x80\x02c" + f"{make.__module__}\n{make.__qualname__}\n".encode() + state + b"b."
    with pytest.raises(DataError, match="expected statistics of this run"):
        messages.from_message(data, "a file")
    assert getattr(make, "merged", None) != 1


def test_damaged_statistics_are_an_error() -> None:
    """A cut at any place is an error with the file."""
    table = TableStatistics.of(pa.record_batch({"a": [1, 2], "b": ["x", "y"]}))
    data = messages.to_message((1, table))
    for end in range(len(data)):
        with pytest.raises(DataError, match=r"^a file: found .*, expected statistics of this run"):
            messages.from_message(data[:end], "a file")
