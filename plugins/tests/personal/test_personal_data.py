"""Tests of the detection of personal data."""

from __future__ import annotations

from functools import cache

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines_plugins.personal import checksums
from beam_pipelines_plugins.personal.check import find_personal
from beam_pipelines_plugins.personal.scan import scan_batch
from plugins.tests.personal.personal_corpus import (
    Planted,
    false_friends,
    iban_of,
    luhn_digit,
    planted_columns,
)


@cache
def corpus() -> tuple[Planted, ...]:
    """All columns of the corpus."""
    return (*planted_columns(), *false_friends())


def kinds_of(name: str, values: list[object]) -> list[str]:
    """The kinds that are found in a column."""
    batch = pa.record_batch({name: pa.array(values)})
    return [each.kind for each in find_personal([((0, 0), scan_batch(batch))], len(values))]


@pytest.mark.usefixtures("with_and_without_kernels")
def test_recall_and_precision_on_the_planted_corpus() -> None:
    """Nearly all planted columns are found, with their kind, and few others."""
    expected, found = set(), set()
    for number, column in enumerate(corpus()):
        expected |= {(number, column.kind)} if column.kind else set()
        found |= {(number, kind) for kind in kinds_of(column.name, column.values)}
    missing, wrong = expected - found, found - expected
    shown = [(corpus()[number].name, kind) for number, kind in sorted(missing | wrong)]
    assert 1 - len(missing) / len(expected) >= 0.98, shown
    assert 1 - len(wrong) / len(found) >= 0.95, shown
    assert len({column.kind for column in corpus()} - {None}) == 7


@given(st.lists(st.integers(0, 10**14), min_size=1))
def test_check_digits_are_those_of_plain_loops(numbers: list[int]) -> None:
    """Only the right check digits pass."""
    for digit in "0123456789":
        texts = [f"4{number:014d}" for number in numbers]
        right = [luhn_digit(text) == digit for text in texts]
        assert checksums.luhn(pa.array([text + digit for text in texts])).tolist() == right
    accounts = [f"WEST{number:014d}" for number in numbers]
    ibans = [iban_of("GB", account) for account in accounts]
    assert checksums.mod_97(pa.array(ibans)).all()
    wrong = [f"GB{(int(iban[2:4]) + 13) % 97 + 2:02d}{iban[4:]}" for iban in ibans]
    expected = [iban == other for iban, other in zip(ibans, wrong, strict=True)]
    assert checksums.mod_97(pa.array(wrong)).tolist() == expected


VALID = [
    ("email", "Write to anna.b+news@mail.example.co.uk."),
    ("email", "anna@müller.example.de"),
    ("phone", "call +49 (0)170 1234567 today"),
    ("phone", "Tel.: 0170/1234567"),
    ("iban", "pay AT61 1904 3002 3457 3201 soon"),
    ("card", "paid with 3782 822463 10005"),
    ("ip_address", "from 192.168.1.77:8080"),
    ("ip_address", "[2001:db8::8a2e:370:7334]"),
    ("us_ssn", "SSN 536-90-4399"),
    ("person_name", "Braund, Mr. Thomas Harris"),
]
WRONG = [
    "git@example.org:team/tool.git",
    "logo@2x.png",
    "tool@1.2.3",
    "+1234.5678901",
    "AT61 1904 3002 3457 3202",
    "3782 822463 10006",
    "1.2.3.4",
    "1.2.3.400",
    "v192.168.1.77",
    "std::vec::push",
    "12:34:56",
    "12:34:56:78:90:12:34:56",
    "AA:BB:CC:DD:EE:FF:00",
    "666-90-4399",
    "536-00-4399",
    "86 095 742 718",
    "GB 12 34 56 A",
    "AB123456E",
    "[0.48137, 0.11576, 0.33333]",
    "99.12345, 98.12345",
]


@pytest.mark.parametrize(("kind", "text"), VALID)
def test_a_text_with_personal_data(kind: str, text: str) -> None:
    """A value is found inside a text, and its kind alone."""
    assert kinds_of("x", [None, text, ""]) == [kind]


@pytest.mark.parametrize("text", WRONG)
def test_a_text_that_only_looks_like_it(text: str) -> None:
    """It is not found."""
    assert kinds_of("x", [text]) == []


def test_lists_count_once_a_row() -> None:
    """The first row is that of the list."""
    lists = pa.array([["x"], None, ["a@b.de", "c@d.de"], [], ["e@f.de"]])
    ((column, _, shaped, right, first),) = scan_batch(pa.record_batch({"x": lists}))
    assert (column, shaped, right, first) == ("x", 2, 2, 2)


def test_chunks_are_judged_together() -> None:
    """Sums decide, and the first place is that of all chunks."""
    rows = [f"u{row}@mail.example.org" if row % 100 == 7 else "none" for row in range(40_000)]
    batches = [pa.record_batch({"x": rows[start : start + 10_000]}) for start in (0, 10_000)]
    chunks = [((number, 0), scan_batch(batch)) for number, batch in enumerate(batches)]
    (found,) = find_personal(reversed(chunks), 20_000)
    assert (found.kind, found.found, found.place) == ("email", 200, (0, 0, 7))
    assert "in 200 of 20,000 rows (1.0%)" in found.line("d.csv, line 1")
    cards = ["4111111111111111", *["4111111111111112"] * 3]
    chunks = [
        ((number, 0), scan_batch(pa.record_batch({"x": [card]})))
        for number, card in enumerate(cards)
    ]
    assert find_personal(chunks, 4) == ()


def test_a_rare_kind_is_found_among_many_candidates() -> None:
    """One in a hundred is in the sample, and all are counted."""
    values = [
        iban_of("DE", f"{row:018d}") if row % 100 == 7 else f"x{row:011d}" for row in range(30_000)
    ]
    ((_, _, shaped, right, first),) = scan_batch(pa.record_batch({"x": values}))
    assert (shaped, right, first) == (300, 300, 7)
