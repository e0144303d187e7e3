"""Tests of protected columns."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError, RecipeError, RecipeProblems
from beam_pipelines.core.private import hide_found, hide_row
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.sources import plan_sources
from beam_pipelines.recipe.normal_form import from_normalised, normalised, recipe_hash
from beam_pipelines.recipe.protect import Protection
from beam_pipelines.transforms import read
from beam_pipelines.transforms.select.protect import key_of, keyed_hash, with_fingerprints
from beam_pipelines.transforms.select.select import select_rows
from tests.support.runs import plan_in

KEY = "0123456789abcdef-a-key"


@given(st.lists(st.none() | st.text()), st.binary(min_size=16, max_size=100))
def test_hashes_are_hmacs(values: list[str | None], key: bytes) -> None:
    """They are those of Python's own module; nulls stay null."""
    expected = [
        None if value is None else hmac.new(key, value.encode(), "sha256").hexdigest()
        for value in values
    ]
    array = pa.array(values, pa.string())
    assert keyed_hash(array, key).to_pylist() == [value and value[:32] for value in expected]


def test_numbers_hash_as_their_digits() -> None:
    """A column of numbers and one of texts have the same hashes."""
    key = KEY.encode()
    assert keyed_hash(pa.array([7, None]), key).equals(keyed_hash(pa.array(["7", None]), key))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table, and a key in a file."""
    (tmp_path / "d.csv").write_text("user,n,x\nanna,1,0.5\nbob,2,1.5\n")
    (tmp_path / "hash.key").write_text(KEY + "\n")
    return tmp_path


def plan_of(folder: Path, more: str) -> Plan:
    text = f"name: d\nsources: {{d: d.csv}}\n{more}\n"
    return plan_in(folder, text)


@pytest.mark.parametrize("key", ["hash.key", "env:BEAM_HASH_KEY"])
def test_derived_columns_see_values_and_all_others_hashes(
    folder: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """The plan, which crosses to workers, does not have the key."""
    monkeypatch.setenv("BEAM_HASH_KEY", KEY)
    plan = plan_of(
        folder, f"derive: {{size: length(user)}}\nprotect: {{user: {{keyed_hash: {key}}}}}"
    )
    batch = pa.record_batch({"user": ["anna"], "n": [1], "x": [0.5]})
    selected, _ = select_rows(plan.select, batch)
    digest = hmac.new(KEY.encode(), b"anna", "sha256").hexdigest()[:32]
    assert selected.to_pylist() == [{"user": digest, "n": 1, "x": 0.5, "size": 4}]
    assert KEY not in repr(plan)
    assert plan.statistics is not None
    stored = from_normalised(normalised(plan.recipe), str(folder))
    assert recipe_hash(stored) == recipe_hash(plan.recipe)
    assert stored.protect["user"].fingerprint


def test_another_key_is_refused(folder: Path) -> None:
    """The stored recipe of a dataset has a fingerprint of its key."""
    protect = with_fingerprints({"user": Protection("keyed_hash", "hash.key")}, str(folder))
    key_of.cache_clear()
    assert with_fingerprints(protect, "") == protect
    key_of.cache_clear()
    (folder / "hash.key").write_text("another key of some length")
    with pytest.raises(RecipeProblems, match=r"found another key in file .* expected the same"):
        with_fingerprints(protect, "")


@pytest.mark.parametrize(
    ("protect", "found"),
    [
        ("{user: {keyed_hash: env:NO_SUCH_KEY}}", "found no environment variable NO_SUCH_KEY"),
        ("{user: {keyed_hash: other.key}}", "found no file .*other.key"),
        ("{usr: drop}", "found column 'usr', which is not there. Did you mean 'user'"),
        ("{x: {keyed_hash: hash.key}}", "found float64 for 'keyed_hash', expected text or whole"),
    ],
)
def test_problems_of_planning(folder: Path, protect: str, found: str) -> None:
    """Keys that are missing, unknown columns, and types."""
    with pytest.raises(RecipeProblems, match=found):
        plan_of(folder, f"protect: {protect}")


def test_a_short_key_is_not_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has its length."""
    monkeypatch.setenv("BEAM_SHORT_KEY", "pass")
    with pytest.raises(
        RecipeProblems, match="found 4 bytes in environment variable BEAM_SHORT_KEY"
    ) as error:
        plan_of(folder, "protect: {user: {keyed_hash: env:BEAM_SHORT_KEY}}")
    assert "'pass'" not in str(error.value)


@pytest.mark.parametrize(
    ("protect", "found"),
    [
        ("drop", "expected a mapping"),
        ("{user: hash}", "found 'hash', expected"),
        ("{user: keyed_hash}", r"expected drop or \{keyed_hash: env:NAME\}"),
        ("{user: {mask: 4}}", r"expected drop or \{keyed_hash"),
        ("{user: {keyed_hash: {key: a, bits: 64}}}", "found keys, expected a text"),
        ("{user: {keyed_hash: 'env:'}}", "the name of an environment variable"),
    ],
)
def test_wrong_recipes(protect: str, found: str) -> None:
    """Each has its line and what was expected."""
    with pytest.raises(RecipeError, match=found):
        parse_recipe(f"name: d\nsources: {{d: d.csv}}\nprotect: {protect}\n", "r.yaml", "")


def test_hidden_values() -> None:
    """Errors keep what was expected; rows keep reasons of other columns."""
    found = hide_found("d.csv, line 2: found 'anna', expected int64. Mend it.")
    assert found == "d.csv, line 2: found a value that is not shown, expected int64. Mend it."
    found = hide_found(
        "x: found 'anna' and \"o'b\", expected int64. Add 'anna' or \"o'b\" to 'nulls'"
    )
    assert found == (
        "x: found a value that is not shown, expected int64. "
        "Add a value that is not shown or a value that is not shown to 'nulls'"
    )
    assert hide_found("x: found 'a\nb'") == "x: found a value that is not shown"
    rows = [Rejected("d", "d.csv", "line 2", name, "found 'a'", "a,b") for name in ("", "a", "b")]
    hidden = [hide_row(row, ("a",)) for row in rows]
    assert [row.text for row in hidden] == ["", "", ""]
    assert [row.reason == "found 'a'" for row in hidden] == [False, False, True]
    assert [hide_row(row, ()) for row in rows] == rows


@pytest.mark.parametrize(
    ("options", "union", "lines", "rejected"),
    [
        (", types: {pin: int64}", "", ["1,2", "3,zq2"], 2),
        (", derive: {m: 'pin::INT'}", "", ["1,2", "3,zq2"], 2),
        ("", ", derive: {m: 'pin::INT'}", ["1,zq1", "2,zq2"], 4),
        ("", ", derive: {m: '(n || pin)::INT'}", ["1,1", "zq1,zq2"], 2),
        ("", "", ["1,ab", "2,ab", "3,zq,zq"], 2),
    ],
)
@pytest.mark.parametrize("private", ["protect: {pin: drop}", "pii: {allow: [pin]}"])
def test_rejected_rows_of_unions(
    tmp_path: Path, options: str, union: str, lines: list[str], rejected: int, private: str
) -> None:
    """Bad rows of a union show no value, whatever finds them."""
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("n,pin\n" + "\n".join(lines) + "\n")
    text = (
        f"name: d\nsources:\n  a: {{path: a.csv{options}}}\n  b: {{path: b.csv{options}}}\n"
        f"  u: {{union: [a, b]{union}}}\nfrom: u\n{private}\n"
    )
    found = plan_sources(parse_recipe(text, "r.yaml", str(tmp_path)), None, {})
    with pytest.raises(DataError) as error:
        read.read_table(found["u"], reject=False)
    _, _, rows = read.read_table(found["u"], reject=True)
    assert len(rows) == rejected
    assert {Path(row.file).stem for row in rows} == {"a", "b"}
    assert "zq" not in f"{rows} {hide_found(str(error.value))}"


def test_other_recipes_keep_their_hash() -> None:
    """The normal form of other recipes does not have it."""
    recipe = parse_recipe("name: d\nsources: {d: d.csv}\n", "r.yaml", "")
    found: Mapping[str, object] = normalised(recipe)
    assert "protect" not in found
