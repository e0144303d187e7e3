"""The page of pictures that ``inspect --images`` draws.

The tests check the pictures, the captions and the refusals.
"""

from __future__ import annotations

import base64
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from sklearn.datasets import load_sample_image
from tfx_bsl.coders.example_coder import RecordBatchToExamplesEncoder

from beam_pipelines.core import _native
from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.dataset import contact_sheet
from beam_pipelines.dataset.contact_sheet import Thumbnail, draw_contact_sheet

COLORS = [(200, 0, 0), (0, 160, 0), (0, 0, 220), (90, 90, 0), (0, 90, 90)]


def compressed(image: Image.Image | np.ndarray, kind: str = "PNG", **options) -> bytes:
    """Pixels as an image file."""
    file = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(
        file, kind, **options
    )
    return file.getvalue()


def plain(
    color: tuple[int, ...], size: tuple[int, int] = (20, 20), mode: str = "RGB", kind: str = "PNG"
) -> bytes:
    """An image of one color; size is width, height."""
    return compressed(Image.new("RGB", size, color).convert(mode), kind)


def pictures(*contents: bytes | None) -> list[np.ndarray | str]:
    """Returns the pixels of each picture of a page, or its note."""
    page, found = draw_contact_sheet("<t>", [Thumbnail(one, "") for one in contents]), []
    assert "<t>" not in page
    for figure in re.findall("<figure>(.*)</figure>", page):
        if data := re.search('base64,(.*?)"', figure):
            found.append(np.asarray(Image.open(io.BytesIO(base64.b64decode(data[1])))))
        else:
            found.append(re.search(r"\((.*)\)</p>", figure)[1])
    return found


def test_pictures_keep_their_proportions():
    """Large ones are shrunk to the place's width or height, others stay."""
    small, wide, high = pictures(
        *(plain(COLORS[0], size) for size in ((3, 2), (400, 100), (1, 999)))
    )
    assert (small.shape, wide.shape, high.shape) == ((2, 3, 3), (32, 128, 3), (128, 1, 3))
    page = draw_contact_sheet("t", [Thumbnail(plain(COLORS[0], (n, 9)), "") for n in (63, 64)])
    assert page.count('<img class="tiny"') == 1


@pytest.mark.parametrize(
    ("content", "color"),
    [
        (plain(COLORS[0], kind="BMP"), COLORS[0]),
        (plain(COLORS[0], mode="P", kind="GIF"), COLORS[0]),
        (plain(COLORS[0], mode="CMYK", kind="JPEG"), COLORS[0]),
        (plain(COLORS[0], (900, 900), kind="JPEG"), COLORS[0]),
        (plain((77, 77, 77), mode="L"), (77, 77, 77)),
        (compressed(np.full((9, 9), 77 * 256, np.uint16)), (77, 77, 77)),
        (compressed(Image.new("RGBA", (9, 9), (0, 0, 0, 0))), (0, 0, 0, 0)),
        (compressed(Image.new("LA", (9, 9), (77, 255))), (77, 77, 77, 255)),
    ],
    ids=["bmp", "gif", "cmyk", "jpeg", "grey", "16 bits", "transparent", "grey with alpha"],
)
def test_formats_and_modes_become_colors(content, color):
    """Every format and mode of Pillow becomes RGB or RGBA."""
    (found,) = pictures(content)
    assert np.abs(found[5, 5].astype(int) - color).max() <= 4


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"no image",
        plain(COLORS[0])[:50],
        compressed(load_sample_image("china.jpg"), "JPEG")[:999],
        plain(COLORS[0], kind="EPS"),
        plain(COLORS[0], kind="TIFF"),
    ],
)
def test_what_cannot_be_shown_has_its_place(content):
    """A missing or damaged image is a note; the others are there."""
    note, other = pictures(content, plain(COLORS[1]))
    assert note == ("missing" if content is None else "not decodable")
    assert tuple(other[5, 5]) == COLORS[1]


def test_an_image_of_too_many_pixels_is_not_decoded(monkeypatch):
    """Its header is enough to refuse it."""
    monkeypatch.setattr(contact_sheet, "MOST_PIXELS", 399)
    assert pictures(plain(COLORS[0]), plain(COLORS[1], (20, 19)))[0] == "not decodable"


def test_captions_are_text():
    """A caption is cut if it is long, and never markup."""
    page = draw_contact_sheet("t", [Thumbnail(None, "<b>猫" * 99)])
    assert "&lt;b&gt;猫" in page
    assert "<b>" not in page
    assert "…</bdi>" in page


def write_shard(path: Path, columns: dict[str, pa.Array]) -> None:
    """Writes rows as an uncompressed file of examples.

    A null is a missing feature.
    """
    large = {pa.binary(): pa.large_binary(), pa.string(): pa.large_binary()}
    lists = {}
    for name, column in columns.items():
        values = [
            None if value is None else value if isinstance(value, list) else [value]
            for value in column.to_pylist()
        ]
        item = column.type.value_type if pa.types.is_list(column.type) else column.type
        if pa.types.is_string(item):
            values = [value and [text.encode() for text in value] for value in values]
        lists[name] = pa.array(values, pa.large_list(large.get(item, item)))
    records = RecordBatchToExamplesEncoder().encode(pa.record_batch(lists))
    path.write_bytes(b"".join(_native.frame(pa.array(records, pa.binary())).to_pylist()))


def write_dataset(folder: Path, columns: dict[str, pa.Array], schema: str = "", **manifest) -> str:
    """Writes a dataset of two shards that hold the rows twice."""
    for number in range(2):
        write_shard(folder / f"{number}.tfrecord", columns)
    types = {
        "image": "BYTES",
        "image/encoded": "BYTES",
        "image/class/text": "BYTES",
        "image/filename": "BYTES",
        "one_hot": "FLOAT",
    }
    described = "\n".join(
        f'feature {{ name: "{name}" type: {types.get(name, "INT")} }}' for name in columns
    )
    (folder / "schema.pbtxt").write_text(schema or described)
    rows = len(next(iter(columns.values())))
    shards = [
        {"path": f"{number}.tfrecord", "rows": rows, "bytes": 0, "crc32c": ""}
        for number in range(2)
    ]
    text = {
        "format_version": 1,
        "schema": "schema.pbtxt",
        "compression": "none",
        "record": "example",
        "sources": {},
    }
    text |= {
        "counts": dict.fromkeys(("read", "added", "dropped", "filtered", "merged", "written"), 0),
        "label": None,
        "labels": {},
    }
    text |= {"splits": {"train": {"rows": rows * 2, "bytes": 0, "shards": shards}}, **manifest}
    (folder / "dataset.json").write_text(json.dumps(text))
    return str(folder)


IMAGES = pa.array([plain(color) for color in COLORS[:3]])


@pytest.fixture
def drawn(monkeypatch):
    """The last drawing: pictures with their captions."""
    pictures: list[Thumbnail] = []

    def draw(title, found):
        pictures[:] = found
        return draw_contact_sheet(title, found)

    monkeypatch.setattr(contact_sheet, "draw_contact_sheet", draw)
    return pictures


@pytest.mark.parametrize(
    ("columns", "manifest", "captions"),
    [
        ({}, {}, ["", "", ""]),
        ({"image/filename": pa.array(["a.png", "b.png", None])}, {}, ["a.png", "b.png", "(missing)"]),
        ({"image/class/label": pa.array([2, 0, 1])}, {}, ["2", "0", "1"]),
        ({"id": pa.array([2, 0, 7])}, {"label": "id", "labels": {"id": ["cat", "dog", "eel"]}}, ["eel", "cat", "7"]),
        ({"id": pa.array([2, 0, 1]), "image/class/text": pa.array(["x", "y", "ü"])}, {"label": "id"}, ["x", "y", "ü"]),
        ({"one_hot": pa.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]], pa.list_(pa.float32()))},
         {"label": "one_hot", "labels": {"one_hot": ["cat", "dog", "eel"]}}, ["eel", "cat", "dog"]),
    ],
    ids=["nothing", "file names", "numbers", "label map", "texts", "one-hot"],
)  # fmt: skip
def test_pictures_are_named_by_what_there_is(tmp_path, drawn, columns, manifest, captions):
    """A caption is the first that exists of several names.

    These are the label's names, the class's text, the label, its number, the file's name.
    """
    folder = write_dataset(tmp_path, {"image/encoded": IMAGES} | columns, **manifest)
    assert contact_sheet.write_contact_sheet(folder, str(tmp_path / "out.html"), 64) == 6
    assert [picture.caption for picture in drawn] == captions * 2
    assert [picture.content for picture in drawn] == IMAGES.to_pylist() * 2


def test_as_many_are_drawn_as_asked_for(tmp_path, drawn):
    """The first images over several shards are drawn."""
    folder = write_dataset(tmp_path, {"image/encoded": IMAGES})
    assert contact_sheet.write_contact_sheet(folder, str(tmp_path / "new" / "out.html"), 4) == 4
    assert [picture.content for picture in drawn] == [*IMAGES.to_pylist(), IMAGES[0].as_py()]


def test_the_feature_is_named_or_the_schemas(tmp_path, drawn):
    """The feature is ``--feature``, or follows from the schema or the name.

    Without the option it is the one with an ``image_domain``, else ``image/encoded``, in a file
    without a schema too.
    """
    columns = {"image": IMAGES, "image/encoded": pa.array([b"x", None, b"z"])}
    schema = (
        'feature { name: "image" type: BYTES image_domain {} } feature { name: '
        '"image/encoded" type: BYTES }'
    )
    folder, output = write_dataset(tmp_path, columns, schema), str(tmp_path / "out.html")
    for path, feature, wanted in (
        (folder, None, IMAGES.to_pylist() * 2),
        (folder, "image/encoded", [b"x", None, b"z"] * 2),
        (str(tmp_path / "0.tfrecord"), "image", IMAGES.to_pylist()),
        (str(tmp_path / "0.tfrecord"), None, [b"x", None, b"z"]),
    ):
        contact_sheet.write_contact_sheet(path, output, 64, feature=feature)
        assert [picture.content for picture in drawn] == wanted


def test_raw_records_are_pictures_themselves(tmp_path, drawn):
    """A dataset whose records are images, not examples, is drawn as well."""
    folder = write_dataset(tmp_path, {"image/encoded": IMAGES}, record="raw")
    for number in range(2):
        (tmp_path / f"{number}.tfrecord").write_bytes(b"".join(_native.frame(IMAGES).to_pylist()))
    contact_sheet.write_contact_sheet(folder, str(tmp_path / "out.html"), 64)
    assert [picture.content for picture in drawn] == IMAGES.to_pylist() * 2


@pytest.mark.parametrize(
    ("output", "arguments", "message"),
    [
        ("out.jpg", {}, r"--images .*out\.jpg: found another suffix, expected the name of a \.html file"),
        ("out.html", {"feature": "imag"},
         "found no feature 'imag' of bytes, expected one of image. Name it by --feature. Did you mean 'image'"),
        ("out.html", {}, "found no feature 'image/encoded' of bytes, expected one of image"),
        ("out.html", {"feature": "id"}, "found no feature 'id' of bytes, expected one of image"),
        ("out.html", {"split": "eval"}, "found no split 'eval', expected one of train"),
        ("out.html", {"number": 1025}, "-n 1025: found more pictures than fit on a page, expected at most 1,024"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_explained(tmp_path, output, arguments, message):
    """Exit status 2, and nothing is written."""
    folder = write_dataset(tmp_path, {"image": IMAGES, "id": pa.array([1, 2, 3])})
    with pytest.raises(RecipeError, match=message):
        contact_sheet.write_contact_sheet(
            folder, str(tmp_path / output), **{"number": 5} | arguments
        )
    assert not (tmp_path / output).exists()


def test_no_examples_are_an_error(tmp_path):
    """An empty file has no pictures."""
    (tmp_path / "x.tfrecord").write_bytes(b"")
    with pytest.raises(DataError, match="found no examples, expected some to draw"):
        contact_sheet.write_contact_sheet(
            str(tmp_path / "x.tfrecord"), str(tmp_path / "out.html"), 5
        )


def test_the_command_draws_and_says_so(tmp_path):
    """``inspect --images`` prints the path of its sheet and needs no TensorFlow.

    ``--feature`` alone is an error.
    """
    folder = write_dataset(tmp_path, {"image/encoded": IMAGES})
    code = (
        "import sys; from beam_pipelines.cli.main import run; status = run(sys.argv[1:]); "
        "print(status, 'tensorflow' in sys.modules)"
    )
    command = [sys.executable, "-c", code, "inspect", folder]
    shown = subprocess.run(
        [*command, "--images", "out.html"], cwd=tmp_path, capture_output=True, text=True
    )
    assert shown.stdout == f"out.html: 6 pictures of {folder}.\n0 False\n", shown.stderr
    assert (tmp_path / "out.html").exists()
    wrong = subprocess.run(
        [*command, "--feature", "x"], cwd=tmp_path, capture_output=True, text=True
    )
    assert wrong.stdout == "2 False\n"
    assert "found --feature without --images FILE, expected both or neither" in wrong.stderr
