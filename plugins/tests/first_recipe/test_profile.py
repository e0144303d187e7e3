"""Roles, joins, labels and splits that follow from a column's values."""

from __future__ import annotations

import datetime
import math
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

import beam_pipelines as bp
from beam_pipelines.sql.expressions import evaluate, parse_expression
from beam_pipelines_plugins.first_recipe.column_profile import Role, profile_column, profile_columns
from beam_pipelines_plugins.first_recipe.encodings import propose_encodings
from beam_pipelines_plugins.first_recipe.joins import Side, near_join, propose_join
from beam_pipelines_plugins.first_recipe.labels import label_candidates
from beam_pipelines_plugins.first_recipe.splits import propose_splits
from tests.support.tables import write_table


@pytest.mark.parametrize(
    ("name", "values", "role"),
    [
        ("x", [None] * 30, Role.EMPTY),
        ("x", [*([None] * 200), 1.5], Role.EMPTY),
        ("x", [2] * 30, Role.CONSTANT),
        ("x", [2, None] * 30, Role.NUMBER),
        ("x", [True, False] * 15, Role.FLAG),
        ("x", [0, 1] * 15, Role.FLAG),
        ("x", [0, 1, None] * 15, Role.FLAG),
        ("x", [1, 2] * 15, Role.NUMBER),
        ("x", list(range(30)), Role.IDENTIFIER),
        ("x", list(range(0, 3000, 100)), Role.NUMBER),
        ("order_id", list(range(0, 3000, 100)), Role.IDENTIFIER),
        ("x", list(range(10)), Role.NUMBER),
        ("user_id", [1, 2, 3] * 10, Role.CATEGORY),
        ("userId", [1, 2, 3] * 10, Role.CATEGORY),
        ("zip", [10115, 50667] * 10, Role.CATEGORY),
        ("valid", [10, 50] * 10, Role.NUMBER),
        ("x", [1.5, 2.5] * 10, Role.NUMBER),
        ("x", ["a", "b"] * 10, Role.CATEGORY),
        ("x", [f"a{n}" for n in range(30)], Role.IDENTIFIER),
        ("x", [f"a{n}" for n in range(10)], Role.CATEGORY),
        ("x", [f"a{n % 12_000}" for n in range(24_000)], Role.MANY),
        ("x", [f"not a key but {n} words" for n in range(30)], Role.PROSE),
        ("x", [b"a", b"b"], Role.BYTES),
        ("x", [[1], []], Role.LIST),
        ("x", [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)], Role.MOMENT),
        ("x", [datetime.time(1), datetime.time(2)], Role.TIME),
    ],
)
def test_role_of_a_column(name: str, values: list[Any], role: Role) -> None:
    """The role follows from type, values and name."""
    assert profile_column(name, pa.array(values)).role is role


@given(st.lists(st.none() | st.text("a \n", max_size=6)))
def test_words_are_those_of_a_loop(values: list[str | None]) -> None:
    """The mean number of words counts equal texts each time."""
    words = [len(re.findall(r"\S+", value)) for value in values if value is not None]
    expected = sum(words) / len(words) if words else 0
    assert profile_column("x", pa.array(values, pa.string())).words == expected


@given(st.lists(st.floats(-1e6, 1e6), min_size=1))
def test_skewness_is_that_of_a_loop(values: list[float]) -> None:
    """The skewness is the mean of the third powers of standardized numbers."""
    mean = math.fsum(values) / len(values)
    scale = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    assume(scale == 0 or scale > 1e-6 * max(map(abs, values)))
    expected = scale and math.fsum(((value - mean) / scale) ** 3 for value in values) / len(values)
    found = profile_column("x", pa.array(values, pa.float64())).skewness
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(st.lists(st.none() | st.integers(-3, 3) | st.integers()))
def test_counts_are_those_of_a_loop(values: list[int | None]) -> None:
    """Nulls, distinct values and their counts are those of a plain loop."""
    known = [value for value in values if value is not None and -(2**63) <= value < 2**63]
    rows = pa.array([value for value in values if value is None or value in known], pa.int64())
    found = profile_column("x", rows)
    counts = {value: known.count(value) for value in known}
    assert found.nulls == rows.null_count
    assert dict(zip(found.values.to_pylist(), found.counts.tolist(), strict=True)) == counts
    assert found.counts.tolist() == sorted(counts.values(), reverse=True)
    assert found.is_unique == (len(counts) == len(rows) > 1)


def side(source: str, **columns: list[Any]) -> Side:
    """Returns a source of columns."""
    rows = pa.table(columns)
    return Side(source, profile_columns(rows), rows, True)


USERS = side("users", id=list(range(1, 41)), city=["Ulm", "Bonn"] * 20, age=[30, 40] * 20)


@pytest.mark.parametrize(
    ("left", "right", "on"),
    [
        (side("events", user=[1, 2, 2, 9]), USERS, (("user", "id"),)),
        (side("events", user_id=[1, 2, 2, 9]), USERS, (("user_id", "id"),)),
        (side("events", userId=[1, 2, 2, 9]), USERS, (("userId", "id"),)),
        (side("events", id=[1, 2, 2, 9]), USERS, (("id", "id"),)),
        (side("events", quantity=[1, 2, 2, 9]), USERS, None),
        (side("events", user=[1, 2, 50, 60]), USERS, None),
        (side("events", city=["Ulm", "Bonn"]), USERS, None),
        (side("events", user=["1", "2"]), USERS, None),
        (side("rides", town=["a", "b", "a"]), side("places", name=["a", "b", "c"]), (("town", "name"),)),
        (
            side("flights", tail=["N1", "N2"], year=[2013, 2013]),
            side("planes", tail=["N1", "N2", "N3"], year=[2001, 2013, 2013]),
            (("tail", "tail"),),
        ),
        (
            side("a", place=["x", "y"], day=[1, 2]),
            side("b", place=["x", "x", "y", "y"], day=[1, 2, 1, 2]),
            (("place", "place"), ("day", "day")),
        ),
        (
            side("a", place=["x", "y"], day=[1, 2]),
            side("b", place=["x", "x", "x", "y"], day=[1, 2, 2, 2]),
            None,
        ),
    ],
)  # fmt: skip
def test_joins_follow_from_values(
    left: Side, right: Side, on: tuple[tuple[str, str], ...] | None
) -> None:
    """Keys overlap, are unique on the right, and have related names."""
    found = propose_join(left, right)
    assert (None if found is None else found.on) == on


DAYS = pa.array([19_000, 19_001], pa.int32()).cast(pa.date32())
TIMES = pa.array([19_000 * 86_400 + 5, 19_001 * 86_400 + 9], pa.timestamp("s"))


@pytest.mark.parametrize(
    ("left", "right", "on", "sql"),
    [
        (side("a", user_id=["u1", "u2"]), side("users", id=["U1 ", "U2"]),
         ("user_id_key", "id_key"), "lower(trim(id::VARCHAR))"),
        (side("a", user_id=[1, 2], user_id_key=[1, 2]), side("users", id=["001", "002"]),
         ("user_id_key_", "id_key"), "TRY_CAST(id AS BIGINT)"),
        (side("a", user=["7", "8"]), side("users", id=["007", "008", "009"]),
         ("user_key", "id_key"), "TRY_CAST(id AS BIGINT)"),
        (side("a", seen=TIMES), side("weather", date=DAYS), ("seen_key", "date_key"), "seen::DATE"),
        (side("a", day=DAYS), side("b", seen=TIMES), ("day_key", "seen_key"), "seen::DATE"),
        (side("a", user=["x", "y"]), side("users", id=["X", "x", "Y"]), None, ""),
        (side("a", town=["x", "y"]), side("users", id=["X", "Y"]), None, ""),
        (side("a", user=["x", "y"]), side("users", id=["P", "Q"]), None, ""),
    ],
)  # fmt: skip
def test_joins_by_derived_keys(
    left: Side, right: Side, on: tuple[str, str] | None, sql: str
) -> None:
    """One expression makes the keys equal, and the right ones stay unique."""
    assert propose_join(left, right) is None
    found = near_join(left, right)
    assert (None if found is None else found.on) == (None if on is None else (on,))
    assert sql in (found.reason if found else "")


@pytest.mark.parametrize(
    ("name", "asks"),
    [
        *((name, True) for name in ("zip", "ZipCode", "lotArea", "zip5", "census_tract", "userId")),
        *((name, False) for name in ("humid", "piano", "monkey", "quid", "income", "armyear")),
    ],
)
def test_names_that_numbers_may_have(name: str, asks: bool) -> None:
    """Words of a name count, no ends of words."""
    columns = profile_columns(pa.table({name: list(range(100)) * 3}))
    (found,) = propose_encodings(columns.values(), None)
    assert ("vocabulary" in found.encoding + found.choice) == asks


@pytest.mark.parametrize(
    ("values", "choice"),
    [
        (["1.7 kg", "2.1 kg", "unknown"], "z_score, after the decision on its source"),
        (["$1,234.50", "($2.10)", "3.10 €"], "z_score, after the decision on its source"),
        (["A1.5", "B2.5", "1.2.3"], ""),
        (["DE", "UK", "uk"], 'if "UK" and "uk" are one value, derive: {x_lower: "lower(trim(x))"}'),
        (["a b", "c", "a b "], 'if "a b" and "a b " are one value, derive: {x_lower: '),
        (["a b", "c", "a b\u00a0"], 'if "a b" and "a b\u00a0" are one value, derive: {x_lower: '),
        (["ä", "a", "b"], ""),
    ],
)
def test_open_decisions_on_words(values: list[str], choice: str) -> None:
    """Units, and words that differ by case or blanks, are asked about."""
    columns = profile_columns(pa.table({"x": values * 40}))
    (found,) = propose_encodings(columns.values(), None)
    assert found.choice.startswith(choice)
    assert bool(found.choice) == bool(choice)
    if line := re.search("derive: (.*}), drop", found.choice):
        sql = yaml.safe_load(line[1])["x_lower"]
        rows = pa.record_batch({"x": values})
        assert len(evaluate(rows, parse_expression("x_lower", sql, ["x"])).unique()) == 2


NULLABLE: dict[str, list[Any]] = {
    "user_id": [*range(30)] * 4,
    "code": [f"{n % 30:03d}" for n in range(120)],
    "flag": [True, False] * 60,
    "amount": [n / 3 for n in range(120)],
    "few": [n % 4 for n in range(120)],
    "whole": [float(n % 30) for n in range(120)],
    "at": [one.as_py() for one in pa.array(range(0, 7 * 120 * 3600, 7 * 3600), pa.timestamp("s"))],
    "size": ["small", "medium", "large"] * 40,
}


@pytest.mark.parametrize("name", NULLABLE)
def test_a_missing_value_has_a_place_in_a_tensor(tmp_path: Path, name: str) -> None:
    """The proposal for a column with nulls makes features of one shape."""
    rows = pa.table({name: [*NULLABLE[name][:-3], None, None, None], "z": range(120)})
    (found,) = propose_encodings(profile_columns(rows.select([name])).values(), None)
    write_table(tmp_path / "a.parquet", rows)
    recipe = {"name": "a", "sources": {"a": str(tmp_path / "a.parquet")}}
    encode = {name: yaml.safe_load(found.encoding)}
    bp.convert({**recipe, "encode": encode}, output=tmp_path / "out")
    features = bp.open(tmp_path / "out").features.values()
    assert [one.name for one in features if one.shape != ()] == []


def test_a_sample_may_overlap_less() -> None:
    """The sample of a right source has some of the keys only."""
    left = side("events", user=list(range(1, 101)))
    assert propose_join(left, USERS) is None
    found = propose_join(left, USERS._replace(is_whole=False))
    assert found is not None
    assert found.overlap == 0.4


@pytest.mark.parametrize(
    ("columns", "expected", "is_certain"),
    [
        ({"a": [1.0, 2.0], "churned": [0, 1]}, "churned", True),
        ({"label": [1.0, 2.0], "churned": [0, 1]}, "label", True),
        ({"a": ["x", "y", "x"], "b": [1.5, 2.5, 3.5]}, "a", False),
        ({"a": [1.5, 2.5, 3.5], "b": [1.5, 2.5, 3.5]}, "b", False),
        ({"dep_delay": [1, 5, 9], "arr_delay": [1, 5, 9], "x": [1.5, 2, 3]}, "dep_delay", False),
        ({"label_id": [1, 2]}, None, False),
        ({"churned": [None, None, 1]}, None, False),
    ],
)
def test_label_candidates(
    columns: dict[str, list[Any]], expected: str | None, is_certain: bool
) -> None:
    """A name makes a label certain; other columns are mentioned."""
    found = label_candidates(profile_columns(pa.table(columns)).values())
    assert (found[0].name if found else None) == expected
    assert any(candidate.is_certain for candidate in found) == is_certain


DAYS = [datetime.date(2024, 1, day) for day in range(1, 11)]


@pytest.mark.parametrize(
    ("columns", "is_whole", "expected"),
    [
        ({"day": DAYS, "x": [1.0] * 10}, True, ("day", "2024-01-09")),
        ({"day": DAYS, "x": [1.0] * 10}, False, ("", "")),
        ({"birth": DAYS, "x": [1.0] * 10}, True, ("", "")),
        ({"user": [1, 2, 3, 4, 5] * 2, "day": DAYS}, True, ("day", "2024-01-09")),
        ({"user": [1, 2, 3, 4, 5] * 2, "day": DAYS}, False, ("user", "")),
        ({"user": list(range(10)), "x": [1.0] * 10}, True, ("", "")),
        ({"product": [1, 2, 3, 4, 5] * 2}, True, ("", "")),
        ({"day": [None] * 6 + DAYS[:4]}, True, ("", "")),
    ],
)
def test_splits(columns: dict[str, list[Any]], is_whole: bool, expected: tuple[str, str]) -> None:
    """Time comes first where all rows are known, then ids that repeat."""
    best = propose_splits(profile_columns(pa.table(columns)).values(), (), is_whole)[0]
    assert (best.column, best.before) == expected
