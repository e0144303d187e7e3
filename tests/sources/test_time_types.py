"""Texts of ISO 8601 dates and times have one type."""

from __future__ import annotations

import contextlib
import datetime
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.recipe.cell_formats import DateFormat
from beam_pipelines.sources.csv.formats import to_plain, typed
from beam_pipelines.sources.exact_cast import exact_cast
from beam_pipelines.sources.inference import time_type
from beam_pipelines.sources.text.cells import parsed
from beam_pipelines.sources.wrapping.derived import with_derived
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, read_rows, write


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["2024-01-31", None], pa.date32()),
        (["2024-01-31", "2024-01-31T10:00:00"], pa.timestamp("us")),
        (["2024-01-31 10:00", "2024-01-31T10:00:00.5"], pa.timestamp("us")),
        (["2024-01-31T10:00:00Z", "2024-01-31 10:00:00+02:00"], pa.timestamp("us", "UTC")),
        (["2024-01-31", "2024-01-31T10:00:00Z"], None),
        (["2024-01-31T10:00:00", "2024-01-31T10:00:00Z"], None),
        (["2024-01-31T10:00:00.123456000Z", "2024-01-31T10:00:00Z"], pa.timestamp("us", "UTC")),
        (["2024-02-30"], None),
        (["2024-1-31"], None),
        (["2024"], None),
        (["x", "2024-01-31"], None),
        ([None], None),
    ],
)
def test_texts_of_dates_and_times_have_one_type(texts, expected):
    """All texts are of one type, or they are texts."""
    assert time_type(pa.array(texts, pa.string())) == expected


@given(
    st.integers(0, 3 * 10**9),
    st.integers(-1439, 1439),
    st.sampled_from(["%Y-%m-%d %H:%M:%S %z", "%d/%b/%y:%I:%M:%S %p%z", "%a, %d %B %Y %H:%M %z"]),
)
def test_times_with_offsets_are_as_python_reads_them(seconds, minutes, pattern):
    """Whatever the order of the parts; the times are in UTC."""
    zone = datetime.timezone(datetime.timedelta(minutes=minutes))
    time = datetime.datetime.fromtimestamp(seconds // 60 * 60, zone)
    text = pa.array([time.strftime(pattern)])
    assert typed(to_plain(text, DateFormat(pattern)), pa.timestamp("us", "UTC"))[0].as_py() == time


@given(st.times(), st.text("0123456789", max_size=9), st.sampled_from(["", "Z", "+05:30", "-0800"]))
def test_texts_and_cells_of_times_have_one_meaning(time, digits, zone):
    """Texts of JSON and Parquet are the times of such cells."""
    clock = f"{time:%H:%M:%S}{'.' * bool(digits)}{digits}"
    for text, type_ in (
        (f"2024-02-29 {clock}{zone}", pa.timestamp("us", "UTC" if zone else None)),
        (clock, pa.time64("us")),
    ):
        cells, wrong = parsed(pa.array([text]), type_)
        found = None
        with contextlib.suppress(pa.ArrowInvalid):
            found = exact_cast(pa.array([text]), type_)
        assert found == (None if wrong[0] else cells)


def test_times_with_nanoseconds_have_a_finding(tmp_path: Path) -> None:
    """Its line cuts them to microseconds; until then they are texts."""
    path = write(tmp_path / "a.jsonl", '{"a": "2024-01-31T10:00:05.1234567Z"}\n' * 12)
    assert read_rows(path)[5]["a"] == "2024-01-31T10:00:05.1234567Z"
    [finding] = plan_of(path).decisions
    assert finding.startswith("types: {a: text}  # times with fractions of a microsecond, such as")
    line = yaml.safe_load(finding.partition("; ")[2].removesuffix(" cuts them off"))
    rows, _, _ = read.read_table(with_derived(plan_of(path), line["derive"]), reject=False)
    assert rows["a_us"].cast(pa.string())[5].as_py() == "2024-01-31 10:00:05.123456Z"
