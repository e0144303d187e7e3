"""Images in columns of tables are held to what image files are."""

from __future__ import annotations

import base64
import dataclasses
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from google.protobuf import text_format
from PIL import Image
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.chunks import ROW, Chunk
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import Limits
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.planner import with_images
from beam_pipelines.transforms import read
from beam_pipelines.transforms.row_positions import RowPositions
from beam_pipelines.transforms.select.errors import explained
from beam_pipelines.transforms.select.reject import Checks, explain, select_good
from beam_pipelines.transforms.select.select import plan_select, select_rows
from tests.sources.support import plan_of


def picture(format_: str) -> bytes:
    file = io.BytesIO()
    Image.effect_noise((64, 64), 90).convert("RGB").save(file, format_)
    return file.getvalue()


JPEG, PNG = picture("JPEG"), picture("PNG")
ZERO_TAIL = JPEG[: len(JPEG) // 2] + bytes(len(JPEG) - len(JPEG) // 2)
BAD = [ZERO_TAIL, PNG[:-4], b"not an image", b""]
DOMAIN = 'feature { name: "x" type: BYTES image_domain {} }'


def contract_of(schema: str) -> bytes:
    return text_format.Parse(schema, schema_pb2.Schema()).SerializeToString()


def planned(
    path: Path, schema: str = "", rename: dict[str, str] | None = None, prefix: str = ""
) -> SourcePlan:
    return with_images(plan_of(path), contract_of(schema), rename or {}, [prefix])


def table(path: Path, columns: dict[str, Any]) -> Path:
    pq.write_table(pa.table(columns), path / "t.parquet")
    return path / "t.parquet"


@pytest.mark.parametrize(
    ("column", "schema", "rename", "expected"),
    [
        ("image/encoded", "", {}, True),
        ("image/encoded", "", {"image/encoded": "x"}, True),
        ("x", "", {"x": "image/encoded"}, True),
        ("x", DOMAIN, {}, True),
        ("y", DOMAIN, {"y": "x"}, True),
        ("x", 'feature { name: "x" type: BYTES }', {}, False),
        ("x", "", {}, False),
    ],
)
def test_columns_of_images(tmp_path, column, schema, rename, expected):
    """Bytes are images by the name ``image/encoded`` or an image domain."""
    path = table(tmp_path, {column: [JPEG], "n": [1]})
    assert planned(path, schema, rename).images == ((column,) if expected else ())
    path = table(tmp_path, {column: ["text"]})
    assert planned(path, schema, rename).images == ()


def test_columns_of_joined_images(tmp_path: Path) -> None:
    """A right source's column is an image by its joined name."""
    path = table(tmp_path, {"blob": [JPEG], "n": [1]})
    of_picture, of_renamed = (DOMAIN.replace('"x"', f'"{n}"') for n in ("p_blob", "picture"))
    assert planned(path, of_picture, prefix="p_").images == ("blob",)
    assert planned(path, of_renamed, {"p_blob": "picture"}, prefix="p_").images == ("blob",)
    for schema in (DOMAIN.replace('"x"', '"blob"'), DOMAIN.replace('"x"', '"o_blob"')):
        assert planned(path, schema, prefix="p_").images == ()


def test_images_of_a_source_with_a_schema(tmp_path: Path) -> None:
    """The own schema of a TFRecord names columns of images."""
    features = tf.train.Features(feature={"x": _bytes(JPEG), "y": _bytes(b"no image")})
    record = tf.train.Example(features=features).SerializeToString()
    with tf.io.TFRecordWriter(str(tmp_path / "t.tfrecord")) as file:
        file.write(record)
    schema = tmp_path / "s.pbtxt"
    schema.write_text(DOMAIN + 'feature { name: "y" type: BYTES }')
    plan = plan_of(tmp_path / "t.tfrecord", schema=str(schema))
    assert with_images(plan, None, {}).images == ("x",)
    plan = plan_of(tmp_path / "t.tfrecord", schema=str(schema), columns=("y",))
    assert with_images(plan, None, {}).images == ()


def _bytes(value: bytes) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


@pytest.mark.parametrize(
    ("name", "schema", "expected"),
    [("image/encoded", "", True), ("x", DOMAIN, True), ("x", "", False)],
)
def test_derived_images(name: str, schema: str, expected: bool) -> None:
    """Images that 'derive' makes are decoded.

    A damaged one is a bad row. What the filter leaves out is not decoded.
    """
    texts = [base64.b64encode(data).decode() for data in (JPEG, ZERO_TAIL, PNG, ZERO_TAIL)]
    batch = pa.RecordBatch.from_pydict({"text": [*texts, None], "n": range(5)})
    recipe = Recipe("r", {}, filter="n <> 3", derive={name: "from_base64(text)"}, drop=("text",))
    plan = plan_select(recipe, batch.schema, contract=contract_of(schema))
    if not expected:
        assert select_rows(plan, batch)[0].num_rows == 4
        return
    with (
        pytest.raises(DataError, match=rf"a.jsonl, derived column '{name}': found an image .*on_"),
        explained("a.jsonl"),
    ):
        select_rows(plan, batch)
    numbered = batch.append_column(ROW, pa.array(range(7, 12), pa.int64()))
    chunk, bad = select_good(Chunk(0, 0, numbered, {"read": 5}), Checks(plan, None))
    assert list(bad) == [8]
    assert explain(bad[8])[0] == name
    assert chunk.batch.column("n").to_pylist() == [0, 2, 4]
    assert chunk.counts == {"read": 4, "rejected": 1, "undone": 0, "filtered": 1}
    # A column that is dropped is no image of the dataset.
    dropped = dataclasses.replace(recipe, drop=("text", name))
    assert plan_select(dropped, batch.schema, contract=contract_of(schema)).images == ()


@pytest.mark.parametrize("is_list", [False, True])
@pytest.mark.parametrize("bad", BAD, ids=["zeros", "cut", "text", "empty"])
def test_a_row_with_a_damaged_image(tmp_path: Path, is_list: bool, bad: bytes) -> None:
    """It is an error with its place, or rejected.

    The places of rows after it stay right.
    """
    rows: list[Any] = [JPEG, None, bad, PNG, bad, JPEG]
    if is_list:
        rows = [[], *(row if row is None else [PNG, row] for row in rows[1:])]
    plan = planned(table(tmp_path, {"image/encoded": rows, "n": range(6)}))
    [byte_range] = plan.ranges
    found = r"t\.parquet, row 3, column 'image/encoded': found .*'on_error' reject"
    with pytest.raises(DataError, match=found):
        list(read.read_range(plan, byte_range, {}, reject=False))
    [chunk] = read.read_range(plan, byte_range, {}, reject=True)
    assert chunk.batch.column("n").to_pylist() == [0, 1, 3, 5]
    assert [(one.position, one.column) for one in chunk.rejected] == [
        ("row 3", "image/encoded"),
        ("row 5", "image/encoded"),
    ]
    assert chunk.counts == {"read": 4, "rejected": 2}
    places = RowPositions(plan).find(0, [1, 2, 3])
    assert [place.place for place in places] == ["row 2", "row 4", "row 6"]


def test_the_limit_of_pixels_holds(tmp_path: Path) -> None:
    """An image of more pixels than ``limits`` allow is not whole."""
    plan = planned(table(tmp_path, {"image/encoded": [PNG]}))
    source = plan.source.with_planning(limits=Limits(image_pixels=100))
    plan = dataclasses.replace(plan, source=source)
    with pytest.raises(DataError, match="image_pixels"):
        list(read.read_range(plan, plan.ranges[0], {}, reject=False))
