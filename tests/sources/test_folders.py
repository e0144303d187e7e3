"""Folders as sources, with columns of folders named key=value."""

from __future__ import annotations

import datetime
import itertools
import re
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.manifest import ManifestSource
from beam_pipelines.pipeline.planning.transform import as_in_dataset
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.sources.wrapping import partitions
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, problems_of, read_rows, source, types_of, write


def write_events(folder: Path, keys: list[str], rows: int = 3, **more: Any) -> None:
    """Writes a Parquet file for each path of keys."""
    for number, key in enumerate(keys):
        path = folder / key / "part-0.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        values = range(number * rows, (number + 1) * rows)
        pq.write_table(pa.table({"n": list(values), **more}), path)


MONTHS = [f"year={year}/month={month:02}" for year in (2023, 2024) for month in (3, 11)]


@pytest.mark.parametrize("slash", ["", "/"])
def test_keys_of_folders_are_columns(tmp_path: Path, slash: str) -> None:
    """Rows have the keys of their folders, as in pyarrow."""
    write_events(tmp_path / "events", MONTHS)
    (tmp_path / "events" / "_SUCCESS").write_text("")
    path = f"{tmp_path}/events{slash}"
    found = read_rows(path)
    wanted = ds.dataset(f"{tmp_path}/events", partitioning="hive", exclude_invalid_files=True)
    assert found == wanted.to_table().sort_by("n").to_pylist()
    assert types_of(path) == {"n": "int64", "year": "int64", "month": "int64"}
    plan = plan_of(path)
    assert plan.decisions == (
        f"4 files of parquet in {tmp_path}/events",
        (
            "columns of folder names: year (int64), month (int64)  # 'types: {month: text}' keeps "
            "leading zeros"
        ),
    )
    texts = read_rows(path, types={"month": "text", "year": "float32"})
    assert texts[0] == {"n": 0, "year": 2023.0, "month": "03"}


@pytest.mark.parametrize(
    ("values", "type_", "wanted"),
    [
        (["1", "2"], "int64", [1, 2]),
        (["1", "x"], "string", ["1", "x"]),
        (["1", "__HIVE_DEFAULT_PARTITION__"], "int64", [1, None]),
        (["2024-01-02", "2024-01-03"], "date32[day]",
         [datetime.date(2024, 1, 2), datetime.date(2024, 1, 3)]),
        (["2024-01-02", "2024-02-31"], "string", ["2024-01-02", "2024-02-31"]),
        (["a%20b%2Fc", "é"], "string", ["a b/c", "é"]),
        (["9" * 18, "9" * 19], "string", ["9" * 18, "9" * 19]),
        (["__HIVE_DEFAULT_PARTITION__"] * 1, "string", [None]),
        (["", "1"], "string", ["", "1"]),
    ],
)  # fmt: skip
def test_types_of_keys(tmp_path: Path, values: list[str], type_: str, wanted: list[Any]) -> None:
    """The type has all folders' values; the default folder is null."""
    write_events(tmp_path / "e", [f"k={value}" for value in values], rows=1)
    assert types_of(tmp_path / "e")["k"] == type_
    found = sorted((row["k"] is None, str(row["k"])) for row in read_rows(tmp_path / "e"))
    assert found == sorted((value is None, str(value)) for value in wanted)


@given(st.dictionaries(st.text("ab =%é/", min_size=1, max_size=3), st.text("x/%= é1-"), max_size=3))
def test_keys_are_decoded_as_they_are_written(values: dict[str, str]) -> None:
    """Escapes of Hive's writers are taken back."""
    import urllib.parse

    quoted = (
        f"{urllib.parse.quote(key, safe='')}={urllib.parse.quote(value, safe='')}"
        for key, value in values.items()
    )
    path = "/".join(["/d", *quoted, "f.parquet"])
    assert partitions.partition_of(path, ["/d"]) == values


@pytest.mark.parametrize("columns", [("month", "n"), ("n", "year"), ("n",), ()])
def test_columns_are_selected_and_ordered(tmp_path: Path, columns: tuple[str, ...]) -> None:
    """The key ``columns`` knows columns of folders as others."""
    write_events(tmp_path / "e", MONTHS)
    rows = read_rows(tmp_path / "e", columns=columns)
    assert [tuple(row) for row in rows] == [columns or ("n", "year", "month")] * 12
    problems = problems_of(tmp_path / "e", columns=("year",))
    assert "expected one of the files, too" in problems["sources", "s", "columns"]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "csv.gz"])
def test_other_formats_have_keys_too(tmp_path: Path, suffix: str) -> None:
    """Text files have keys, too, with a header or without."""
    import gzip

    for day in (1, 2):
        folder = tmp_path / "e" / f"day={day}"
        folder.mkdir(parents=True)
        text = f'{{"a": {day}, "b": "x"}}\n' if suffix == "jsonl" else f"a,b\n{day},x\n"
        data = gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode()
        (folder / f"p.{suffix}").write_bytes(data)
    assert read_rows(tmp_path / "e") == [{"a": day, "b": "x", "day": day} for day in (1, 2)]
    if suffix == "csv":
        found = read_rows(tmp_path / "e", header=False, columns=("c", "d"), types={"c": "text"})
        assert found[1] == {"c": "1", "d": "x", "day": 1}
        for day in (1, 2):
            (tmp_path / "e" / f"day={day}" / "p.csv").write_text(f",b\n0,{day}\n1,5\n2,6\n")
        assert list(read_rows(tmp_path / "e")[0]) == ["b", "day"]


def test_many_small_files_are_read_together(tmp_path: Path) -> None:
    """Rows of files that are read together keep their keys."""
    for number in range(300):
        folder = tmp_path / "e" / f"k={number // 2}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:03}.csv").write_text(f"n\n{number}\n")
    plan = plan_of(tmp_path / "e")
    assert len(plan.ranges) == 1
    rows = read.read_table(plan, reject=False)[0].to_pylist()
    assert sorted(row["n"] for row in rows) == list(range(300))
    assert all(row["k"] == row["n"] // 2 for row in rows)


def test_a_bad_row_has_its_place(tmp_path: Path) -> None:
    """Messages name file and row, as without keys."""
    write_events(tmp_path / "e", MONTHS, l=[[1], [None], [2]])
    with pytest.raises(DataError, match=r"month=03/part-0.parquet, row 2, column 'l'"):
        read_rows(tmp_path / "e")


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ("z=3/year=2023", "found the keys z, year in the names of its folders, expected the keys"),
        ("year=2025", "found the keys year in the names of its folders, expected the keys year, m"),
        ("zz", "found no key=value in the names of its folders, expected the keys year, month"),
    ],
)  # fmt: skip
def test_folders_that_differ(tmp_path: Path, others: str, message: str) -> None:
    """Files with other keys are an error that names two."""
    write_events(tmp_path / "e", [*MONTHS, others])
    with pytest.raises(DataError, match=re.escape(message)):
        plan_of(tmp_path / "e")


def test_a_column_in_file_and_folder(tmp_path: Path) -> None:
    """A name twice is an error, and its remedy works."""
    write_events(tmp_path / "e", MONTHS, year=[1, 2, 3])
    with pytest.raises(DataError, match="found the column 'year' in the file and in") as caught:
        plan_of(tmp_path / "e")
    [pattern] = re.findall(r"write the pattern '(.*?)'", str(caught.value))
    assert {tuple(row) for row in read_rows(pattern)} == {("n", "year")}


def test_declared_types_are_checked_for_all_folders(tmp_path: Path) -> None:
    """A folder whose value has another type is named."""
    write_events(tmp_path / "e", ["k=1", "k=x"])
    [(path, message)] = problems_of(tmp_path / "e", types={"k": "int64"}).items()
    assert path == ("sources", "s", "types")
    assert "column 'k': found 'x' in " in message


def test_a_folder_of_several_formats_is_asked_about(tmp_path: Path) -> None:
    """The problem counts the formats, and its remedy works."""
    write_events(tmp_path / "e", MONTHS)
    write(tmp_path / "e" / "notes.csv", "a\n1\n")
    [message] = problems_of(tmp_path / "e").values()
    assert "1 of csv, 4 of parquet" in message
    [format_] = re.findall(r"'format: (.*?)'", message)
    assert len(read_rows(tmp_path / "e", format=format_)) == 12


@pytest.mark.parametrize(("output", "format_"), [("out", ""), ("a/out.csv", "csv")])
def test_datasets_are_no_data(tmp_path: Path, output: str, format_: str) -> None:
    """A folder is read as before a run wrote into it."""
    for name in ("x.csv", "dataset.json.csv", "a/dataset.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        write(tmp_path / name, "k,v\n1,2\n")
    before = plan_source(Source("s", (str(tmp_path),), format=format_ or None), "")
    for name in ("dataset.json", "schema/schema.pbtxt", "index/i.arrow", "rejected/r.csv"):
        (tmp_path / output / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / output / name, "{}")
    after = plan_source(Source("s", (f"{tmp_path}/",), format=format_ or None), "")
    assert [file.path for file in after.files] == [file.path for file in before.files]
    assert any("without out" in each for each in after.decisions)
    shard = tmp_path / output / "examples" / "x.tfrecord"
    shard.parent.mkdir()
    shard.write_bytes(b"")
    with pytest.raises(DataError, match=r"examples/x.tfrecord: found an empty file"):
        plan_source(Source("s", (f"{tmp_path}/",), format="raw_records"), "")


def test_empty_files_are_removed_by_the_command_of_the_error(tmp_path: Path) -> None:
    """Engines write an empty part where a worker had no rows."""
    folder = tmp_path / "a b"
    folder.mkdir()
    write(folder / "part-0.csv", "k,v\n1,2\n")
    write(folder / "part-1.csv", "")
    with pytest.raises(DataError, match="found an empty file") as caught:
        plan_source(Source("s", (str(folder),)), "")
    command = str(caught.value).partition("empty files: ")[2]
    subprocess.run(["bash", "-c", command], check=True)
    assert [file.name for file in folder.iterdir()] == ["part-0.csv"]
    assert plan_source(Source("s", (str(folder),)), "").size_bytes == 8


@pytest.mark.parametrize("is_zip", [False, True])
def test_files_that_are_no_data(tmp_path: Path, is_zip: bool) -> None:
    """Texts about data and unknown suffixes are left out; tables are read."""
    names = ("README.txt", "data/LICENSE", "notes.md", "Citation.bib", "adult.test")
    texts = dict.fromkeys(names, "a\nb\n")
    tables = dict.fromkeys(("data/authors.csv", "notes-2024.csv", "x.csv"), "k,v\n1,2\n")
    folder = tmp_path / "d"
    for name, text in (texts | tables).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    path = shutil.make_archive(str(tmp_path / "z"), "zip", folder) if is_zip else str(folder)
    plan = plan_source(Source("s", (path,)), "")
    assert sorted(file.path for file in plan.files) == sorted(f"{path}/{name}" for name in tables)
    begin, _, others = plan.decisions[0].partition(", without ")
    assert begin == f"3 files of csv in {path}"
    assert {name.rpartition("/")[2] for name in texts} == set(others.split(", "))
    (folder / "only.tsv").write_text("k\tv\n1\t2\n")
    named = plan_source(Source("s", (str(folder),), format="tsv"), "").decisions[0]
    assert named.startswith(f"1 file of tsv in {folder}, without ")
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "notes.txt").write_text("k,v\n1,2\n")
    assert len(plan_source(Source("s", (str(tmp_path / "only"),)), "").files) == 1


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.csv.gz", "c/a.jpg", "a.avro"])
def test_pointers_of_git_lfs_are_no_data(tmp_path: Path, name: str) -> None:
    """A pointer in place of a file is an error."""
    path = tmp_path / "d" / name
    path.parent.mkdir(parents=True)
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 123\n")
    is_image = name.endswith(".jpg")
    one = Source("s", (str(tmp_path / "d"),), format="images" if is_image else None)
    with pytest.raises(DataError, match=r"pointer of Git LFS.*'git lfs pull'"):
        plan_source(one, "")


def test_folders_without_data(tmp_path: Path) -> None:
    """Nothing, and files of other suffixes, are problems."""
    (tmp_path / "e").mkdir()
    assert "found no file in " in problems_of(tmp_path / "e")["sources", "s", "path"]
    write(tmp_path / "e" / "a.docx", "x")
    assert (
        "a.docx, whose suffix is of no format"
        in problems_of(tmp_path / "e")["sources", "s", "path"]
    )
    write_events(tmp_path / "e", ["k=1"])


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("_delta_log/00000000000000000000.json", "Delta Lake in .*Set 'format: delta'"),
        ("metadata/0.metadata.json", "Iceberg in .*Set 'format: iceberg'"),
        (".hoodie/hoodie.properties", "Hudi in .*Export its rows"),
    ],
)
def test_folders_of_tables(tmp_path: Path, log: str, words: str) -> None:
    """Files of tables are not read without the table."""
    write_events(tmp_path / "e", ["k=1"])
    (tmp_path / "e" / log).parent.mkdir()
    write(tmp_path / "e" / log, "{}")
    found = problems_of(tmp_path / "e", format="csv")["sources", "s", "path"]
    assert re.search(f"found a table of {words}", found)


@pytest.mark.parametrize(
    ("folder", "metadata", "stem"),
    [("e", "zarr.json", "e"), ("e.zarr", "zarr.json", "e"), ("e.zarr", ".zgroup", "e")],
)
def test_a_zarr_store_is_not_read(tmp_path: Path, folder: str, metadata: str, stem: str) -> None:
    """Its metadata are no rows, unless the recipe asks for them."""
    (tmp_path / folder / "x").mkdir(parents=True)
    for path in (tmp_path / folder / metadata, tmp_path / folder / "x" / metadata):
        write(path, '{"zarr_format": 3}')
    write(tmp_path / folder / "x" / "0", b"\0" * 8)
    found = problems_of(tmp_path / folder)["sources", "s", "path"]
    assert "found a Zarr store in " in found
    assert f"numpy.savez('{stem}.npz', **dict(zarr.open('{folder}').arrays()))" in found
    if metadata == "zarr.json":
        rows = read_rows(tmp_path / folder / metadata, format="json")
        assert rows == [{"zarr_format": 3}]


def test_a_zarr_store_in_an_archive(tmp_path: Path) -> None:
    """It is not read there, either."""
    with zipfile.ZipFile(tmp_path / "e.zarr.zip", "w") as archive:
        archive.writestr("zarr.json", '{"zarr_format": 3}')
    assert "found a Zarr store" in problems_of(tmp_path / "e.zarr.zip")["sources", "s", "path"]


def test_new_data_keep_the_types_of_keys(tmp_path: Path) -> None:
    """A later folder is read with the dataset's types."""
    write_events(tmp_path / "e", ["k=1"])
    columns = {"n": "int64", "k": "text"}
    entry = ManifestSource(format="parquet", columns=columns, partitions=("k",))
    kept = as_in_dataset(source(tmp_path / "e"), entry)
    assert kept.types == {"k": "text"}
    assert read_rows(tmp_path / "e", types=kept.types)[0]["k"] == "1"


def test_pickled_plans_read_the_same(tmp_path: Path) -> None:
    """Workers read by the plan that travels to them."""
    import pickle

    write_events(tmp_path / "e", MONTHS)
    plan = pickle.loads(pickle.dumps(plan_of(tmp_path / "e")))  # noqa: S301 - our own bytes
    rows = list(itertools.chain(*(c.batch.to_pylist() for c in read.read_chunks(plan, False))))
    assert rows == read_rows(tmp_path / "e")


def test_files_of_no_format_can_be_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command of the error makes an archive that is read."""
    monkeypatch.chdir(tmp_path)
    Path("sounds").mkdir()
    for name in "ab":
        write(Path("sounds") / f"{name}.wav", f"RIFF {name}")
    [message] = problems_of("sounds").values()
    [command] = re.findall(r"'(tar .*?)'", message)
    subprocess.run(command.split(), check=True)
    rows = read_rows("files.tar", format="webdataset")
    assert sorted(row["wav"] for row in rows) == [b"RIFF a", b"RIFF b"]


@pytest.mark.parametrize(
    "first",
    ["I like it, really.\nYes.", "I liked it a lot.\nGood.", "One, one, two. What", "Good\u3002"],
)
def test_a_folder_of_texts_is_packed(tmp_path, monkeypatch, first):
    """The command of the error makes rows of texts."""
    monkeypatch.chdir(tmp_path)
    texts = {("neg", "a"): first, ("pos", "b"): "Well done.", ("neg", "c"): "No!"}
    for (label, name), text in texts.items():
        path = tmp_path / "d" / label / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, text)
    with pytest.raises(DataError, match="If each file is a text") as caught:
        plan_of("d")
    command = re.findall("'(tar .*?)'", str(caught.value))[0]
    subprocess.run(command, shell=True, check=True)  # noqa: S602 - the remedy
    rows = {row["__key__"]: row["txt"] for row in read_rows("texts.tar")}
    assert rows == {f"./{'/'.join(key)}": text for key, text in texts.items()}
