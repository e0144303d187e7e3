"""Tests of splits by the row as read, and of TFX's splits.

TFX's rule in plain Python is the oracle.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import hashlib
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from hypothesis import example as with_example
from hypothesis import given, settings
from hypothesis import strategies as st
from tfx_bsl.coders import csv_decoder

from beam_pipelines.core.errors import DataError, RecipeProblems
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.pipeline.row_chain import split_rows
from beam_pipelines.transforms.join.join import load_index
from beam_pipelines.transforms.read import read_range
from tests.sources.support import write
from tests.sources.test_tfrecord_sequences import sequence, write_records
from tests.support.kernels import without_kernels

HEADER = ["id", "price", "city", "city_zip", "none"]
LINES = ["1,0.1,Köln,a,", '-7,,"a, ""b""",b2,', ",3,,c,", "9223372036854775807,1e30,x,,"]
LINES += [f"{number},{number / 3},city {number % 5},z{number}," for number in range(60)]
OPTIONS = "nulls: '', infer: full"
SHORT = f"{{path: v.csv, {OPTIONS}}}"
BUCKETS = "split: {train: {buckets: 6}, eval: {buckets: 1}, test: {buckets: 2}}"


def plan_in(folder: str | Path, recipe: str) -> Plan:
    """Plans a recipe whose paths begin in a folder."""
    parsed = parse_recipe(f"name: t\n{recipe}", "r.yaml")
    return make_plan(dataclasses.replace(parsed, directory=str(folder)))


def rows_of(folder: str | Path, recipe: str) -> list[tuple[str, dict[str, Any]]]:
    """Returns each row of a recipe with its split, without Beam."""
    plan = plan_in(folder, recipe)
    rows = []
    for byte_range in plan.base.ranges:
        chunks = read_range(plan.base, byte_range, {}, reject=False)
        for chunk in split_rows(plan, chunks, lambda step, _: load_index(step, reject=False)):
            rows += [(chunk.split, row) for row in chunk.batch.to_pylist()]
    return rows


def split_of(key: bytes, buckets: tuple[int, ...] = (6, 1, 2)) -> str:
    """TFX's ``_PartitionFn``."""
    ends = [sum(buckets[: number + 1]) for number in range(len(buckets))]
    place = int(hashlib.sha256(key).hexdigest(), 16) % ends[-1]
    return ("train", "eval", "test")[bisect.bisect(ends, place)]


def csv_examples(header: list[str], lines: Iterable[str]) -> list[tf.train.Example]:
    """The tf.Examples of TFX's CsvExampleGen, by tfx-bsl's reader and types."""
    parse = csv_decoder.ParseCSVLine(delimiter=",")
    parse.setup()
    rows = [cells for line in lines for cells, _ in parse.process(line)]
    infer = csv_decoder.ColumnTypeInferrer(header, skip_blank_lines=True)
    types = infer.create_accumulator()
    for cells in rows:
        types = infer.add_input(types, cells)
    examples = []
    for cells in rows:
        made = tf.train.Example()
        for cell, info in zip(cells, infer.extract_output(types), strict=True):
            feature = made.features.feature[info.name]
            if info.type == csv_decoder.ColumnType.INT:
                feature.int64_list.value.extend([int(cell)] if cell else [])
                feature.int64_list.SetInParent()
            elif info.type == csv_decoder.ColumnType.FLOAT:
                feature.float_list.value.extend([float(cell)] if cell else [])
                feature.float_list.SetInParent()
            elif info.type == csv_decoder.ColumnType.STRING:
                feature.bytes_list.value.extend([cell] if cell else [])
                feature.bytes_list.SetInParent()
        examples.append(made)
    return examples


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write(tmp_path / "t.csv", "\n".join([",".join(HEADER), *LINES]) + "\n")
    return tmp_path


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("more", ["", "drop: [price, none]", "derive: {twice: id / 2}\nkeep: id"])
def test_buckets_of_csv_rows_are_those_of_tfx(table: Path, kernels: bool, more: str) -> None:
    """Buckets of CSV rows are those of TFX.

    The key is the example of CsvExampleGen, and does not depend on the columns that the recipe
    keeps.
    """
    with contextlib.nullcontext() if kernels else without_kernels():
        found = rows_of(table, f"sources: {{t: {{path: t.csv, {OPTIONS}}}}}\n{BUCKETS}\n{more}")
    examples = csv_examples(HEADER, LINES)
    expected = [split_of(made.SerializeToString(deterministic=True)) for made in examples]
    by_id = {
        tuple(made.features.feature["id"].int64_list.value): split
        for made, split in zip(examples, expected, strict=True)
        if made.features.feature["id"].int64_list.value != [1]  # there twice
    }
    assert len(found) == len(LINES)
    assert set(expected) == {"train", "eval", "test"}
    for split, row in found:
        if row["id"] != 1:
            assert split == by_id[() if row["id"] is None else (row["id"],)]
            assert set(row) <= {*HEADER, "twice"}


CELLS = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.floats(-1e30, 1e30).map(repr),
    st.just(""),
    st.text("ab", max_size=3),
)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([["a", "b"], ["a", "ab"], ["b", "a"]]),
    st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8),
)
@with_example(["a", "ab"], [("1", ""), ("", "x")])
@with_example(["a", "b"], [("", "b"), ("a", "")])
@with_example(["a", "b"], [("a", "a"), ("", "0"), ("0", ""), ("0", "0")])
def test_any_table_has_the_rows_of_tfx(header: list[str], cells: list[tuple[str, str]]) -> None:
    """Splits of any table have as many rows as in TFX.

    Cells are numbers, texts, or empty. Some tables are refused.
    """
    lines = [f"{left},{right}" for left, right in cells]
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "t.csv", "\n".join([",".join(header), *lines]) + "\n")
        try:
            options = f"header: true, {OPTIONS}"  # else texts like the names are no header
            found = rows_of(folder, f"sources: {{t: {{path: t.csv, {options}}}}}\n{BUCKETS}")
        except (RecipeProblems, DataError) as error:
            refused = ("only numbers", "is date", "beyond int64", "rounds", "expected the type")
            refused += ("expected one line of names",)
            if not any(reason in str(error) for reason in refused):
                raise
            return
    expected = [
        split_of(made.SerializeToString(deterministic=True)) for made in csv_examples(header, lines)
    ]
    assert sorted(split for split, _ in found) == sorted(expected)


def test_buckets_of_records_are_those_of_tfx(tmp_path: Path) -> None:
    """Buckets of records are those of TFX.

    The key is the whole record in protobuf's deterministic mode, with all features. The key of a
    raw record is its bytes.
    """
    records, expected = [], {}
    for number in range(40):
        made = tf.train.Example()
        for name in ("z", "a", "ab"):
            made.features.feature[name].int64_list.value.append(number)
        made.features.feature["none"].SetInParent()
        records.append(made.SerializeToString())
        expected[number] = split_of(made.SerializeToString(deterministic=True))
    write_records(tmp_path / "a.tfrecord", *records)
    found = rows_of(tmp_path, f"sources: {{t: {{path: a.tfrecord, columns: z}}}}\n{BUCKETS}")
    assert {row["z"]: split for split, row in found} == expected
    raw = rows_of(tmp_path, f"sources: {{t: {{path: a.tfrecord, format: raw_records}}}}\n{BUCKETS}")
    assert len(raw) == 40
    assert all(split == split_of(row["record"]) for split, row in raw)
    lists = [sequence({"id": [number]}, {"x": [[number]]}) for number in range(20)]
    write_records(tmp_path / "s.tfrecord", *lists)
    for split, row in rows_of(tmp_path, f"sources: {{t: s.tfrecord}}\n{BUCKETS}"):
        parsed = tf.train.SequenceExample.FromString(lists[row["id"]])
        assert split == split_of(parsed.SerializeToString(deterministic=True))


@pytest.mark.parametrize("options", ["format: raw_records", "", f"{OPTIONS}, format: csv"])
@pytest.mark.parametrize(
    "sources",
    [
        "{t: {path: 'd', @}}",
        "{a: {path: 'd/k=1/*', @}, b: {path: 'd/k=2/*', @}, t: {union: [a, b]}}\nfrom: t",
        "{a: {path: d/k=1, @}, b: {path: d/k=2, @}, t: {union: [a, b], origin: k}}\nfrom: t",
    ],
)
def test_buckets_do_not_depend_on_where_rows_come_from(tmp_path, sources, options):
    """Folders' keys, unions and their origin do not move rows between buckets."""
    is_csv = "csv" in options
    for part in (1, 2):
        folder, numbers = tmp_path / "d" / f"k={part}", range(20 * part, 20 * part + 20)
        folder.mkdir(parents=True)
        if is_csv:
            write(folder / "t.csv", "n\n" + "".join(f"{number}\n" for number in numbers))
        else:
            made = (tf.train.Example() for _ in numbers)
            for example, number in zip(records := list(made), numbers, strict=True):
                example.features.feature["n"].int64_list.value.append(number)
            serialized = [one.SerializeToString() for one in records]
            write_records(folder / "t.tfrecord", *serialized)
    options = options or "format: tfrecord"
    plain = rows_of(tmp_path, f"sources: {{t: {{path: 'd/*/t.*', {options}}}}}\n{BUCKETS}")
    found = rows_of(tmp_path, f"sources: {sources.replace('@', options)}\n{BUCKETS}")
    assert len({split for split, _ in plain}) > 1
    assert any("k" in row for _, row in found) == ("'d/k=1/*'" not in sources)
    for (split, row), (other, same) in zip(found, plain, strict=True):
        assert (split, {**row, "k": 0}) == (other, {**same, "k": 0})


@pytest.mark.parametrize("column", ["id", "city"])
def test_buckets_by_a_feature_are_those_of_tfx(table: Path, column: str) -> None:
    """Buckets by a feature are those of TFX.

    The key is the Feature, as with ``partition_feature_name``. An empty cell has one, too.
    """
    split = BUCKETS.replace("}}", f"}}, by: {column}}}")
    for name, row in rows_of(table, f"sources: {{t: {{path: t.csv, {OPTIONS}}}}}\n{split}"):
        value, feature = row[column], tf.train.Feature()
        kind = feature.int64_list if column == "id" else feature.bytes_list
        kind.SetInParent()
        if value is not None:
            kind.value.append(value if column == "id" else value.encode())
        assert name == split_of(feature.SerializeToString(deterministic=True))


@pytest.mark.parametrize(
    ("source", "rest", "message"),
    [
        ("t.csv", BUCKETS, "only an empty cell has no value"),
        ("{path: t.csv, nulls: ''}", BUCKETS, "'none' has no value in the sample.*infer: full"),
        (f"{{path: t.csv, {OPTIONS}, columns: id}}", BUCKETS, "hashes them all"),
        (f"{{path: t.csv, {OPTIONS}, types: {{id: float32}}}}", BUCKETS, "is float32, expected"),
        (f"{{path: zip.csv, {OPTIONS}}}", BUCKETS, "'zip' is text, but the sample has only numb"),
        (f"{{path: day.csv, {OPTIONS}}}", BUCKETS, "'day' is date, expected"),
        ("t.jsonl", BUCKETS, "format 'json_lines'.*'by'"),
        ("t.jsonl", BUCKETS.replace("}}", "}, by: b}"), "'b' is float64, expected"),
        ("t.jsonl", BUCKETS.replace("}}", "}, by: c}"), "'c', which is not there"),
        (f"{{union: [u, v], missing: fill}}, u: {{path: t.csv, {OPTIONS}}}, v: {SHORT}", f"from: t\n{BUCKETS}",
         r"'v', 'columns'\).*found no column 'price', which other sources of the union have"),
        (f"{{path: t.csv, {OPTIONS}}}", f"{BUCKETS}\nsequence: {{group_by: id}}", "buckets with 'group_by'"),
    ],
)  # fmt: skip
def test_what_cannot_be_reproduced(table: Path, source: str, rest: str, message: str) -> None:
    """Sources are refused if their examples in TFX are uncertain.

    The error says what to do.
    """
    write(table / "zip.csv", "zip\n00501\n00502\n")
    write(table / "day.csv", "day\n2013-01-01\n")
    write(table / "v.csv", "id\n1\n")
    write(table / "t.jsonl", '{"a": 1, "b": 0.5}\n')
    with pytest.raises(RecipeProblems, match=f"(?s){message}"):
        rows_of(table, f"sources: {{t: {source}}}\n{rest}")


def test_declared_texts_of_numbers_are_texts(table: Path) -> None:
    """A column of numbers with the declared type text is accepted.

    TFX may have found a text in a cell after the sample.
    """
    write(table / "zip.csv", "zip\n00501\n00502\n")
    assert rows_of(
        table, f"sources: {{t: {{path: zip.csv, {OPTIONS}, types: {{zip: text}}}}}}\n{BUCKETS}"
    )


def test_a_null_is_in_no_bucket_but_of_csv(table: Path) -> None:
    """Where TFX has no value to split by, there is an error."""
    write(table / "t.jsonl", '{"a": "x", "b": 0.5}\n{"b": 1}\n')
    with pytest.raises(DataError, match="column 'a': found 1 rows without a value"):
        rows_of(table, f"sources: {{t: t.jsonl}}\n{BUCKETS.replace('}}', '}, by: a}')}")


@pytest.mark.parametrize(
    "change",
    [
        "drop: [price]",
        "keep: [id, city]",
        "derive: {twice: id / 2}",
        "derive: {twice: id / 2}\ndrop: [price, city, none]\nfilter: id > 3",
    ],
)
def test_shares_are_those_of_the_row_as_read(table: Path, change: str) -> None:
    """Without 'by', transforms of a row do not change its split."""
    source, split = "sources: {t: t.csv}", "split: {train: 0.5, eval: 0.5}"
    raw = {row["id"]: name for name, row in rows_of(table, f"{source}\n{split}") if row["id"] != 1}
    found = [(row["id"], name) for name, row in rows_of(table, f"{source}\n{split}\n{change}")]
    assert len(found) > 50
    assert set(raw.values()) == {"train", "eval"}
    for number, name in found:
        assert number == 1 or raw[number] == name
