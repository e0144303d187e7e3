"""TFRecord files without a schema: types are inferred from the records."""

from __future__ import annotations

import contextlib
import gzip
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError
from beam_pipelines.dataset.verify import verify_dataset
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.recipes import load
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.sources import FORMATS, format_of_path, inference
from beam_pipelines.tfrecord import framing
from beam_pipelines.transforms import read
from beam_pipelines_plugins.first_recipe.init import write_recipe
from tests.sources.support import plan_of, problems_of, read_rows, source, types_of, write
from tests.sources.test_tfrecord_sequences import sequence, write_records
from tests.sources.test_tfrecord_source import record
from tests.support.kernels import without_kernels
from tests.support.wire import of_values

FIRST = of_values(id=[1], price=[0.5], city=["Köln".encode()], raw=[b"\xff\xd8"], tags=[b"a", b"b"])
SECOND = of_values(city=[b"Ulm"], tags=[b"c"], id=[2])


@pytest.fixture(params=[True, False], ids=["kernels", "protobuf"])
def either(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs a test with the kernels and without them."""
    with contextlib.nullcontext() if request.param else without_kernels():
        yield


@pytest.fixture
def small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the sample the first record of each file."""
    monkeypatch.setattr(inference, "SAMPLE_BYTES", 1)
    monkeypatch.setattr(framing, "READ_BYTES", 1)


@pytest.mark.usefixtures("either")
def test_types_follow_from_the_values(tmp_path: Path) -> None:
    """Types of columns follow from the kinds of their values.

    Several values make a list. UTF-8 is text. An absent feature is null.
    """
    path = write(tmp_path / "a.tfrecord", record(SECOND) + record(FIRST))
    assert types_of(path) == {
        "city": "string",
        "id": "int64",
        "price": "float",
        "raw": "binary",
        "tags": "list<item: string>",
    }
    assert read_rows(path) == [
        {"city": "Ulm", "id": 2, "price": None, "raw": None, "tags": ["c"]},
        {"city": "Köln", "id": 1, "price": 0.5, "raw": b"\xff\xd8", "tags": ["a", "b"]},
    ]
    assert read_rows(path, columns=("tags", "id"))[0] == {"tags": ["c"], "id": 2}


@pytest.mark.usefixtures("either")
def test_sequences_need_no_schema(tmp_path: Path) -> None:
    """Feature lists become lists of values without a schema.

    Steps of several values keep their shape.
    """
    one = sequence({"id": [1]}, {"words": [[b"a"], None], "boxes": [[1.0, 2.0], [3.0, 4.0]]})
    path = write_records(tmp_path / "a.tfrecord", one, sequence({}, {"words": []}))
    plan = plan_of(path)
    assert read.read_table(plan, reject=False)[0].to_pylist() == [
        {"id": 1, "boxes": [1.0, 2.0, 3.0, 4.0], "words": ["a", None]},
        {"id": None, "boxes": None, "words": []},
    ]
    assert plan.schema.field("boxes").metadata  # the shape
    assert plan.steps == ("boxes", "words")


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("second", [[[3.0]], [[3.0], [4.0]]], ids=["ragged", "another shape"])
def test_steps_without_a_shape_stay_steps(tmp_path: Path, second: list[Any]) -> None:
    """The source says so; declared types decide."""
    one, two = (sequence({}, {"x": steps}) for steps in ([[1.0, 2.0], [3.0, 4.0]], second))
    path = write_records(tmp_path / "a.tfrecord", one, two)
    plan = plan_of(path)
    assert plan.decisions == ("types: {x: 'list<list<float32>>'}",)
    assert read.read_table(plan, reject=False)[0].to_pylist() == [
        {"x": [[1.0, 2.0], [3.0, 4.0]]},
        {"x": second},
    ]
    assert plan_of(path, types={"x": "list<float32>"}).decisions == ()


KINDS = {"a": st.integers(-(2**63), 2**63 - 1), "b": st.floats(width=32, allow_nan=False)}
KINDS |= {"c": st.text(max_size=3).map(str.encode), "d": st.binary(max_size=3)}
VALUES = st.fixed_dictionaries(
    {}, optional={name: st.lists(of, min_size=1, max_size=2) for name, of in KINDS.items()}
)


@given(st.lists(VALUES, min_size=1, max_size=6), st.booleans())
def test_inferred_columns_have_every_value(rows: list[dict[str, list[Any]]], kernels: bool) -> None:
    """Inferred columns have every value, and null for an absent feature."""
    names = {name for row in rows for name in row}
    several = {name for row in rows for name, values in row.items() if len(values) > 1}

    def cell(name: str, values: list[Any] | None) -> Any:
        if values is None:
            return None
        shown = [value.decode() for value in values] if name in texts else values
        return shown if name in several else shown[0]

    texts = {
        name
        for name in names & {"c", "d"}
        if all(_is_utf8(value) for row in rows for value in row.get(name, []))
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.nullcontext() if kernels else without_kernels(),
    ):
        path = write(
            Path(folder) / "a.tfrecord", b"".join(record(of_values(**row)) for row in rows)
        )
        if not names:
            with pytest.raises(DataError, match="records without features"):
                plan_of(path)
            return
        assert read_rows(path) == [
            {name: cell(name, row.get(name)) for name in sorted(names)} for row in rows
        ]


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


# Records behind the sample of FIRST: a column, its later values, its declared type, and the type
# that reads all records, as the error says or in the place of its "…"; "" if it names none.
LATE: list[tuple[str, list[Any], str, str]] = [
    ("late", [1], "", "int64"),
    ("ids", [1], "", ""),  # looks like a misspelt id, so that it cannot be declared
    ("id", [1, 2], "", "list<int64>"),
    ("id", [1, 2], "int64", "list<int64>"),
    ("city", [b"\xff"], "", "bytes"),
    ("tags", [b"\xff"], "", "list<bytes>"),
    ("city", [b"\xff"], "text", "bytes"),
    ("none", [1], "", "int64"),
    ("none", [0.5], "", "float32"),
    ("new", [1], "text", "int64"),
    ("id", [300], "int8", "int64"),
    ("id", [0.5], "", ""),
    ("price", [1], "", ""),
    ("tags", [1], "", ""),
]


@pytest.mark.usefixtures("either", "small_sample")
@pytest.mark.parametrize(("column", "values", "declared", "type_"), LATE)
def test_what_comes_after_the_sample_is_not_lost(tmp_path, column, values, declared, type_):
    """The error names record and feature, and every remedy works."""
    first = tf.train.Example.FromString(FIRST)
    first.features.feature["none"].SetInParent()
    records = [first.SerializeToString(), SECOND, of_values(**{column: values})]
    path = write(tmp_path / "a.tfrecord", b"".join(map(record, records)))
    options: dict[str, Any] = {"types": {column: declared} if declared else {}}
    with pytest.raises(DataError) as caught:
        read_rows(path, **options)
    message = str(caught.value)
    assert f"a.tfrecord, record 2, column '{column}': found" in message
    assert (type_ != "") == ("types: {" in message)
    if type_:
        shown = re.search(r"'types: {\w+: (.*?)}'", message)
        assert shown is not None
        assert read_rows(path, types={column: type_})[2][column] in (values, values[0])
        assert re.fullmatch(re.escape(shown[1]).replace("…", ".+"), type_)
    is_other_kind = not type_ and column != "ids"
    assert ("infer: full" in message) == (not declared and not is_other_kind)
    if "infer: full" in message:
        assert read_rows(path, infer="full", **options)[2][column] in (values, values[0])
    assert "eave the column out with 'columns', mend" in message
    assert len(read_rows(path, columns=tuple({"id", "city"} - {column}))) == 3
    assert "mend the record, or leave such records out with 'on_error: {reject: …}'" in message
    rejected = read.read_table(plan_of(path, **options), reject=True)[2]
    assert [bad.position for bad in rejected] == ["record 2"]


@pytest.mark.usefixtures("small_sample")
@pytest.mark.parametrize(
    ("steps", "late", "found", "type_"),
    [
        ([], [[1]], [1], ""),  # the list is unknown to the sample
        ([[1]], [[1], [2, 3]], [1, 2, 3], "list<…>"),
        ([[b"a"]], [[b"\xff"]], [b"\xff"], "list<bytes>"),
    ],
)
def test_later_feature_lists_are_not_lost(tmp_path, steps, late, found, type_):
    """Other steps behind the sample name their record; ``infer: full`` reads them."""
    first = sequence({"id": [1]}, {"steps": steps} if steps else {})
    path = write_records(tmp_path / "a.tfrecord", first, sequence({"id": [1]}, {"steps": late}))
    with pytest.raises(DataError, match=r"column 'steps'.*Infer from .*full' of") as caught:
        read_rows(path)
    assert "record 1" in str(caught.value)
    types = re.findall(r"types: {steps: (.*?)}", str(caught.value))
    assert types == ([type_] if type_ else [])
    full = {"steps": type_.replace("…", "int64")} if "…" in type_ else {}
    assert read_rows(path, infer="full", types=full)[1]["steps"] == found
    if type_ and not full:
        assert read_rows(path, types={"steps": type_})[1]["steps"] == found


def test_declared_types_decide(tmp_path: Path) -> None:
    """Declared types convert the values.

    A declared name that no record has is an error.
    """
    path = write(tmp_path / "a.tfrecord", record(FIRST) + record(SECOND))
    types = {"id": "float64", "city": "bytes", "price": "list<float32>"}
    assert read_rows(path, types=types, columns=("id", "city", "price"))[0] == {
        "id": 1.0,
        "city": "Köln".encode(),
        "price": [0.5],
    }
    assert (
        "no column 'citty'" in problems_of(path, types={"citty": "text"})["sources", "s", "types"]
    )
    assert (
        "no column 'late'"
        in problems_of(path, types={"late": "text"}, infer="full")["sources", "s", "types"]
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"plain text, no proto", "records without features.*format: raw_records"),
        (b"", "records without features"),
        (sequence({"x": [1]}, {"x": [[1]]}), "'x' as a feature and as a feature list"),
    ],
)
def test_records_that_have_no_columns(tmp_path: Path, content: bytes, message: str) -> None:
    """Other records, records without features, and names used twice are errors."""
    path = write(tmp_path / "a.tfrecord", record(content))
    with pytest.raises(DataError, match=message):
        plan_of(path)


def test_a_damaged_record_does_not_decide(tmp_path: Path) -> None:
    """A first record that is no tf.Example is a bad row."""
    path = write(tmp_path / "a.tfrecord", record(b"\x0a\x05no") + record(FIRST))
    plan = plan_of(path)
    table, counts, _ = read.read_table(plan, reject=True)
    assert (table.num_rows, counts) == (1, {"read": 1, "rejected": 1})


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("Split-train/data_tfrecord-00000-of-00012.gz", "tfrecord"),
        ("mnist-train.tfrecord-00000-of-00010", "tfrecord"),
        ("train-00000-of-00010.tfrecord.gz", "tfrecord"),
        ("part.csv-00000-of-00003", "csv"),
        ("notes-00000-of-00003.gz", None),
    ],
)
def test_names_of_shards_tell_the_format(name: str, format_: str | None) -> None:
    """The names that TFX, TFDS and Beam give to shards are recognised."""
    assert format_of_path(name) == format_


def test_init_starts_from_records(tmp_path: Path) -> None:
    """``init`` writes a valid recipe for TFX's examples.

    It lists the columns with their types.
    """
    path = write(
        tmp_path / "data_tfrecord-00000-of-00001.gz", gzip.compress(record(FIRST) + record(SECOND))
    )
    write_recipe([path], str(tmp_path / "recipe.yaml"))
    text = (tmp_path / "recipe.yaml").read_text()
    assert "city   text" in text
    assert "raw    bytes" in text
    assert "tags   list<text>" in text
    assert load(str(tmp_path / "recipe.yaml")).sources


def test_init_starts_from_sequences(tmp_path: Path) -> None:
    """The recipe has the feature lists, and converts without an edit."""
    records = [
        sequence({"id": [n]}, {"x": [[1.0], None], "z": [[n, 2], [3] * (n % 2)]}) for n in range(9)
    ]
    path = write_records(tmp_path / "data_tfrecord-00000-of-00001", *records)
    recipe = tmp_path / "recipe.yaml"
    write_recipe([str(path)], str(recipe))
    assert "\nsequence: {features: [x, z]}\n" in recipe.read_text()
    out = str(tmp_path / "out")
    convert.convert(make_plan(load(str(recipe))), out, quiet=True)
    assert verify_dataset(out).rows == 9


def test_an_append_keeps_the_types(tmp_path: Path) -> None:
    """An append reads new files with the types of the dataset.

    A feature that they lack is null.
    """
    path = write(tmp_path / "b.tfrecord", record(of_values(id=[1], city=[b"x"])))
    types = {"id": "int64", "city": "bytes", "tags": "list<text>"}
    pinned = FORMATS["tfrecord"].pin(source(path), types, {})
    assert read_rows(path, types=pinned.types) == [{"city": b"x", "id": 1, "tags": None}]
    named = source(path, schema="schema.pbtxt")
    assert FORMATS["tfrecord"].pin(named, types, {}) == named
