"""Folders of images as a source.

The tests check rows, rejected files, classes, and a dataset read by TensorFlow.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import yaml
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import beam_pipelines as bp
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError, RecipeError, RecipeProblems
from beam_pipelines.core.limits import Limits
from beam_pipelines.dataset import loader
from beam_pipelines.files.beam.input_roots import only_below
from beam_pipelines.pipeline.planning.transform import plan_transform
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.files.file_list import store_files
from beam_pipelines.sources.images import pictures
from beam_pipelines.sources.images.options import ImageOptions
from beam_pipelines.sources.plan import FileInfo, gather_ranges
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.transforms.read import read_table
from tests.sources.support import plan_of, read_rows
from tests.support import image_files
from tests.support.made_source import made_source
from tests.support.runs import convert_in, plan_in

REPOSITORY = Path(__file__).parents[2]
PHOTO = image_files.photographs()["flower"]
SMALL = np.ascontiguousarray(PHOTO[100:121, 200:233])
GREY = np.ascontiguousarray(SMALL[:, :, 1])
ALPHA = np.dstack([SMALL, GREY])


def as_tensorflow(data: bytes) -> np.ndarray[Any, Any]:
    """Decodes the first frame."""
    return tf.io.decode_image(data, expand_animations=False).numpy()


def source_of(path: str | Path, **options: Any) -> Source:
    return made_source("photos", (str(path),), format="images", **options)


def rows_of(
    source: Source, reject: bool = False
) -> tuple[list[dict[str, Any]], tuple[Rejected, ...]]:
    table, _, rejected = read_table(plan_source(source, ""), reject)
    return table.to_pylist(), rejected


CASES = {
    **{f"RGB {name}": image_files.encode(SMALL, name) for name in image_files.FORMATS},
    **{f"grey {name}": image_files.encode(GREY, name) for name in image_files.FORMATS},
    "RGBA png": image_files.encode(ALPHA, "png"),
    "RGBA webp": image_files.encode(ALPHA, "webp", lossless=True),
    "grey and alpha png": image_files.encode(np.dstack([GREY, GREY]), "png"),
    "16 bits png": image_files.encode(GREY.astype(np.uint16) * 256 + 255, "png"),
    "progressive jpeg": image_files.encode(SMALL, "jpeg", progressive=True),
    "animated gif": image_files.animation([SMALL, SMALL[::-1], SMALL], "gif"),
}
# TensorFlow 2.21 corrupts its memory when it decodes one.
ANIMATED_WEBP = image_files.animation([SMALL, SMALL[::-1], SMALL], "webp")


@pytest.mark.parametrize("data", CASES.values(), ids=CASES)
@pytest.mark.parametrize(
    "options",
    [
        {"format": "png"},
        {"format": "jpeg"},
        {"mode": "grey"},
        {"mode": "rgb"},
        {"resize": (7, 11)},
        {"resize": (40, 30), "format": "png", "mode": "rgb"},
    ],
    ids=str,
)
def test_a_converted_image_is_as_asked(data, options):
    """Format, size and channels are as asked, to TensorFlow and to us.

    Converting twice changes nothing more.
    """
    asked = ImageOptions(**options)
    made, look = pictures.convert(data, asked)
    assert pictures.probe(made) == look
    assert as_tensorflow(made).shape == look[1:]
    assert look.format == options.get(
        "format", "jpeg" if pictures.convert(data, ImageOptions())[1].format == "jpeg" else "png"
    )
    assert (look.height, look.width) == options.get("resize", SMALL.shape[:2])
    assert look.channels == {"rgb": 3, "grey": 1, None: look.channels}[options.get("mode")]
    assert pictures.convert(made, asked) == (made, look)


def test_of_an_animation_the_first_frame_counts():
    """The first frame of an animation counts where it is encoded again."""
    made, _ = pictures.convert(CASES["animated gif"], ImageOptions(format="png"))
    np.testing.assert_array_equal(as_tensorflow(made), as_tensorflow(CASES["animated gif"]))
    made, _ = pictures.convert(ANIMATED_WEBP, ImageOptions(format="png"))
    assert np.abs(as_tensorflow(made).astype(int) - SMALL).mean() < 12


@pytest.mark.parametrize(
    "name", ["RGB png", "RGBA png", "grey and alpha png", "RGB bmp", "RGBA webp", "grey gif"]
)
def test_a_lossless_image_keeps_its_pixels_as_png(name):
    """A lossless image keeps every value of every pixel as PNG."""
    made, _ = pictures.convert(CASES[name], ImageOptions(format="png"))
    np.testing.assert_array_equal(as_tensorflow(made), as_tensorflow(CASES[name]))


def test_sixteen_bits_become_the_upper_eight():
    """Sixteen bits become the upper eight, as in TensorFlow."""
    made, _ = pictures.convert(CASES["16 bits png"], ImageOptions(format="png", mode="grey"))
    np.testing.assert_array_equal(as_tensorflow(made)[:, :, 0], GREY)


@pytest.mark.parametrize("format_", ["png", "jpeg"])
def test_an_image_as_asked_keeps_its_bytes(format_):
    """An image that is already as asked is not encoded again."""
    data = image_files.encode(SMALL, format_)
    asked = ImageOptions(resize=SMALL.shape[:2], format=format_, mode="rgb", quality=10)  # type: ignore[arg-type]
    assert pictures.convert(data, asked)[0] is data


def test_a_large_photograph_is_resized_as_pillow_does_at_full_size():
    """A JPEG decoded at a fraction of its size changes little."""
    large = np.asarray(Image.fromarray(PHOTO).resize((2560, 1708)))
    data = image_files.encode(large, "jpeg", quality=95)
    made, _ = pictures.convert(data, ImageOptions(resize=(64, 96), format="png"))
    expected = Image.fromarray(as_tensorflow(data)).resize((96, 64), Image.Resampling.BILINEAR)
    difference = np.abs(as_tensorflow(made).astype(int) - np.asarray(expected).astype(int))
    assert difference.mean() < 3


def test_a_turned_photograph_is_put_upright():
    """Encoding again applies a camera's orientation tag; kept bytes are unchanged."""
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    data = image_files.encode(SMALL, "png", exif=exif)
    made, look = pictures.convert(data, ImageOptions(format="png"))
    np.testing.assert_array_equal(as_tensorflow(made), np.rot90(SMALL, -1))
    assert (look.height, look.width) == SMALL.shape[1::-1]
    assert pictures.probe(data)[1:3] == SMALL.shape[:2]


@pytest.mark.parametrize("name", [f"RGB {format_}" for format_ in image_files.FORMATS])
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_truncated_image_is_refused(name, share):
    """An image that is cut anywhere is refused.

    Only the last bytes of a BMP or GIF may be missing: they hold no pixels.
    """
    data = CASES[name]
    spare = 5 if "bmp" in name else 3 if "gif" in name else 1
    cut = data[: min(int(share * len(data)), len(data) - spare)]
    for look_at in (
        pictures.probe,
        lambda data: pictures.convert(data, ImageOptions()),
        lambda data: pictures.convert(data, ImageOptions(resize=(5, 5))),
    ):
        with pytest.raises(pictures.PictureError, match="expected"):
            look_at(cut)


@given(data=st.binary(max_size=200), name=st.sampled_from(sorted(CASES)), place=st.floats(0, 1))
def test_damage_is_refused_or_harmless(data, name, place):
    """Overwritten bytes are harmless or raise ``PictureError``."""
    good = CASES[name]
    at = int(place * len(good))
    damaged = good[:at] + data + good[at + len(data) :]
    for options in (None, ImageOptions(resize=(9, 9), mode="rgb")):
        with contextlib.suppress(pictures.PictureError):
            pictures.convert(damaged, options) if options else pictures.probe(damaged)


def png_of_zeros(width: int, height: int) -> bytes:
    """Returns a small PNG file of very many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = chunk(b"IDAT", zlib.compress(bytes(1000)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + pixels + chunk(b"IEND", b"")


def webp_of_size(width: int, height: int) -> bytes:
    """Returns a WebP file whose header claims so many pixels."""
    data = bytearray(ANIMATED_WEBP)
    data[24:30] = struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
    return bytes(data)


@pytest.mark.parametrize(
    "data", [png_of_zeros(50_000, 50_000), webp_of_size(60_000, 60_000)], ids=["png", "webp"]
)
def test_a_decompression_bomb_is_refused_before_it_is_decoded(data):
    """A decompression bomb is refused by its header's size.

    It would take gigabytes.
    """
    for look_at in (pictures.probe, lambda data: pictures.convert(data, ImageOptions(mode="grey"))):
        with pytest.raises(
            pictures.PictureError,
            match=r"pixels, expected at most 50,000,000 .*'limits: {image_pixels: …}'",
        ):
            look_at(data)


def test_the_pixel_limit_is_the_recipes():
    """One pixel more than it allows is refused."""
    pixels = SMALL.shape[0] * SMALL.shape[1]
    assert pictures.probe(CASES["RGB png"], Limits(image_pixels=pixels))
    with pytest.raises(pictures.PictureError, match="the limit 'image_pixels'"):
        pictures.probe(CASES["RGB png"], Limits(image_pixels=pixels - 1))


def test_rows_are_the_files_of_the_class_folders(tmp_path):
    """Rows are in the order of paths; ids follow names.

    JPEG, PNG and WebP have unchanged bytes. Files that are no images are no rows.
    """
    written = image_files.write_digits(tmp_path, 60, image_files.FORMATS)
    (tmp_path / ".DS_Store").write_bytes(b"x")
    (tmp_path / "README.txt").write_text("x")
    (tmp_path / "one" / "._0001.png").write_bytes(b"x")
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "0.png").write_bytes(b"x")
    (tmp_path / "empty").mkdir()
    rows, _ = rows_of(source_of(tmp_path))
    assert [row["image/filename"] for row in rows] == sorted(written)
    names = sorted(image_files.DIGIT_NAMES)
    for row in rows:
        name, data = written[row["image/filename"]]
        made, (format_, height, width, channels) = pictures.convert(data, ImageOptions())
        assert (made == data) == (not row["image/filename"].endswith(("bmp", "gif")))
        assert row == {
            "image/encoded": made,
            "image/format": format_,
            "image/height": height,
            "image/width": width,
            "image/channels": channels,
            "image/class/label": names.index(name),
            "image/class/text": name,
            "image/filename": row["image/filename"],
        }
    assert plan_source(source_of(tmp_path), "").labels == {"image/class/label": tuple(names)}


@pytest.mark.parametrize(
    ("paths", "filenames"),
    [
        ("*/*.png", ["cat/1.png", "dog/2.png"]),
        ("cat/*.png", ["1.png"]),
        ("cat/1.png", ["1.png"]),
        ("*", []),
        ("**.jpg", ["dog/deep/3.jpg"]),
        (["cat/*", "dog/*.png"], ["cat/1.png", "dog/2.png"]),
    ],
)
def test_patterns_choose_files(tmp_path, paths, filenames):
    """File names begin at the patterns' last common full folder."""
    for name in ("cat/1.png", "dog/2.png", "dog/deep/3.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(CASES["RGB png"])
    patterns = [paths] if isinstance(paths, str) else paths
    source = Source("photos", tuple(patterns), format="images")
    if not filenames:
        with pytest.raises(RecipeProblems):
            plan_source(source, str(tmp_path))
        return
    table, _, _ = read_table(plan_source(source, str(tmp_path)), reject=False)
    assert table.column("image/filename").to_pylist() == filenames


def test_images_without_folders_have_no_class(tmp_path):
    """Images without folders have no class.

    A table of labels can be joined with them.
    """
    (tmp_path / "1.png").write_bytes(CASES["RGB png"])
    (row,), _ = rows_of(source_of(tmp_path))
    assert "image/class/label" not in row
    assert row["image/filename"] == "1.png"


def write(tmp_path: Path, *names: str) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(CASES["grey png"])


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        ((), {}, "no file with .jpg, .* matches"),
        (("notes.txt",), {}, "no file with .jpg, .jpeg, "),
        (("cat/1.png", "2.png"), {}, "found .*2.png outside of the class folders"),
        (("cat/1.png", "cat/more/2.png"), {}, "more/2.png in a folder inside another, "),
        (("a\nb/1.png", "cat/1.png"), {}, "found a line end in the name of the folder"),
        (("cta/1.png",), {"classes": ("cat", "dog")}, "none of the 2 classes. Did you mean 'cat'"),
    ],
)  # fmt: skip
def test_wrong_folders_are_explained(tmp_path, names, options, message):
    """Wrong folders are explained before any image is read."""
    write(tmp_path, *names)
    with pytest.raises(RecipeProblems) as caught:
        plan_source(source_of(tmp_path, image=ImageOptions(**options)), "")
    assert any(re.search(message, problem.message) for problem in caught.value.problems)


def test_the_inner_folder_is_the_class_by_the_patterns_of_the_error(tmp_path):
    """They match no other file of the same depth."""
    write(tmp_path, "train/cat/1.png", "train/dog/2.JPG")
    (tmp_path / "out" / "schema").mkdir(parents=True)
    (tmp_path / "out" / "schema" / "schema.pbtxt").write_text("feature {}")
    with pytest.raises(RecipeProblems) as caught:
        plan_source(source_of(tmp_path), "")
    line = str(caught.value.problems[0].message).partition("set 'path: ")[2].partition("'. ")[0]
    rows, _ = rows_of(dataclasses.replace(source_of(tmp_path), path=tuple(yaml.safe_load(line))))
    assert {row["image/class/text"] for row in rows} == {"cat", "dog"}


def test_folders_that_are_no_classes_may_be_nested(tmp_path):
    """Nested folders are allowed if the recipe reads no class."""
    write(tmp_path, "2024/11/1.png", "2.png")
    rows, _ = rows_of(source_of(tmp_path, columns=("image/filename", "image/width")))
    assert rows == [
        {"image/filename": name, "image/width": SMALL.shape[1]}
        for name in ("2.png", "2024/11/1.png")
    ]


def test_the_recipe_may_fix_the_ids_of_classes(tmp_path):
    """The recipe may fix the ids of classes.

    A folder more or less, in other data, then changes none.
    """
    write(tmp_path, "dog/1.png", "cat/1.png")
    rows, _ = rows_of(source_of(tmp_path, image=ImageOptions(classes=("dog", "bird", "cat"))))
    assert [row["image/class/label"] for row in rows] == [2, 0]


BAD = {
    "truncated": CASES["RGB jpeg"][:-100],
    "empty": b"",
    "text": b"<html>404</html>",
    "bomb": png_of_zeros(50_000, 50_000),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_rejected_with_its_path(tmp_path, kind):
    """A bad file is rejected with its path.

    The error names it if nothing may be rejected.
    """
    write(tmp_path, "cat/1.png", "cat/3.png")
    (tmp_path / "cat" / "2.jpg").write_bytes(BAD[kind])
    rows, rejected = rows_of(source_of(tmp_path), reject=True)
    assert [row["image/filename"] for row in rows] == ["cat/1.png", "cat/3.png"]
    assert [(bad.file, bad.position) for bad in rejected] == [(str(tmp_path / "cat" / "2.jpg"), "")]
    with pytest.raises(DataError, match=r"cat/2.jpg: found .*, expected "):
        rows_of(source_of(tmp_path))


@given(
    sizes=st.lists(st.integers(0, 30), min_size=1, max_size=60),
    splits=st.booleans(),
    most=st.integers(1, 9),
)
def test_ranges_gather_files(sizes, splits, most):
    """Each file is in one range, in order, within both limits.

    Ranges are as few as one pass makes, and none has files of two groups.
    """
    files = [FileInfo(f"{number}.png", size) for number, size in enumerate(sizes)]
    groups = [number // 7 for number in range(len(files))] if splits else []
    ranges = gather_ranges(files, groups, range_bytes=40, most=most)
    assert [position for byte_range in ranges for position in range(*byte_range.members)] == list(
        range(len(files))
    )
    for number, byte_range in enumerate(ranges):
        first, end = byte_range.members
        assert (byte_range.number, byte_range.file) == (number, files[first])
        assert byte_range.end == sum(sizes[first:end])
        assert end - first <= most
        assert byte_range.end <= 40 or end - first == 1
        assert not splits or len(set(groups[first:end])) == 1
        if end < len(files) and (not splits or groups[end] == groups[first]):
            assert end - first == most or byte_range.end + sizes[end] > 40


RECIPE = """
name: digits
sources:
  digits: {path: photos, format: images}
label: image/class/label
"""


def test_a_dataset_of_class_folders(tmp_path):
    """Every image is unchanged in the dataset, and TensorFlow decodes it.

    Its class is the one that the label map names.
    """
    written = image_files.write_digits(tmp_path / "photos", 120, ("png", "jpeg"))
    manifest = convert_in(tmp_path, f"{RECIPE}split: {{train: 0.8, eval: 0.2}}\n")
    names = sorted(image_files.DIGIT_NAMES)
    assert manifest.labels == {"image/class/label": tuple(names)}
    assert (tmp_path / "out" / "labels.txt").read_text() == "".join(
        f"{i}:{name}\n" for i, name in enumerate(names)
    )
    (entry,) = manifest.sources["digits"].files
    assert (entry.files, entry.bytes) == (120, sum(len(data) for _, data in written.values()))
    dataset = bp.open(tmp_path / "out")
    assert dataset.labels() == tuple(names)
    seen = {}
    for split in dataset.splits:
        for features, label in loader.load(tmp_path / "out", split, batch_size=32):
            for number, path in enumerate(features["image/filename"].numpy()[:, 0]):
                name, data = written[path.decode()]
                assert (
                    names[label[number, 0]]
                    == name
                    == features["image/class/text"][number, 0].numpy().decode()
                )
                assert features["image/encoded"][number, 0].numpy() == data
                seen[path.decode()] = split
    assert set(seen) == set(written)
    assert set(seen.values()) == {"train", "eval"}


def test_a_table_of_labels_is_joined_by_file_name(tmp_path):
    """The example of docs/images.md; a derived or dropped class has no labels."""
    write(tmp_path / "photos", "1.png", "2.png", "3.png")
    (tmp_path / "labels.csv").write_text("file,kind\n1.png,cat\n2.png,dog\n4.png,cat\n")
    recipe = """
name: pets
sources:
  photos: {path: photos, format: images}
  labels: {path: labels.csv, key: file}
from: photos
join: [{source: labels, on: {image/filename: file}, how: inner}]
"""
    manifest = convert_in(tmp_path, recipe)
    assert manifest.counts.dropped == 1
    assert manifest.labels == {}
    assert not (tmp_path / "out" / "labels.txt").exists()
    (features,) = loader.load(tmp_path / "out")
    kinds = dict(
        zip(features["image/filename"].numpy()[:, 0], features["kind"].numpy()[:, 0], strict=True)
    )
    assert kinds == {b"1.png": b"cat", b"2.png": b"dog"}


@pytest.mark.parametrize("beside", ["photos", "labels/train"])
def test_files_with_names_of_pictures_are_named(tmp_path: Path, beside: str) -> None:
    """The finding names the column that joins a table of them."""
    write(tmp_path / "photos", "a.png", "b.heic", "Readme.txt")
    (tmp_path / beside).mkdir(parents=True, exist_ok=True)
    (tmp_path / beside / "a.txt").write_text("a cat")
    (tmp_path / beside).with_name("gone").symlink_to("nowhere")
    with only_below([str(tmp_path / "photos")]):
        assert "of other formats" in plan_of(tmp_path / "photos", format="images").decisions[0]
    pictures, named = plan_of(tmp_path / "photos", format="images").decisions
    assert re.search(r"without 1 picture of other formats, such as .*/b\.heic  # ", pictures)
    assert re.search(rf"without 1 file with names of pictures, such as .*{beside}/a.txt", named)
    column = named.rpartition(" ")[2]
    (tmp_path / "texts.csv").write_text("name,text\na,a cat\n")
    recipe = f"""
name: pets
sources:
  photos: {{path: photos, format: images, columns: [image/encoded, {column}]}}
  texts: {{path: texts.csv, key: name}}
from: photos
join: [{{source: texts, on: {{{column}: name}}, how: inner}}]
"""
    assert convert_in(tmp_path, recipe).counts.written == 1


def test_labels_go_through_a_join_and_not_through_an_encoding(tmp_path):
    """Labels keep to a column through a join, under its new name.

    A feature that an encoding makes has none of them.
    """
    write(tmp_path / "photos", "cat/1.png", "dog/2.png")
    (tmp_path / "votes.csv").write_text("file,votes\ncat/1.png,3\ndog/2.png,5\n")
    recipe = """
name: pets
sources:
  photos: {path: photos, format: images, columns: [image/class/label, image/filename]}
  votes: {path: votes.csv}
from: votes
join: [{source: photos, on: {file: image/filename}, prefix: photo_}]
"""
    label = "photo_image/class/label"
    assert plan_in(tmp_path, recipe).labels == {label: ("cat", "dog")}
    for more in (f"drop: {label}", f"encode: {{{label}: {{cast: float32}}}}"):
        assert plan_in(tmp_path, f"{recipe}{more}\n").labels == {}


def test_new_images_keep_the_ids_of_classes(tmp_path):
    """Images converted by an earlier dataset's encodings have its ids.

    Not all classes need be there; others are an error.
    """
    write(tmp_path, "photos/cat/1.png", "photos/dog/2.png", "new/dog/3.png", "other/bird/4.png")
    convert_in(tmp_path, f"{RECIPE}encode: {{image/height: {{cast: float32}}}}\n")
    plan = plan_transform(str(tmp_path / "out"), [str(tmp_path / "new")], {}, "test")
    table, _, _ = read_table(plan.base, reject=False)
    assert table.column("image/class/label").to_pylist() == [1]
    with pytest.raises(RecipeProblems, match="none of the 2 classes"):
        plan_transform(str(tmp_path / "out"), [str(tmp_path / "other")], {}, "test")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("{path: photos, format: images, image: {resize: 224}}", "expected height and width, as"),
        ("{path: photos, format: images, image: {resize: [0, 5]}}", "resize.*expected a whole number from 1"),
        ("{path: photos, format: images, image: {format: png, quality: 5}}", "quality.* expected it with JPEG only"),
        ("{path: photos, format: images, image: {classes: [a, a]}}", "class 'a' twice"),
        ("{path: photos, format: images, image: {size: 5}}", "unknown key 'size'"),
        ("{path: photos, format: images, delimiter: ';'}", "delimiter"),
        ("{path: photos, format: images, types: {image/height: int8}}", "have their types"),
        ("{path: photos, format: images, compression: gzip}", "compressed inside"),
        ("{path: t.csv, image: {mode: rgb}}", "found it with format 'csv', expected it with images, webdataset only"),
    ],
)  # fmt: skip
def test_wrong_options_are_explained(tmp_path, source, message):
    """Wrong options are explained by the recipe's reader or at planning."""
    write(tmp_path / "photos", "cat/1.png")
    (tmp_path / "t.csv").write_text("a\n1\n")
    with pytest.raises((RecipeError, RecipeProblems), match=message):
        plan_in(tmp_path, f"name: d\nsources:\n  d: {source}\n")


def test_the_example_meets_its_schema(tmp_path):
    """The recipe under examples/ converts any class folders, and its schema holds."""
    image_files.write_digits(tmp_path / "photos", 40, image_files.FORMATS)
    recipe = (REPOSITORY / "examples" / "images" / "recipe.yaml").read_text()
    recipe = recipe.replace("../../schemas", str(REPOSITORY / "schemas"))
    manifest = convert_in(tmp_path, recipe)
    assert manifest.counts.written == 40
    images = {"image/encoded": bp.Image((224, 224))}
    batch, labels = next(iter(loader.load(tmp_path / "out", "train", batch_size=16, images=images)))
    assert batch["image/encoded"].shape == (16, 224, 224, 3)
    assert labels.shape == (16, 1)


def test_a_stored_list_of_files_is_the_list(tmp_path):
    """A stored list of files is a sequence, by position and slice.

    A plan that is sent to workers stays small with any number of files.
    """
    write(tmp_path / "photos", *(f"{number % 7}/{number:04}.png" for number in range(300)))
    plan = plan_source(source_of(tmp_path / "photos"), "")
    stored = store_files(plan, str(tmp_path / "lists"))
    assert len(stored.files) == 300
    assert tuple(stored.files) == tuple(plan.files)
    assert (stored.files[17], stored.files[-1], stored.files[290:]) == (
        plan.files[17],
        plan.files[-1],
        plan.files[290:],
    )
    assert stored.size_bytes == plan.size_bytes
    assert len(pickle.dumps(stored)) < 5_000


def test_changes_of_pictures_are_said(tmp_path: Path) -> None:
    """Rotation tags and values of 16 bits are findings.

    With numbers and the remedy.
    """
    exif = Image.Exif()
    exif[0x0112] = 6
    for number, options in enumerate([{"exif": exif.tobytes()}, {}, {}]):
        Image.new("RGB", (8, 4)).save(tmp_path / f"{number}.jpg", **options)
    Image.fromarray(np.arange(32, dtype=np.uint16).reshape(4, 8)).save(tmp_path / "deep.png")
    [kept] = plan_of(tmp_path, format="images").decisions
    assert kept.startswith("1 of 4 pictures looked at have a rotation tag, and are stored as")
    assert "'image: {format: jpeg}'" in kept
    heights = [row["image/height"] for row in read_rows(tmp_path, format="images")]
    assert heights == [4, 4, 4, 4]
    image = ImageOptions(format="jpeg")
    turned, deep = plan_of(tmp_path, format="images", image=image).decisions
    assert "1 of 4 pictures looked at have a rotation tag, and are turned" in turned
    assert "1 of 4 pictures looked at have 16 bits a value, and keep the upper 8" in deep
    rows = read_rows(tmp_path, format="images", image=image)
    assert [row["image/height"] for row in rows] == [8, 4, 4, 4]
