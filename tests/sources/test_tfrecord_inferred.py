"""TFRecord files without a schema: types are inferred from the records."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.cli.init import write_recipe
from beam_pipelines.core import _native
from beam_pipelines.core.errors import DataError
from beam_pipelines.pipeline.recipes import load_recipe
from beam_pipelines.sources import FORMATS, format_of_path, inference
from beam_pipelines.tfrecord import framing
from beam_pipelines.transforms import read
from tests.sources.support import plan_of, problems_of, read_rows, source, types_of, write
from tests.sources.test_tfrecord_sequences import sequence, write_records
from tests.sources.test_tfrecord_source import example, record

FIRST = example(id=[1], price=[0.5], city=["Köln".encode()], raw=[b"\xff\xd8"], tags=[b"a", b"b"])
SECOND = example(city=[b"Ulm"], tags=[b"c"], id=[2])


@pytest.fixture(params=[True, False], ids=["kernels", "protobuf"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test with the kernels and without them."""
    monkeypatch.setattr(_native, "KERNELS_AVAILABLE", request.param and _native.KERNELS_AVAILABLE)


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


KINDS = {"a": st.integers(-(2**63), 2**63 - 1), "b": st.floats(width=32, allow_nan=False)}
KINDS |= {"c": st.text(max_size=3).map(str.encode), "d": st.binary(max_size=3)}
VALUES = st.fixed_dictionaries(
    {}, optional={name: st.lists(of, min_size=1, max_size=2) for name, of in KINDS.items()}
)


@settings(max_examples=60, deadline=None)
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
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(_native, "KERNELS_AVAILABLE", kernels and _native.KERNELS_AVAILABLE)
        path = write(Path(folder) / "a.tfrecord", b"".join(record(example(**row)) for row in rows))
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


@pytest.mark.usefixtures("either", "small_sample")
@pytest.mark.parametrize(
    ("late", "column", "cure"),
    [
        ({"id": [3], "late": [1]}, "late", {"types": {"late": "int64"}}),
        ({"id": [1, 2]}, "id", {"types": {"id": "list<int64>"}}),
        ({"city": [b"\xff"]}, "city", {"types": {"city": "bytes"}}),
        ({"id": [0.5]}, "id", None),
    ],
)
def test_what_comes_after_the_sample_is_not_lost(
    tmp_path: Path, late: dict[str, list[Any]], column: str, cure: dict[str, Any] | None
) -> None:
    """A new feature or kind after the sample is an error.

    The error names the record and remedies, and each remedy works.
    """
    path = write(tmp_path / "a.tfrecord", record(FIRST) + record(SECOND) + record(example(**late)))
    plan = plan_of(path)
    with pytest.raises(DataError) as caught:
        read.read_table(plan, reject=False)
    assert f"a.tfrecord, record 2, column '{column}': found" in str(caught.value)
    assert "'infer: full'" in str(caught.value)
    assert [bad.position for bad in read.read_table(plan, reject=True)[2]] == ["record 2"]
    if column == "late":
        assert len(read_rows(path, columns=("id", "city"))) == 3  # others are not asked for
    if cure is not None:
        assert len(read_rows(path, **cure)) == len(read_rows(path, infer="full")) == 3
        assert read_rows(path, **cure)[2][column] == read_rows(path, infer="full")[2][column]


@pytest.mark.usefixtures("small_sample")
def test_a_later_feature_list_is_not_lost(tmp_path: Path) -> None:
    """A feature list after tf.Examples names its record; types cannot declare it."""
    late = sequence({"id": [1]}, {"steps": [[1]]})
    path = write_records(tmp_path / "a.tfrecord", FIRST, late)
    with pytest.raises(DataError, match=r"record 1, column 'steps'.*full' of the source, name a"):
        read_rows(path)
    assert read_rows(path, infer="full")[1]["steps"] == [1]


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
    assert load_recipe(str(tmp_path / "recipe.yaml")).sources


def test_an_append_keeps_the_types(tmp_path: Path) -> None:
    """An append reads new files with the types of the dataset.

    A feature that they lack is null.
    """
    path = write(tmp_path / "b.tfrecord", record(example(id=[1], city=[b"x"])))
    types = {"id": "int64", "city": "bytes", "tags": "list<text>"}
    pinned = FORMATS["tfrecord"].pin(source(path), types, {})
    assert read_rows(path, types=pinned.types) == [{"city": b"x", "id": 1, "tags": None}]
    named = source(path, schema="schema.pbtxt")
    assert FORMATS["tfrecord"].pin(named, types, {}) == named
