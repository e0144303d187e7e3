"""The findings of fuzzing, each by its smallest input, and today's results."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import importlib
import json
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from beam_pipelines.core.errors import DataError, PipelineError, RecipeProblems
from beam_pipelines.core.layout import manifest as manifest_values
from beam_pipelines.dataset import manifest
from beam_pipelines.files.beam import files
from beam_pipelines.pipeline.planning.recipes import load
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.sources.images import safe_pickle
from beam_pipelines.sources.plan import ByteRange
from beam_pipelines.sources.text import quotes
from beam_pipelines.sources.tfrecord.decoder import decode_records
from beam_pipelines.tfrecord import framing
from beam_pipelines.transforms import read
from tests.fuzz.targets import module_of, part_index
from tests.fuzz.targets.tfrecord import framed
from tests.sources import support
from tests.support.kernels import without_kernels
from tests.support.manifests import small_manifest

MARK = b"\xef\xbb\xbf"
CORPUS = Path(__file__).parent / "corpus"


def rows_cut_at(path: str, place: int, **options: Any) -> list[dict[str, Any]]:
    """Reads a file as two ranges."""
    plan = support.plan_of(path, **options)
    file = plan.files[0]
    ranges = (ByteRange(0, 0, file, 0, place), ByteRange(1, 1, file, place, file.size_bytes))
    return read.read_table(dataclasses.replace(plan, ranges=ranges), reject=False)[0].to_pylist()


@pytest.mark.parametrize("place", [5, 8, 10])
def test_a_mark_within_a_csv_file_is_text_wherever_it_is_cut(tmp_path: Path, place: int) -> None:
    """A byte order mark within a file belongs to a cell.

    pyarrow drops them at the beginning of each part that it is given.
    """
    path = support.write(tmp_path / "a.csv", b"a,b\nx,1\n" + MARK + b"y,2\n")
    assert rows_cut_at(path, place, types={"a": "text"}) == [
        {"a": "x", "b": 1},
        {"a": "\ufeffy", "b": 2},
    ]


def test_part_of_a_mark_at_the_end_of_a_csv_file_is_read(tmp_path: Path) -> None:
    """Two bytes that could begin a mark are two bytes."""
    path = support.write(tmp_path / "a.csv", b"a\nx\n\xef\xbb")
    plan = support.plan_of(path, types={"a": "bytes"})
    file = plan.files[0]
    cut = dataclasses.replace(
        plan, ranges=(ByteRange(0, 0, file, 0, 4), ByteRange(1, 1, file, 4, 6))
    )
    assert read.read_table(cut, reject=False)[0].to_pylist() == [{"a": b"x"}, {"a": b"\xef\xbb"}]


def test_a_line_of_null_is_no_row_of_json_lines(tmp_path: Path) -> None:
    """A line of ``null`` in JSON Lines is no row.

    As the first line it crashes pyarrow, and elsewhere pyarrow reads a row of nulls.
    """
    path = support.write(tmp_path / "a.jsonl", b'{"a":1}\nnull\n  null\r\n{"a":2}\n')
    table, _, rejected = read.read_table(support.plan_of(path), reject=True)
    assert table.to_pylist() == [{"a": 1}, {"a": 2}]
    assert [bad.position for bad in rejected] == ["line 2", "line 3"]
    for text in (b"null", b"null\n", b"\n null\n", b'nul":-0.0}\n{"a":1}\n'):
        with pytest.raises(DataError, match="line"):
            support.read_rows(support.write(tmp_path / "b.jsonl", text))


def test_a_carriage_return_ends_a_line_of_json(tmp_path: Path) -> None:
    """A carriage return ends a line of JSON.

    To pyarrow it is a blank within an object, which gives one row of two lines. Among many bad
    lines, a line was then read twice.
    """
    data = b'{"a":1}\r{"a":2}\r\n{"a":\r3}\n{"a": 4}[1]\na": 1}\n{"a": 5}\n'
    table, _, rejected = read.read_table(
        support.plan_of(support.write(tmp_path / "a.jsonl", data)), reject=True
    )
    assert table.to_pylist() == [{"a": 1}, {"a": 2}, {"a": 5}]
    assert [bad.position for bad in rejected] == ["line 3", "line 4", "line 5", "line 6"]
    with pytest.raises(DataError, match="line 1"):
        support.read_rows(support.write(tmp_path / "b.jsonl", b'{"a":\r1}\n{"a":2}\n'))


def test_a_mark_within_a_json_file_is_no_json(tmp_path: Path) -> None:
    """A line with a byte order mark is a bad row."""
    path = support.write(tmp_path / "a.jsonl", b'{"a":1}\n' + MARK + b'{"a":2}\n')
    plan = support.plan_of(path)
    file = plan.files[0]
    for place in (8, file.size_bytes):
        ranges = (
            ByteRange(0, 0, file, 0, place),
            *([ByteRange(1, 1, file, 8, file.size_bytes)] if place == 8 else []),
        )
        table, _, (bad,) = read.read_table(dataclasses.replace(plan, ranges=ranges), reject=True)
        assert (table.to_pylist(), bad.position) == ([{"a": 1}], "line 2")
        assert "BOM" in bad.reason


@pytest.mark.parametrize(
    "line",
    [
        b'{"a": [null, {"b": null}]}',
        b'{"a": [null, {"b": null, "c": 1}]}',
        b'{"a": [{"b": null}, null]}',
    ],
)
def test_a_null_among_objects_is_explained(tmp_path: Path, line: bytes) -> None:
    """A null among objects is explained.

    pyarrow makes arrays with a missing part, which are refused before they are used.
    """
    path = support.write(tmp_path / "a.jsonl", b'{"a": [{"b": 1, "c": 1}]}\n' + line + b"\n")
    table, _, (bad,) = read.read_table(support.plan_of(path), reject=True)
    assert table.num_rows == 1
    assert "null inside a list" in bad.reason
    with pytest.raises(DataError):
        support.read_rows(support.write(tmp_path / "b.jsonl", line))


def test_objects_without_fields_are_an_error(tmp_path: Path) -> None:
    """Rows without a column would be lost without a word."""
    for text in (b"{}\n", b'{"a": {}}\n{"a": {}}\n', b'{"a": [{}]}'):
        with pytest.raises(DataError, match="without fields"):
            support.plan_of(support.write(tmp_path / "a.jsonl", text))


@pytest.mark.parametrize(
    "text", [b'{"a":1}\n{"a":2}\n{"a":[[1,2],[3,4]]}\n', b'{"a":[{"a":1}]}\n{"a":[[]]}\n']
)
def test_lines_that_lose_have_no_say_in_the_shape(tmp_path: Path, text: bytes) -> None:
    """An array among other values is a bad row."""
    table, _, rejected = read.read_table(
        support.plan_of(support.write(tmp_path / "a.jsonl", text)), reject=True
    )
    assert table.num_rows + len(rejected) == text.count(b"\n")
    assert len(rejected) == 1


def test_a_file_of_ragged_rows_is_refused_at_once(tmp_path: Path) -> None:
    """A file of ragged rows is refused within some seconds.

    Each row has a delimiter too many. The rows were once parsed one by one, for minutes.
    """
    path = support.write(tmp_path / "a.csv", b"a,b\n1,2\n" + b"1,2,3\n" * 200_000)
    start = time.process_time()
    with pytest.raises(DataError, match=r"line 3: found 3 cells, expected 2"):
        read.read_table(support.plan_of(path), reject=False)
    assert time.process_time() - start < 20


@pytest.mark.parametrize(
    "text", [b"", b"a,b", b'a,"b,\n,c",d\n,\n', b'"a","b"\n\n\r\nx,"",""\n', b'"x"y,2\n1,2\n' * 200]
)
def test_cells_are_counted_as_they_are_cut(text: bytes) -> None:
    """The number of a record's cells is that of Python's csv module.

    It is the number of delimiters outside quotes, and one more.
    """
    dialect = quotes.Dialect(ord(","), ord('"'))
    toggles = quotes.toggling_quotes(text, quotes.OUTSIDE, quotes.NEWLINE, dialect)
    starts, _ = quotes.record_spans(text, toggles)
    from tests.fuzz.targets.csv_ranges import records_by_python

    expected = [len(record.cells) for record in records_by_python(text, ",", '"')]
    assert quotes.count_cells(text, toggles, starts, dialect).tolist() == expected


@pytest.mark.parametrize("digits", [4_000, 4_301, 50_000])
def test_integers_of_thousands_of_digits_are_explained(tmp_path: Path, digits: int) -> None:
    """An integer of more than 4,300 digits is explained.

    Python refuses to convert it.
    """
    long = b"9" * digits
    with pytest.raises(DataError, match="none beyond int64"):
        support.plan_of(support.write(tmp_path / "a.csv", b"a\n1\n" + long + b"\n"))
    for text, position in (
        (b"1 1:1\n1 " + long + b":1\n", "line 2"),
        (b"1 qid:1 1:1\n1 qid:" + long + b" 1:1\n", "line 2"),
        (long + b" 1:1\n1 1:1\n", "line 1"),
    ):
        plan = support.plan_of(support.write(tmp_path / "a.libfm", text))
        table, _, (bad,) = read.read_table(plan, reject=True)
        assert (table.num_rows, bad.position) == (1, position)
    path = support.write(tmp_path / "a.jsonl", b'{"a":1}\n{"a":' + long + b"}\n")
    plan = support.plan_of(path, types={"a": "int64"})
    _, _, (bad,) = read.read_table(plan, reject=True)
    assert bad.position == "line 2"


def test_more_labels_than_an_idx_file_says_are_an_error(tmp_path: Path) -> None:
    """A file with labels behind those that its header counts is damaged."""
    arrays = support.write(
        tmp_path / "images-idx3", b"\0\0\x08\3" + struct.pack(">III", 2, 1, 1) + b"ab"
    )
    support.write(tmp_path / "labels-idx1", b"\0\0\x08\1" + struct.pack(">I", 2) + b"\0\1\2\3")
    plan = support.plan_of(arrays, format="idx")
    with pytest.raises(DataError, match="found more than"):
        read.read_table(plan, reject=True)


def test_both_readers_of_records_name_the_first_damaged_one(tmp_path: Path) -> None:
    """Both readers name the first damaged record, with and without kernels.

    They check the data of a record before the length of the next.
    """
    good = framed(b"abc")
    path = support.write(
        tmp_path / "a.tfrecord", good + good[:12] + b"abd" + good[15:] + b"\1" + good[1:]
    )
    for is_native in (True, False):
        with (
            contextlib.nullcontext() if is_native else without_kernels(),
            files.open_read(path) as file,
            pytest.raises(DataError, match=r"record 1, offset 19: the CRC of the data"),
        ):
            list(framing.read_record_blocks(file, path, "none"))


def test_damage_in_a_compressed_source_is_explained(tmp_path: Path) -> None:
    """A source names the place of damage in a compressed file.

    It reads the file again, through all layers that count and check its bytes.
    """
    content = bytearray(gzip.compress(framed(b"abc" * 50) * 20, mtime=0))
    content[len(content) // 2] ^= 0xFF
    path = support.write(tmp_path / "a.tfrecord.gz", bytes(content))
    with pytest.raises(DataError, match=r"record \d+"):
        support.read_rows(path, format="raw_records")


def test_an_array_in_fortrans_order_by_number() -> None:
    """An array's Fortran flag may be 0 or 1; None is refused.

    numpy takes any true value.
    """
    head = b"\x80\x04\x8c\x16numpy._core.multiarray\x94\x8c\x0c_reconstruct\x94\x93\x94\x8c\x05numpy\x94\x8c\x07ndarray\x93K\x00C\x01b\x87\x94R(K\x01K\x02K\x02\x86h\x03\x8c\x05dtype\x94\x93\x8c\x02u1\x89\x88\x87\x94R(K\x03\x8c\x01|\x94NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t\x94b"
    tail = b"C\x04\x00\x01\x02\x03\x94t\x94b."
    assert safe_pickle.loads(head + b"K\x01" + tail).tolist() == [[0, 2], [1, 3]]
    assert safe_pickle.loads(head + b"K\x00" + tail).tolist() == [[0, 1], [2, 3]]
    with pytest.raises(safe_pickle.UnsafePickleError, match="a state that no"):
        safe_pickle.loads(head + b"N" + tail)


@pytest.mark.parametrize("arguments", [b"\x89}\x87", b"\x89\x89\x87", b"\x88\x88\x87", b"\x85"])
def test_a_type_with_other_arguments_than_numpy_writes_is_refused(arguments: bytes) -> None:
    """A numpy type with unusual arguments is refused.

    A byte order is given to a copy of a type only. Arguments may ask for no copy, and numpy would
    leave the type as it is.
    """
    pickled = b"\x80\x04\x8c\x05numpy\x8c\x05dtype\x93\x8c\x02i2" + arguments + b"R."
    with pytest.raises(safe_pickle.UnsafePickleError, match="no pickled array has"):
        safe_pickle.loads(pickled)


def test_an_array_without_values_is_damaged() -> None:
    """An array without values is damaged.

    Python makes an empty array of such a pickle.
    """
    head = b"\x80\x04\x8c\x16numpy._core.multiarray\x94\x8c\x0c_reconstruct\x94\x93\x94\x8c\x05numpy\x94\x8c\x07ndarray\x93K\x00C\x01b\x87R"
    for pickled in (head + b".", b"\x80\x04}\x8c\x01a" + head[2:] + b"s."):
        with pytest.raises(safe_pickle.UnsafePickleError, match="a array in the place"):
            safe_pickle.loads(pickled)


@pytest.mark.parametrize("instruction", [b"]", b"}", b"(", b"N2", b"K\x07", b"X\0\0\0\0"])
@pytest.mark.parametrize("head", [b"\x80\x02", b"\x80\x04\x95" + (1 << 20).to_bytes(8, "little")])
def test_a_pickle_has_few_instructions(head: bytes, instruction: bytes) -> None:
    """More objects than a batch has are refused, in frames too."""
    with pytest.raises(safe_pickle.UnsafePickleError, match="far more objects than a batch"):
        safe_pickle.loads(head + instruction * (1 << 20) + b".")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("splits", {}),
        ("splits", []),
        ("splits/train/rows", "1"),
        ("splits/train/rows", True),
        ("splits/train/rows", -1),
        ("splits/train/shards", {}),
        ("splits/train/shards", []),
        ("splits/train/shards/0", "a"),
        ("splits/train/shards/0/path", 5),
        ("splits/train/shards/0/path", "../../x"),
        ("splits/train/shards/0/path", "/etc/passwd"),
        ("splits/train/shards/0/path", "a\0"),
        ("splits/train/shards/0/bytes", 1 << 70),
        ("splits/train/shards/0/crc32c", None),
        ("schema", "\ud800"),
        ("labels", 6),
        ("labels/y", "a"),
        ("label", 1),
        ("record", ["raw"]),
        ("compression", "lzma"),
        ("counts/merged", "x"),
        ("sources/a/files/0", "a"),
    ],
)
def test_a_manifest_of_another_form_is_refused(tmp_path: Path, path: str, value: object) -> None:
    """A manifest's wrong part is named with its place."""
    tree: Any = small_manifest()
    *parents, last = path.split("/")
    place = tree
    for key in parents:
        place = place[int(key) if isinstance(place, list) else key]
    place[int(last) if isinstance(place, list) else last] = value
    support.write(tmp_path / "dataset.json", json.dumps(tree))
    with pytest.raises(DataError, match=rf"dataset\.json: found .* at '{path}', expected"):
        manifest.read_manifest(str(tmp_path))


def test_a_manifest_that_is_as_it_should_be_is_read(tmp_path: Path) -> None:
    """The original manifest is read; a missing part is named."""
    described = small_manifest()
    described["splits"]["train"]["shards"] = []
    parse = manifest_values.parse_manifest
    for is_description, good in enumerate((small_manifest(), described)):
        parse(json.dumps(good).encode(), "d.json", bool(is_description))
        for key in ("schema", "splits", "compression", "counts", "label"):
            tree = {name: value for name, value in good.items() if name != key}
            with pytest.raises(DataError, match=f"lacks '{key}'"):
                parse(json.dumps(tree).encode(), "d.json", bool(is_description))
    with pytest.raises(DataError, match="expected a list with something in it"):
        parse(json.dumps(described).encode(), "d.json")
    with pytest.raises(DataError, match="at 'splits/train/shards', expected an empty list"):
        parse(json.dumps(small_manifest()).encode(), "d.json", True)
    support.write(tmp_path / "dataset.json", b"[" * 100_000)
    with pytest.raises(DataError, match="is not a manifest"):
        manifest.read_manifest(str(tmp_path))


def test_names_with_a_nul(tmp_path: Path) -> None:
    """A conversion to names with a NUL is refused, column by column.

    Examples keep them whole.
    """
    features = {"a\0b": [1], "a\0c": [2], "a": [3]}
    record = tf_example(features)
    assert decode_records([record], None, False).to_pydict() == {
        name: [value] for name, value in features.items()
    }
    path = support.write(tmp_path / "n.jsonl", b'{"a\\u0000b": 1, "a\\u0000c": 2, "d": 3}\n')
    recipe = support.write(tmp_path / "r.yaml", f"name: n\nsources: {{s: {{path: {path}}}}}\n")
    with pytest.raises(RecipeProblems) as caught:
        make_plan(load(str(recipe)))
    assert [problem.message.split(",")[0] for problem in caught.value.problems] == [
        rf"found the column or feature 'a\x00{letter}'" for letter in "bc"
    ]
    with open(recipe, "a") as file:
        file.write('drop: ["a\\0b", "a\\0c"]\n')
    assert make_plan(load(str(recipe))).encode.columns.names == ["d"]


@pytest.mark.filterwarnings("error")
def test_an_index_with_a_last_row_beyond_integers_is_refused() -> None:
    """Its sum with the part's rows overflows without a warning."""
    data = part_index.seeds()[2]
    index, _ = part_index.parsed(data)
    assert index is not None
    first_row = index.first_row.copy()
    first_row[-1] = (1 << 63) - 1
    found, why = part_index.parsed(
        part_index.written(dataclasses.replace(index, first_row=first_row))
    )
    assert found is None
    assert "column 'first_row' is wrong in part 1 of 3" in why


def tf_example(features: dict[str, list[int]]) -> bytes:
    """Returns a serialized tf.Example of integers."""
    example = tf.train.Example()
    for name, values in features.items():
        example.features.feature[name].int64_list.value.extend(values)
    return bytes(example.SerializeToString())


@pytest.mark.parametrize(
    ("name", "finding", "said"),
    [
        ("iceberg_log", "finding-deletes-among-data", "found no rows at snapshot 1"),
        ("sqlite_files", "finding-size-of-a-value", "SQLite answered: MemoryError"),
    ],
)
def test_damaged_tables_are_explained(monkeypatch, name, finding, said):
    """Odd manifests of Iceberg and sizes in SQLite's pages are errors."""
    module = importlib.import_module(module_of(name))
    found = []

    def noted(call: Callable[[], Any]) -> tuple[None, str]:
        with pytest.raises(PipelineError) as raised:
            call()
        found.append(str(raised.value))
        return None, ""

    monkeypatch.setattr(module, "explained", noted)
    module.TARGET.run((CORPUS / name / finding).read_bytes())
    assert said in found[0]
