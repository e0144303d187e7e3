"""One dataset for each day, by ``{date}`` in paths.

The manifest has the day. Days leave one another unchanged, and can be loaded together.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from beam_pipelines.cli.main import run
from beam_pipelines.dataset import loader
from beam_pipelines.recipe import path_dates

pytestmark = pytest.mark.end_to_end

RECIPE = """
name: clicks
sources:
  clicks: 'clicks/{date}.csv'
  prices: {path: 'prices/{date:%Y%m}.csv', key: item}
from: clicks
join: [{source: prices, on: item}]
encode:
  item: {vocabulary: {num_oov: 1}}
  price: {fill: 0}
label: clicked
split: {train: 1}
output: {num_shards: 2}
"""
PLAIN = """
name: clicks
sources: {clicks: 'clicks/{date}.csv'}
label: clicked
split: {train: 0.5, eval: 0.5}
"""


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("a/{date}.csv", "a/2026-01-09.csv"),
        ("gs://a/{date:%Y}/{date:%m}/{date:%d}/*.csv", "gs://a/2026/01/09/*.csv"),
        ("{date:%Y/%j}-{date:%y%m%d}", "2026/009-260109"),
        ("a/{other}/{dates}/{}.csv", "a/{other}/{dates}/{}.csv"),
        ("a/b.csv", "a/b.csv"),
    ],
)
def test_the_date_takes_its_places(pattern: str, path: str) -> None:
    """Each place is filled in its own format.

    Other braces are part of a name.
    """
    assert path_dates.has_date(pattern) == (pattern != path)
    assert path_dates.fill_date(pattern, datetime.date(2026, 1, 9)) == path


@pytest.mark.parametrize(
    "place",
    [
        "{DATE}", "{ date }", "{date", "{date:}", "{date:d}", "{date:%H}", "{date:%-d}",
        "{date:*%d}", "{SPAN}", "{YYYY}", "{VERSION:2}",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_place_is_an_error(place: str) -> None:
    """Misspelt places and formats without a date are errors.

    TFX's own names are errors, too. None of them counts as a file name.
    """
    with pytest.raises(ValueError, match=re.escape("expected {date}")) as caught:
        path_dates.has_date(f"clicks/{place}.csv")
    assert place.rstrip("}") in str(caught.value)


@given(st.dates(min_value=datetime.date(1000, 1, 1)))
def test_a_date_is_a_text_and_a_number(date: datetime.date) -> None:
    """A date is a text, and its span is a number.

    Spans count the days since 1970-01-01, one by one.
    """
    assert path_dates.parse_date(date.isoformat()) == date
    assert path_dates.fill_date("{date}|{date:%Y%m%d}", date) == f"{date:%Y-%m-%d}|{date:%Y%m%d}"
    assert (
        datetime.date.fromordinal(datetime.date(1970, 1, 1).toordinal() + path_dates.span_of(date))
        == date
    )


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-29", "2026-13-01", "20261121", "2026-W47-6", "2026-11-21T00:00", " 2026-11-21", "",
        "٢٠٢٦-11-21",
    ],
)  # fmt: skip
def test_what_is_no_day(text: str) -> None:
    """Days are written in one way only, and exist."""
    with pytest.raises(ValueError, match="found "):
        path_dates.parse_date(text)


def write_day(folder: Path, date: str, items: str) -> None:
    """Writes a log with one row for each letter; vowels are clicked.

    Other letters make another size.
    """
    (folder / "clicks").mkdir(exist_ok=True)
    rows = [f"{item},{str(item in 'aeiou').lower()}" for item in items]
    (folder / "clicks" / f"{date}.csv").write_text("item,clicked\n" + "\n".join(rows) + "\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two days of clicks, in which commands run.

    It has the recipe without encodings.
    """
    write_day(tmp_path, "2026-11-21", "abcdefghij" * 4)
    write_day(tmp_path, "2026-11-22", "efghijklmn" * 5)
    (tmp_path / "recipe.yaml").write_text(PLAIN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("recipe.yaml --output out", "recipe.yaml:3: sources.clicks.path: found a date in 'clicks/{date}.csv', expected"),
        ("clicks/{date}.csv --output out", "error: clicks/{date}.csv: found a date in 'clicks/{date}.csv', expected"),
        ("recipe.yaml --output out/{date}", "found a date in --output out/{date}, expected the day"),
        ("clicks/2026-11-21.csv --date 2026-11-21 --output out", "sources: found --date 2026-11-21, but no source has {date}"),
        ("recipe.yaml --date 2026-11-31 --output out", "Invalid value for '--date': found 2026-11-31, which is no day"),
        ("recipe.yaml --date today --output out", "Invalid value for '--date': found 'today', expected a day as 2026-11-21."),
        ("recipe.yaml --date 2026-11-23 --output out", "recipe.yaml:3: sources.clicks.path: no file matches 'clicks/2026-11-23.csv'."),
        ("recipe.yaml --date 2026-11-21 --output out/{SPAN}", "--output: found {SPAN} in 'out/{SPAN}', expected {date}"),
        ("clicks/{YYYY}.csv --date 2026-11-21 --output out", "found {YYYY} in 'clicks/{YYYY}.csv', expected {date}"),
    ],
)  # fmt: skip
def test_wrong_dates(folder, capsys, arguments, message):
    """A wrong date ends with status 2 and writes nothing.

    The error has the date's place. The date is missing, unused, no date, or a day without a file.
    """
    assert run(["convert", *arguments.split()]) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "out").exists()


def digests(folder: Path) -> dict[str, tuple[int, str]]:
    """Each file of a folder -> its modification time and content."""
    return {
        path.relative_to(folder).as_posix(): (
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in folder.rglob("*")
        if path.is_file()
    }


def manifest(folder: Path) -> dict:
    """The manifest of a dataset."""
    return json.loads((folder / "dataset.json").read_text())


def test_a_new_day_leaves_the_others_untouched(folder, capsys):
    """A second day gets its own folder; the first stays unchanged.

    Every file stays byte by byte, and each day can be converted only once.
    """
    command = ["convert", "recipe.yaml", "--output", "out/{date:%Y}/{date}", "--quiet"]
    assert run([*command, "--date", "2026-11-21"]) == 0
    before = digests(folder / "out")
    assert run([*command, "--date=2026-11-22"]) == 0
    after = digests(folder / "out")
    assert len(before) > 5
    assert {name: after[name] for name in before} == before
    first, second = (manifest(folder / "out" / "2026" / f"2026-11-{day}") for day in (21, 22))
    assert (first["date"], first["span"]) == ("2026-11-21", 20778)
    assert (second["date"], second["span"]) == ("2026-11-22", 20779)
    assert (first["counts"]["written"], second["counts"]["written"]) == (40, 50)
    assert first["recipe"]["sources"]["clicks"]["path"] == ["clicks/{date}.csv"]
    assert first["recipe_hash"] == second["recipe_hash"]
    assert [file["path"] for file in second["sources"]["clicks"]["files"]] == [
        "clicks/2026-11-22.csv"
    ]
    assert run([*command, "--date", "2026-11-21"]) == 2
    assert "out/2026/2026-11-21: there is a dataset already" in capsys.readouterr().err


def test_a_day_is_named_wherever_data_are_read(folder, capsys):
    """``--dry_run``, ``describe`` and ``validate`` take the day.

    A log without a recipe is named after its folder.
    """
    assert run(["convert", "recipe.yaml", "--date", "2026-11-22", "--dry_run"]) == 0
    assert "plan of 'clicks' of 2026-11-22, span 20779" in capsys.readouterr().out
    command = "describe clicks/{date}.csv --date 2026-11-22 --output described/{date} --quiet"
    assert run(command.split()) == 0
    description = json.loads((folder / "described" / "2026-11-22" / "description.json").read_text())
    assert (description["name"], description["date"], description["counts"]["read"]) == (
        "clicks",
        "2026-11-22",
        50,
    )
    assert run(["validate", "recipe.yaml", "--date", "2026-11-21"]) == 0
    assert run(["validate", "described/2026-11-22", "--date", "2026-11-21"]) == 2
    assert "found --date with described/2026-11-22" in capsys.readouterr().err


@pytest.fixture(scope="module")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Datasets with encodings.

    Two days are fitted each for itself. The second day also has the encodings of the first, found
    in three ways.
    """
    folder = tmp_path_factory.mktemp("encoded")
    write_day(folder, "2026-11-30", "aaabbcd" * 10)
    write_day(folder, "2026-12-01", "cccbbz" * 10)
    (folder / "prices").mkdir()
    (folder / "prices" / "202611.csv").write_text("item,price\na,1\nb,2\nc,3\n")
    (folder / "prices" / "202612.csv").write_text("item,price\na,10\nb,20\nc,30\n")
    (folder / "recipe.yaml").write_text(RECIPE)
    new = "--split train --date 2026-12-01 --output"
    for command in (
        f"convert {folder}/recipe.yaml --date 2026-11-30 --output {folder}/out/{{date}}",
        f"convert {folder}/recipe.yaml --date 2026-12-01 --output {folder}/anew",
        f"transform {folder}/out/2026-11-30 {new} {folder}/out/{{date}}",
        f"transform {folder}/out/2026-11-30 {folder}/clicks/{{date:%Y-%m-%d}}.csv {new} {folder}/pattern",
        f"transform {folder}/out/2026-11-30 {folder}/clicks/2026-12-01.csv --output {folder}/file",
    ):
        assert run([*command.split(), "--quiet"]) == 0
    return folder


def rows(folder: Path | list[Path], split: str = "train") -> list[tuple[int, int, int]]:
    """Item, price and label of every row, sorted."""
    batches = loader.load(folder, split, batch_size=7, shuffle=False)
    found = [
        (f["item"][row, 0], f["price"][row, 0], label[row, 0])
        for f, label in batches
        for row in range(len(label))
    ]
    return sorted(tuple(int(value) for value in row) for row in found)


def test_a_later_day_by_the_encodings_of_the_first(encoded: Path) -> None:
    """A later day uses the encodings of the first, chosen by date.

    Each source is read from its place on the later day. Ids are those of the first day, where a
    convert would have given others.
    """
    assert rows(encoded / "out" / "2026-11-30") == sorted(
        [(0, 1, 1)] * 30 + [(1, 2, 0)] * 20 + [(3, 3, 0), (2, 0, 0)] * 10
    )
    by_first_day = sorted([(3, 30, 0)] * 30 + [(1, 20, 0)] * 20 + [(4, 0, 0)] * 10)
    assert rows(encoded / "out" / "2026-12-01") == by_first_day
    assert rows(encoded / "pattern") == by_first_day
    assert rows(encoded / "anew") == sorted(
        [(0, 30, 0)] * 30 + [(1, 20, 0)] * 20 + [(2, 0, 0)] * 10
    )
    later = manifest(encoded / "out" / "2026-12-01")
    assert (later["date"], later["span"]) == ("2026-12-01", 20788)
    assert later["recipe"]["sources"]["prices"]["path"] == ["prices/{date:%Y%m}.csv"]


def test_a_named_file_has_no_date(encoded: Path) -> None:
    """A named file has no date, and nor has the new dataset.

    Without ``--date`` other sources keep the files of the dataset.
    """
    assert rows(encoded / "file", "test") == sorted(
        [(3, 3, 0)] * 30 + [(1, 2, 0)] * 20 + [(4, 0, 0)] * 10
    )
    assert (manifest(encoded / "file")["date"], manifest(encoded / "file")["span"]) == (None, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("out/2026-11-30", "found no NEW_DATA, expected new files, or the --date"),
        ("out/2026-11-30 clicks/{date}.csv", "sources.clicks.path: found a date in"),
        ("out/2026-11-30 --date 2026-12-02", "sources.clicks.path: no file matches"),
        ("file --date 2026-12-01", "found --date without NEW_DATA, and the recipe's path of 'clicks'"),
        ("file clicks/2026-11-30.csv --date 2026-12-01", "found --date 2026-12-01, but no source has {date}"),
    ],
)  # fmt: skip
def test_wrong_dates_of_transform(encoded, monkeypatch, capsys, arguments, message):
    """A new day has to be said, and has to have files."""
    monkeypatch.chdir(encoded)
    assert run(["transform", *arguments.split(), "--output", "wrong"]) == 2
    assert message in capsys.readouterr().err
