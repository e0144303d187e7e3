"""Many bad rows have the errors of each one alone.

The cost is small.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beam_pipelines.core.chunks import ROW, Chunk
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.sql import expressions
from beam_pipelines.transforms import read
from beam_pipelines.transforms.select.errors import SelectError
from beam_pipelines.transforms.select.reject import Checks, select_good
from beam_pipelines.transforms.select.select import plan_select, select_rows
from tests.sources.support import plan_of, write

pytestmark = pytest.mark.end_to_end

SCHEMA = pa.schema([("t", pa.string()), ("v", pa.float64()), ("w", pa.list_(pa.int64()))])
FILTERS = [
    None,
    "t <> '2'",
    "CAST(t AS BIGINT) <> 1",
    "CASE WHEN v = 0 THEN true ELSE CAST(t AS INTEGER) > 0 END",
]
DERIVED = [
    {},
    {"n": "CAST(t AS BIGINT)", "m": "n + 9223372036854775807"},
    {"n": "CAST(t AS DATE)"},
    {"n": "CAST(v AS TINYINT)", "m": "CAST(t AS INTEGER) // n"},
    {"n": "CAST(w[1] AS TINYINT)"},
    {"n": "CAST(TRY_CAST(t AS HUGEINT) * 4611686018427387904 * 4 AS HUGEINT)"},
    {"n": "sqrt(v)", "m": "CASE WHEN length(t) > 1 THEN CAST(t AS BIGINT) END"},
]
ROWS = st.tuples(
    st.sampled_from(["1", "2", "x", "", "n/a", "2013-01-31", "9" * 30, None]),
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 300.0, float("nan"), None]),
    st.sampled_from([[1], [300], [], None]),
)


def checks_of(condition: str | None, derive: dict[str, str]) -> Checks:
    """Returns the checks of some expressions."""
    recipe = Recipe("a", {}, "a", filter=condition, derive=derive)
    return Checks(plan_select(recipe, SCHEMA), None)


def chunk_of(rows: list[tuple[object, ...]], numbers: list[int]) -> Chunk:
    """Returns a chunk of rows with these numbers."""
    columns = [
        pa.array(values, field.type)
        for field, values in zip(SCHEMA, zip(*rows, strict=True), strict=True)
    ]
    batch = pa.RecordBatch.from_arrays([*columns, pa.array(numbers)], names=[*SCHEMA.names, ROW])
    return Chunk(0, 0, batch, {"read": len(rows)})


@given(
    st.lists(ROWS, min_size=1, max_size=12),
    st.sampled_from(FILTERS),
    st.sampled_from(DERIVED),
    st.integers(1, 3),
)
@example([("x", -0.0, None), ("1", 0.0, None)], None, DERIVED[3], 1)
def test_rows_without_a_value_are_those_that_fail_alone(
    rows: list[tuple[object, ...]], condition: str | None, derive: dict[str, str], copies: int
) -> None:
    """The rows, errors and the selected rest are those of single evaluation."""
    checks = checks_of(condition, derive)
    chunk = chunk_of(rows, [row // copies for row in range(len(rows))])
    expected: dict[int, tuple[str, str]] = {}
    for row in range(len(rows)):
        try:
            select_rows(checks.select, chunk.batch.slice(row, 1))
        except SelectError as error:
            expected.setdefault(row // copies, (error.expression.name, str(error)))
    selected, bad = select_good(chunk, checks)
    assert {
        number: (error.expression.name, str(error)) for number, error in bad.items()
    } == expected
    assert list(bad) == sorted(bad)
    good = [row for row in range(len(rows)) if row // copies not in expected]
    assert repr(selected.batch.to_pylist()) == repr(
        select_rows(checks.select, chunk.batch.take(pa.array(good, pa.int64())))[0].to_pylist()
    )


def test_a_row_is_asked_about_once_for_each_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven of 20,000 rows, bad in seven ways, are evaluated alone."""
    asked, failure = [], expressions._failure
    monkeypatch.setattr(expressions, "_failure", lambda *given: asked.append(1) or failure(*given))
    rows = [(f"x{row % 14}" if row % 14 < 7 else str(row), 1.0, None) for row in range(20_000)]
    _, bad = select_good(
        chunk_of(rows, list(range(len(rows)))), checks_of(None, {"n": "CAST(t AS BIGINT)"})
    )
    assert len(bad) == sum(row % 14 < 7 for row in range(20_000))
    assert len(asked) == 7


FEATURES = " ".join(f"{index}:{index}.5" for index in range(1, 6))
BAD_LINES = {
    "label": f"x%d {FEATURES}",
    "label beyond int64": f"{1 << 64}%d {FEATURES}",
    "index": f"1 {FEATURES} z%d:1",
    "value": f"1 {FEATURES} 7:q%d",
    "infinite": f"1 {FEATURES} 7:1e4%d",
    "index beyond int64": f"1 {FEATURES} {1 << 64}%d:1",
    "order": f"1 {FEATURES} 1:%d",
    "parts": f"1 {FEATURES} 7:%d:1",
    "hexadecimal": f"1 {FEATURES} 0x%d:1",
    "query": f"1 qid:%d {FEATURES}",
}


@pytest.mark.parametrize("kind", BAD_LINES)
@pytest.mark.parametrize("every", [1, 10])
def test_many_bad_sparse_lines_have_their_places(kind: str, every: int, tmp_path: Path) -> None:
    """All of 2,000 sparse lines, or one in ten, are bad."""
    lines = [BAD_LINES[kind] % row if row % every == 0 else f"1 {FEATURES}" for row in range(2_000)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("beam_pipelines.sources.text.blocks.SAMPLE_BYTES", 100)
        plan = plan_of(write(tmp_path / "a.libsvm", "\n".join([f"1 {FEATURES}"] * 99 + lines)))
    _, counts, rejected = read.read_table(plan, reject=True)
    assert (counts["rejected"], counts["read"]) == (2_000 // every, 99 + 2_000 - 2_000 // every)
    assert [bad.position for bad in rejected] == [
        f"line {100 + row}" for row in np.arange(0, 2_000, every)
    ]
