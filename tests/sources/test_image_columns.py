"""Images in columns of tables are held to what image files are."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf import text_format
from PIL import Image
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import Limits
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.planner import with_images
from beam_pipelines.transforms import read
from beam_pipelines.transforms.row_positions import RowPositions
from tests.sources.support import plan_of


def picture(format_: str) -> bytes:
    file = io.BytesIO()
    Image.effect_noise((64, 64), 90).convert("RGB").save(file, format_)
    return file.getvalue()


JPEG, PNG = picture("JPEG"), picture("PNG")
ZERO_TAIL = JPEG[: len(JPEG) // 2] + bytes(len(JPEG) - len(JPEG) // 2)
BAD = [ZERO_TAIL, PNG[:-4], b"not an image", b""]
DOMAIN = 'feature { name: "x" type: BYTES image_domain {} }'


def planned(path: Path, schema: str = "", rename: dict[str, str] | None = None) -> SourcePlan:
    contract = text_format.Parse(schema, schema_pb2.Schema()).SerializeToString()
    return with_images(plan_of(path), contract, rename or {})


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
def test_columns_of_images(
    tmp_path: Path, column: str, schema: str, rename: dict[str, str], expected: bool
) -> None:
    """Bytes are images by the name ``image/encoded`` or an image domain."""
    path = table(tmp_path, {column: [JPEG], "n": [1]})
    assert planned(path, schema, rename).images == ((column,) if expected else ())
    path = table(tmp_path, {column: ["text"]})
    assert planned(path, schema, rename).images == ()


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
    with pytest.raises(DataError, match=r"t\.parquet, row 3, column 'image/encoded': found"):
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
    source = dataclasses.replace(plan.source, limits=Limits(image_pixels=100))
    plan = dataclasses.replace(plan, source=source)
    with pytest.raises(DataError, match="image_pixels"):
        list(read.read_range(plan, plan.ranges[0], {}, reject=False))
