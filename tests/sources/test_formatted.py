"""Texts of every format, read as formats, trim and nulls say."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pytest
import yaml

from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.sources.wrapping import formatted
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, problems_of, read_rows, types_of
from tests.support.tables import write_table

Column = list[str | None]


def write_texts(path: Path, cells: Column) -> Path:
    """Writes the column ``a``, as dictionary or long texts in some formats."""
    kinds = {".parquet": pa.dictionary(pa.int32(), pa.string()), ".feather": pa.large_string()}
    kind = kinds.get(path.suffix, pa.string())
    return write_table(path, pa.table({"a": pa.array(cells, kind), "n": [1] * len(cells)}))


@pytest.fixture(params=["jsonl", "parquet", "feather", "avro", "xlsx"])
def put(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Column], Path]:
    """Returns what writes a file of a format."""
    return lambda cells: write_texts(tmp_path / f"s.{request.param}", cells)


def remedy_of(path: Path) -> dict[str, Any]:
    """Returns the options that the only finding of a file names."""
    (finding,) = (one for one in plan_of(path).decisions if "  # " in one)
    line = finding.partition("; ")[2].rpartition(" reads ")[0]
    options: dict[str, Any] = yaml.safe_load(line)
    return options


UTC = datetime.timezone.utc
MOMENT = datetime.datetime.fromisoformat("2024-01-31T10:00:00")
VALUES: list[tuple[Column, Any]] = [
    ([f"${n},234.50" for n in range(1, 20)], 2234.5),
    ([f"{n}.5%" for n in range(1, 20)], 0.025),
    ([f"1.{n}00,5 €" for n in range(1, 10)], 1200.5),
    ([f"{n},5 kg" for n in range(1, 20)], 2.5),
    ([f"{n}.25" for n in range(1, 20)], 2.25),
    ([f"1{n}/01/2024" for n in range(10)], datetime.date(2024, 1, 11)),
    (["no", "yes", "no"], True),
]


def test_values_in_texts_are_found_and_read(put: Callable[[Column], Path]) -> None:
    """Texts stay texts; the finding has the format that reads them."""
    for cells, value in VALUES:
        path = put([*cells, None])
        assert types_of(path)["a"] == "string"
        assert [row["a"] for row in read_rows(path)][1] == cells[1]
        rows = read_rows(path, **remedy_of(path))
        assert (rows[1]["a"], rows[-1]["a"]) == (value, None)


@pytest.mark.parametrize("name", ["parquet", "feather", "avro", "xlsx"])
@pytest.mark.parametrize(
    ("cells", "value"),
    [
        (["2024-01-31T10:00:00", "2024-01-31 11:00:00.5"], MOMENT),
        (["2024-01-31T10:00:00Z"] * 2, datetime.datetime(2024, 1, 31, 10, tzinfo=UTC)),
        (["2024-01-31", "2024-02-29"], datetime.date(2024, 1, 31)),
    ],
)
def test_times_in_texts_are_found_and_read(tmp_path, name, cells, value):
    """The type in the finding reads them."""
    path = write_texts(tmp_path / f"s.{name}", cells)
    assert types_of(path)["a"] == "string"
    assert read_rows(path, **remedy_of(path))[0]["a"] == value


@pytest.mark.parametrize("cells", [["007", "010"], ["123", "4567"], ["12E", "x"], ["a b", "1 x"]])
def test_digits_in_texts_have_no_finding(put: Callable[[Column], Path], cells: Column) -> None:
    """A writer that has numbers wrote them as texts."""
    assert [one for one in plan_of(put(cells)).decisions if "  # " in one] == []


def test_white_space_and_nulls(put: Callable[[Column], Path]) -> None:
    """The options in the findings work in every format, alone and together."""
    path = put([" x", "y\u00a0", "?", "\u3000z", "w", " ?", None])
    blanks, nulls = (one for one in plan_of(path).decisions if "  # " in one)
    assert blanks.startswith("trim: false  # 4 values of 'a' with white space around")
    assert "'?' may mean null: 1 of 6 values of 'a'" in nulls
    assert [row["a"] for row in read_rows(path, trim=True)] == ["x", "y", "?", "z", "w", "?", None]
    rows = read_rows(path, trim=True, nulls=("?",))
    assert [row["a"] for row in rows] == ["x", "y", None, "z", "w", None, None]
    rows = read_rows(path, nulls=("?",))
    assert [row["a"] for row in rows] == [" x", "y\u00a0", None, "\u3000z", "w", " ?", None]


def test_trimmed_texts_are_compared_with_nulls(put: Callable[[Column], Path]) -> None:
    """No finding speaks of a text that is null without its blanks."""
    path = put(["x", " ? ", "y", " ?"])
    plan = plan_of(path, nulls=("?",), trim=True)
    assert [one for one in plan.decisions if "may mean null" in one] == []


def test_a_text_of_another_format_has_its_place(put: Callable[[Column], Path]) -> None:
    """The error has place and text; its remedy works."""
    path = put(["$1,234.5", "free", None, "31"])
    options = {"formats": {"a": "$1,234.5"}}
    with pytest.raises(
        DataError, match=r"(line|row|!A?) ?[23], column 'a': found 'free', exp"
    ) as e:
        read_rows(path, **options)
    assert "Add 'free' to 'nulls'" in str(e.value)
    table, counts, rejected = read.read_table(plan_of(path, **options), reject=True)
    assert counts == {"read": 3, "rejected": 1}
    assert table["a"].to_pylist() == [1234.5, None, 31]
    assert rejected[0].reason.startswith("found 'free'")
    rows = read_rows(path, nulls=("free",), **options)
    assert [row["a"] for row in rows] == [1234.5, None, None, 31]


def test_formats_of_no_texts_are_refused(put: Callable[[Column], Path], tmp_path: Path) -> None:
    """Numbers, and columns that do not exist, have no format."""
    path = put(["x"])
    found = problems_of(path, formats={"b": "1234.5"})
    assert "there is no column 'b'" in found["sources", "s", "formats"]
    path = write_table(tmp_path / "n.parquet", pa.table({"a": [1]}))
    found = problems_of(path, formats={"a": "1234.5"})
    assert "found no texts in the files" in found["sources", "s", "formats"]


def test_formats_of_other_files_are_refused(tmp_path: Path) -> None:
    """Formats without texts that people wrote say which have the option."""
    (tmp_path / "s.libsvm").write_text("1 1:2\n")
    with pytest.raises(RecipeProblems, match="found it with format 'libsvm', expected it with csv"):
        plan_of(tmp_path / "s.libsvm", trim=True)


STRICT = [
    ("2024-01-01T10:00:00Z", "timestamp", "timestamptz"),
    ("2024-01-01T10:00:00", "timestamptz", "timestamp"),
]


@pytest.mark.parametrize(("text", "declared", "other"), STRICT)
def test_times_of_json_keep_their_zone(tmp_path, text, declared, other):
    """A time with a zone takes none without, and the reverse."""
    path = write_texts(tmp_path / "s.jsonl", [text])
    found = problems_of(path, types={"a": declared})["sources", "s", "types"]
    assert f"types: {{a: {other}}}" in found
    assert read_rows(path, types={"a": other})[0]["a"].hour == 10


@pytest.mark.parametrize(("text", "declared", "other"), STRICT)
def test_times_of_json_behind_the_sample(tmp_path, monkeypatch, text, declared, other):
    """A time of the other kind behind the sample is bad."""
    monkeypatch.setattr("beam_pipelines.sources.text.blocks.SAMPLE_BYTES", 10_000)
    good = "2024-01-01T10:00:00" + ("Z" if declared == "timestamptz" else "")
    path = write_texts(tmp_path / "s.jsonl", [*[good] * 1_000, text])
    with pytest.raises(DataError, match=f"line 1001, column 'a': found '{text}'"):
        read_rows(path)


@pytest.mark.parametrize("infer", ["sample", "full"])
def test_long_texts_are_sampled_by_their_bytes(tmp_path, monkeypatch, infer):
    """Planning looks at a few MiB of a file's texts."""
    looked_at: list[int] = []
    evidence_of = formatted.evidence_of

    def noted(texts: pa.ChunkedArray) -> Any:
        looked_at.append(texts.nbytes)
        return evidence_of(texts)

    monkeypatch.setattr(formatted, "evidence_of", noted)
    path, texts = tmp_path / "a.parquet", [f"row {number}, " * 1_000 for number in range(1_000)]
    write_table(path, pa.table({"a": texts}), 300)
    plan_of(str(path), infer=infer)
    whole = sum(map(len, texts))
    assert sum(looked_at) < whole / 2 if infer == "sample" else sum(looked_at) >= whole
