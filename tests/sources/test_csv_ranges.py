"""Cuts of CSV text, against Python's csv module."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import Limits
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines.sources.text import quotes
from beam_pipelines.sources.text.quotes import CLOSED, INSIDE, NEWLINE, OUTSIDE, Dialect
from beam_pipelines.transforms import read
from beam_pipelines.transforms.row_positions import RowPositions
from tests.sources.support import plan_of
from tests.support.made_source import made_source

pytestmark = pytest.mark.usefixtures("with_and_without_kernels")

DIALECT = Dialect(ord(","), ord('"'))
TEXT = st.text(alphabet='"",\n\n\rab', max_size=60)


def states_by_hand(text: str, state: str, at_start: bool) -> list[tuple[str, bool]]:
    """Steps through a text byte by byte.

    Returns:
      The state after each byte, and whether it was a quote that opens or closes.
    """
    steps = []
    start = at_start
    for character in text:
        toggles = False
        if state == "inside":
            if character == '"':
                state, toggles = "closed", True
        elif character == '"' and (start or state == "closed"):
            state, toggles = "inside", True
        else:
            state = "outside"
        start = character in ",\r\n" and state == "outside"
        steps.append((state, toggles))
    return steps


NAMES = {"outside": OUTSIDE, "closed": CLOSED, "inside": INSIDE}


@settings(max_examples=120)
@given(TEXT, st.integers(0, 60))
def test_transitions_are_those_of_a_byte_by_byte_automaton(text: str, cut: int) -> None:
    """Scanning parts and folding gives the state of stepping through it all."""
    cut = min(cut, len(text))
    steps = states_by_hand(text, "outside", at_start=True)
    data = text.encode()
    previous = data[cut - 1] if cut else NEWLINE
    states = quotes.fold(
        [
            quotes.transition(data[:cut], NEWLINE, DIALECT),
            quotes.transition(data[cut:], previous, DIALECT),
        ]
    )
    expected = ["outside", *(state for state, _ in steps)]
    assert list(states) == [OUTSIDE, NAMES[expected[cut]], NAMES[expected[-1]]]
    toggles = quotes.toggling_quotes(data, OUTSIDE, NEWLINE, DIALECT)
    assert toggles.tolist() == [position for position, (_, toggled) in enumerate(steps) if toggled]


NASTY = '"a""\n""b",5" disk\n"","x"\r\nc"","""d\n""","\n"\r,"e"f"\n'


@pytest.mark.parametrize("cut", range(1, len(NASTY)))
def test_every_cut_of_a_nasty_text(cut: int) -> None:
    """The state is right at every byte of a nasty text.

    It has doubled and stray quotes, and line ends of all kinds.
    """
    data = NASTY.encode()
    steps = states_by_hand(NASTY, "outside", at_start=True)
    before, after = (NAMES[steps[position][0]] for position in (cut - 1, -1))
    assert quotes.transition(data[:cut], NEWLINE, DIALECT)[OUTSIDE] == before
    assert quotes.transition(data[cut:], data[cut - 1], DIALECT)[before] == after
    toggles = quotes.toggling_quotes(data[cut:], before, data[cut - 1], DIALECT)
    assert (toggles + cut).tolist() == [
        place for place, (_, toggled) in enumerate(steps) if toggled and place >= cut
    ]


def ranges_of(path: Path, cuts: list[int]) -> tuple[ByteRange, ...]:
    """Cuts a file at any bytes."""
    size = path.stat().st_size
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < size}), size]
    file = FileInfo(str(path), size)
    return tuple(
        ByteRange(number, number, file, start, end)
        for number, (start, end) in enumerate(itertools.pairwise(edges))
    )


@given(
    rows=st.lists(
        st.tuples(
            st.text('",\r\nab', max_size=6), st.sampled_from(['5" disk', "x", '""a', '"q"', ""])
        ),
        min_size=1,
    ),
    line_end=st.sampled_from(["\n", "\r\n"]),
    cuts=st.lists(st.integers(0, 400), max_size=6),
)
def test_ranges_of_written_rows_give_the_rows(tmp_path_factory, rows, line_end, cuts):
    """Rows with necessary and stray quotes come back for all cuts."""
    text = io.StringIO(newline="")
    for quoted, plain in rows:
        cell, other = (f'"{one}"' for one in (quoted.replace('"', '""'), plain.replace('"', '""')))
        text.write(f"{cell},{plain if plain[:1] != chr(34) else other}{line_end}")
    expected = [tuple(row) for row in csv.reader(io.StringIO(text.getvalue(), newline=""))]
    assert read_cut(tmp_path_factory, text.getvalue(), cuts, ("a", "b")) == expected


@settings(max_examples=120)
@given(TEXT, st.lists(st.integers(0, 60), max_size=5), st.sampled_from([("a",), ("a", "b")]))
def test_ranges_of_any_text_give_the_cells_of_pythons_csv_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, text: str, cuts: list[int], names: tuple[str, ...]
) -> None:
    """Ranges of any text read as Python's csv module does, or fail."""
    if not text:
        return
    delimiter = "," if len(names) == 2 else ";"

    def cells(strict: bool) -> list[tuple]:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=strict)
        return [tuple(row) for row in rows if row]

    try:
        found = read_cut(tmp_path_factory, text, cuts, names, delimiter)
    except DataError:
        with contextlib.suppress(csv.Error):
            assert any(len(row) != len(names) for row in cells(strict=True))
        return
    assert found == cells(strict=False)


def read_cut(
    factory: pytest.TempPathFactory,
    text: str,
    cuts: list[int],
    names: tuple[str, ...],
    delimiter: str = ",",
) -> list[tuple]:
    """Reads text from a file that is cut at the given bytes."""
    path = factory.getbasetemp() / "cut.csv"
    path.write_bytes(text.encode())
    source = made_source(
        "s", (str(path),), delimiter=delimiter, header=False, columns=names, nulls=()
    )
    schema = pa.schema([(name, pa.string()) for name in names])
    files = (FileInfo(str(path), path.stat().st_size),)
    plan = SourcePlan(
        source, "csv", files, schema, schema, ranges_of(path, cuts), file_schema=schema
    )
    table, counts, _ = read.read_table(plan, reject=False)
    assert counts["read"] == table.num_rows
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_stray_quotes_cost_no_quadratic_time() -> None:
    """Stray quotes are scanned in linear time.

    Each of 100,000 rows has one.
    """
    data = b'5" disk,"a ""b""\n c"\n' * 100_000
    toggles = quotes.toggling_quotes(data, OUTSIDE, NEWLINE, DIALECT)
    assert len(toggles) == 6 * 100_000
    assert np.array_equal(toggles[:6], [8, 11, 12, 14, 15, 19])


def test_a_record_that_never_ends_is_an_error(tmp_path: Path) -> None:
    """A worker stops early in its search for a closing quote."""
    path = tmp_path / "open.csv"
    path.write_bytes(b'1,2\n"open,2\n' + b"x,y\n" * 100_000)
    with path.open("rb") as file, pytest.raises(DataError, match=r"'line_bytes'.* never closed"):
        quotes.record_start(
            file, str(path), 20, path.stat().st_size, INSIDE, DIALECT, Limits(line_bytes=100_000)
        )


def test_quote_states_of_a_beginning_need_no_earlier_call(tmp_path):
    """A state of a part does not depend on earlier scans."""
    path = tmp_path / "a.csv"
    path.write_text("id,t\n" + "".join(f'{row},"x\n{"y" * (row % 7)}"\n' for row in range(40)))
    plan = plan_of(path, range_bytes=50)
    warm = RowPositions(plan)
    warm.quote_states(plan.ranges[-1])
    for whole in plan.ranges[2:]:
        for end in range(whole.start + 1, whole.end):
            part = dataclasses.replace(whole, end=end)
            assert RowPositions(plan).quote_states(part) == warm.quote_states(part)
