"""Choice of the report's images."""

from __future__ import annotations

import base64

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_pipelines.analysis.report import SampledRows, choose_images, render_report
from beam_pipelines.pipeline.convert import convert
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.recipe.reader import bare_recipe
from beam_pipelines.sources import FORMATS
from tests.support.report_examples import png, report

JPEG = b"\xff\xd8\xff\xe0 not looked at any further"


def batch(images: list[bytes | None], **others: list) -> pa.RecordBatch:
    return pa.record_batch(
        {"image/encoded": pa.array(images, pa.binary())}
        | {k: pa.array(v) for k, v in others.items()}
    )


def test_splits_and_labels_take_turns() -> None:
    """24 images are chosen; splits and labels take turns."""
    names = ["cat"] * 100 + ["dog", "ship"]
    images = [png() + bytes([i]) for i in range(len(names))]
    chosen = choose_images(
        [("train", batch(images, label=names)), ("eval", batch(images[:2], label=names[:2]))]
    )
    assert len(chosen) == 24
    assert [(image.split, image.label) for image in chosen[:5]] == [
        ("train", "cat"), ("train", "dog"), ("train", "ship"), ("eval", "cat"), ("train", "cat")
    ]  # fmt: skip
    assert [
        base64.b64decode(image.base64)
        for image in chosen
        if image.split == "train" and image.label == "cat"
    ] == images[:20]


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (png(), "image/png"), (JPEG, "image/jpeg"), (b"GIF89a", None),
        (b"<svg onload=alert(1)>", None), (b"", None), (None, None), (JPEG + bytes(1 << 16), None),
    ],
)  # fmt: skip
def test_only_small_png_and_jpeg(data: bytes | None, media_type: str | None) -> None:
    """Only PNG and JPEG of up to 64 KiB are shown."""
    assert [image.media_type for image in choose_images([("train", batch([data]))])] == [
        media_type
    ] * (media_type is not None)


def test_all_images_together_are_bounded() -> None:
    """Large images are fewer: 768 KiB in all."""
    chosen = choose_images([("train", batch([JPEG + bytes(60_000)] * 30))])
    assert len(chosen) == 13
    assert sum(len(base64.b64decode(image.base64)) for image in chosen) <= 768 * 1024


@pytest.mark.parametrize(
    ("others", "label", "shown"),
    [
        ({"label": [3]}, None, "3"),
        ({"label": [3], "image/class/text": ["cat"]}, None, "cat"),
        ({"label": [3], "kind": ["tabby"]}, "kind", "tabby"),
        ({"label": [3]}, "gone", "3"),
        ({"other": [3]}, None, ""),
        ({"label": pa.array([None], pa.int64())}, None, ""),
    ],
)
def test_labels(others: dict, label: str | None, shown: str) -> None:
    """The recipe's label names an image, else the column that usually does."""
    assert [
        image.label for image in choose_images([("train", batch([png()], **others))], label)
    ] == [shown]


@pytest.mark.parametrize(
    ("value", "shown"), [(0, "cat"), (1, "dog"), (2, "2"), (-1, "-1"), (None, "")]
)
def test_names_of_classes(value: int | None, shown: str) -> None:
    """An id is shown as the name of its class."""
    rows = batch([png()], label=pa.array([value], pa.int64()))
    chosen = choose_images([("train", rows)], names={"label": ["cat", "dog"]})
    assert [image.label for image in chosen] == [shown]


@pytest.mark.parametrize("column", [pa.array(["text"]), pa.array([1]), pa.array([[b"list"]])])
def test_other_columns_of_that_name(column: pa.Array) -> None:
    """A column image/encoded of another type has no images."""
    assert choose_images([("train", pa.record_batch({"image/encoded": column}))]) == ()
    assert choose_images([("train", pa.record_batch({"x": column}))]) == ()


def test_small_ones_are_enlarged_sharply() -> None:
    """A tiny PNG has sharp pixels, a larger image has not."""
    tiny, large = (
        render_report(report(sampled=SampledRows(images=choose_images([("train", batch([data]))]))))
        for data in (png(), png(100, 1))
    )
    assert 'class="tiny"' in tiny
    assert 'class="tiny"' not in large
    assert "<img" not in render_report(report(sampled=SampledRows()))


def test_images_of_a_parquet_file_reach_the_report(tmp_path) -> None:
    """Images of a converted table are in its report, with their labels."""
    images = [png() + bytes([number]) for number in range(5)]
    table = pa.Table.from_batches([batch(images, label=["cat", "dog", "cat", "dog", "<ship>"])])
    pq.write_table(table, tmp_path / "images.parquet")
    plan = make_plan(bare_recipe(str(tmp_path / "images.parquet"), FORMATS))
    convert(plan, str(tmp_path / "out"), quiet=True)
    text = (tmp_path / "out" / "report.html").read_text()
    assert text.count('src="data:image/png;base64,') == 5
    assert text.count("<bdi>cat</bdi></figcaption>") == 2
    assert "<bdi>&lt;ship&gt;</bdi></figcaption>" in text
