"""The sheet of pictures that ``inspect --images`` draws.

The tests check the places, the captions and the refusals.
"""

from __future__ import annotations

import io
import json
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
from beam_pipelines.dataset import contact_sheet, inspect
from beam_pipelines.dataset.contact_sheet import CELL_PIXELS, Thumbnail, draw_contact_sheet

COLORS = [(200, 0, 0), (0, 160, 0), (0, 0, 220), (90, 90, 0), (0, 90, 90)]
STEP = 8 + CELL_PIXELS
WHITE = (255, 255, 255)


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


def cell(sheet: Image.Image, column: int, row: int) -> np.ndarray:
    """The pixels of one place, without what is written below."""
    left, top = 8 + column * STEP, 8 + row * (STEP + 18)
    return np.asarray(sheet)[top : top + CELL_PIXELS, left : left + CELL_PIXELS]


@pytest.mark.parametrize(
    ("count", "columns", "rows"), [(1, 1, 1), (2, 2, 1), (3, 2, 2), (5, 3, 2), (10, 4, 3)]
)
def test_pictures_stand_in_rows(count, columns, rows):
    """The number of columns is the root of the number of pictures.

    Each picture is in the middle of its place.
    """
    sheet = draw_contact_sheet(
        [Thumbnail(plain(COLORS[number % 5]), "") for number in range(count)]
    )
    assert sheet.size == (8 + columns * STEP, 8 + rows * (STEP + 18))
    for number in range(count):
        assert (
            tuple(cell(sheet, number % columns, number // columns)[100, 64]) == COLORS[number % 5]
        )


def test_pictures_keep_their_proportions():
    """Pictures keep their proportions when they grow or shrink.

    Tiny ones grow by a whole number with sharp pixels, large ones shrink to the place's width or
    height.
    """
    checked = np.array(
        [[[255, 0, 0], [0, 0, 255], [255, 0, 0]], [[0, 0, 255], [255, 0, 0], [0, 0, 255]]], np.uint8
    )
    sheet = draw_contact_sheet(
        [Thumbnail(compressed(checked), ""), Thumbnail(plain(COLORS[0], (400, 100)), "")]
    )
    tiny = cell(sheet, 0, 0)
    inside = tiny[CELL_PIXELS - 84 :, 1:127]
    np.testing.assert_array_equal(inside, checked.repeat(42, axis=0).repeat(42, axis=1))
    assert (tiny[: CELL_PIXELS - 84] == 255).all()
    wide = (cell(sheet, 1, 0) == COLORS[0]).all(axis=2)
    assert wide[-32:].all()
    assert not wide[:-32].any()


@pytest.mark.parametrize(
    ("content", "color"),
    [
        (plain(COLORS[0], kind="BMP"), COLORS[0]),
        (plain(COLORS[0], mode="P", kind="GIF"), COLORS[0]),
        (plain(COLORS[0], mode="CMYK", kind="JPEG"), COLORS[0]),
        (plain(COLORS[0], (900, 900), kind="JPEG"), COLORS[0]),
        (plain((77, 77, 77), mode="L"), (77, 77, 77)),
        (compressed(np.full((9, 9), 77 * 256, np.uint16)), (77, 77, 77)),
        (compressed(Image.new("RGBA", (9, 9), (0, 0, 0, 0))), WHITE),
        (compressed(Image.new("LA", (9, 9), (77, 255))), (77, 77, 77)),
    ],
    ids=["bmp", "gif", "cmyk", "jpeg", "grey", "16 bits", "transparent", "grey with alpha"],
)
def test_formats_and_modes_become_colors(content, color):
    """Every format and mode of Pillow becomes RGB; transparent parts are white."""
    found = cell(draw_contact_sheet([Thumbnail(content, "")]), 0, 0)[100, 64]
    assert np.abs(found.astype(int) - color).max() <= 4


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
    """A missing or damaged image is a grey place with red words.

    The others are there.
    """
    sheet = draw_contact_sheet([Thumbnail(content, ""), Thumbnail(plain(COLORS[1]), "")])
    assert tuple(cell(sheet, 0, 0)[0, 0]) == (232, 232, 232)
    assert (cell(sheet, 0, 0)[:, :, 0] > cell(sheet, 0, 0)[:, :, 1].astype(int) + 50).any()
    assert tuple(cell(sheet, 1, 0)[100, 64]) == COLORS[1]


def test_an_image_of_too_many_pixels_is_not_decoded(monkeypatch):
    """Its header is enough to refuse it."""
    monkeypatch.setattr(contact_sheet, "MOST_PIXELS", 399)
    sheet = draw_contact_sheet(
        [Thumbnail(plain(COLORS[0]), ""), Thumbnail(plain(COLORS[1], (20, 19)), "")]
    )
    assert tuple(cell(sheet, 0, 0)[0, 0]) == (232, 232, 232)
    assert tuple(cell(sheet, 1, 0)[100, 64]) == COLORS[1]


def test_captions_are_written_below_and_stay_in_their_place():
    """A long text is cut, an empty one leaves white."""
    sheet = np.asarray(
        draw_contact_sheet(
            [Thumbnail(plain(WHITE), "a very long name " * 9), Thumbnail(plain(WHITE), "")]
        )
    )
    dark = (sheet < 128).all(axis=2)
    assert dark[8 + CELL_PIXELS :, 8:STEP].any()
    assert not dark[: 8 + CELL_PIXELS].any()
    assert not dark[:, STEP:].any()


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("Kätzchen Å", "Katzchen A"),
        ("猫", r"\u732b"),
        ("가", r"\uac00"),
        ("Straße", r"Stra\xdfe"),
        ("a\n b", "a b"),
    ],
)
def test_letters_that_no_font_has(monkeypatch, text, same):
    """Letters that no font has lose their accents or become numbers.

    The numbers tell two classes of another script apart.
    """
    monkeypatch.setattr(contact_sheet, "_SYSTEM_FONTS", ())
    forget()
    drawn, wanted, other = (
        np.asarray(draw_contact_sheet([Thumbnail(plain(WHITE), name)]))
        for name in (text, same, "犬")
    )
    assert (drawn == wanted).all()
    assert (drawn != other).any()


@pytest.fixture(autouse=True)
def fonts():
    """Looks for fonts anew in each test."""
    yield
    forget()


def forget():
    contact_sheet._fonts.cache_clear()
    contact_sheet._font.cache_clear()


@pytest.mark.parametrize("text", ["Kätzchen", "郁金香", "3 (郁金香)", "котёнок"])
def test_a_font_of_the_system_writes_the_letters_that_it_has(monkeypatch, text):
    """A system's font writes its letters, and not their numbers.

    Another name looks different.
    """
    if None in map(contact_sheet._font, text):
        pytest.skip("no font of this machine has these letters")
    assert "".join(run for _, run in contact_sheet._runs(text)) == text
    drawn, other = (
        np.asarray(draw_contact_sheet([Thumbnail(plain(WHITE), name)]))
        for name in (text, text[:-1])
    )
    monkeypatch.setattr(contact_sheet, "_SYSTEM_FONTS", ())
    forget()
    by_numbers = np.asarray(draw_contact_sheet([Thumbnail(plain(WHITE), text)]))
    assert (drawn != by_numbers).any()
    assert (drawn != other).any()


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

    def draw(found):
        pictures[:] = found
        return draw_contact_sheet(found)

    monkeypatch.setattr(inspect, "draw_contact_sheet", draw)
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
    assert inspect.write_contact_sheet(folder, str(tmp_path / "out.png"), 64) == 6
    assert [picture.caption for picture in drawn] == captions * 2
    assert [picture.content for picture in drawn] == IMAGES.to_pylist() * 2
    assert Image.open(tmp_path / "out.png").format == "PNG"


def test_as_many_are_drawn_as_asked_for(tmp_path, drawn):
    """The first images over several shards are drawn."""
    folder = write_dataset(tmp_path, {"image/encoded": IMAGES})
    assert inspect.write_contact_sheet(folder, str(tmp_path / "new" / "out.png"), 4) == 4
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
    folder, output = write_dataset(tmp_path, columns, schema), str(tmp_path / "out.png")
    for path, feature, wanted in (
        (folder, None, IMAGES.to_pylist() * 2),
        (folder, "image/encoded", [b"x", None, b"z"] * 2),
        (str(tmp_path / "0.tfrecord"), "image", IMAGES.to_pylist()),
        (str(tmp_path / "0.tfrecord"), None, [b"x", None, b"z"]),
    ):
        inspect.write_contact_sheet(path, output, 64, feature=feature)
        assert [picture.content for picture in drawn] == wanted


def test_raw_records_are_pictures_themselves(tmp_path, drawn):
    """A dataset whose records are images, not examples, is drawn as well."""
    folder = write_dataset(tmp_path, {"image/encoded": IMAGES}, record="raw")
    for number in range(2):
        (tmp_path / f"{number}.tfrecord").write_bytes(b"".join(_native.frame(IMAGES).to_pylist()))
    inspect.write_contact_sheet(folder, str(tmp_path / "out.png"), 64)
    assert [picture.content for picture in drawn] == IMAGES.to_pylist() * 2


@pytest.mark.parametrize(
    ("output", "arguments", "message"),
    [
        ("out.jpg", {}, r"--images .*out\.jpg: found another suffix, expected the name of a \.png file"),
        ("out.png", {"feature": "imag"},
         "found no feature 'imag' of bytes, expected one of image. Name it by --feature. Did you mean 'image'"),
        ("out.png", {}, "found no feature 'image/encoded' of bytes, expected one of image"),
        ("out.png", {"feature": "id"}, "found no feature 'id' of bytes, expected one of image"),
        ("out.png", {"split": "eval"}, "found no split 'eval', expected one of train"),
        ("out.png", {"number": 1025}, "-n 1025: found more pictures than fit on a sheet, expected at most 1,024"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_explained(tmp_path, output, arguments, message):
    """Exit status 2, and nothing is written."""
    folder = write_dataset(tmp_path, {"image": IMAGES, "id": pa.array([1, 2, 3])})
    with pytest.raises(RecipeError, match=message):
        inspect.write_contact_sheet(folder, str(tmp_path / output), **{"number": 5} | arguments)
    assert not (tmp_path / output).exists()


def test_no_examples_are_an_error(tmp_path):
    """An empty file has no pictures."""
    (tmp_path / "x.tfrecord").write_bytes(b"")
    with pytest.raises(DataError, match="found no examples, expected some to draw"):
        inspect.write_contact_sheet(str(tmp_path / "x.tfrecord"), str(tmp_path / "out.png"), 5)


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
        [*command, "--images", "out.png"], cwd=tmp_path, capture_output=True, text=True
    )
    assert shown.stdout == f"out.png: 6 pictures of {folder}.\n0 False\n", shown.stderr
    assert (tmp_path / "out.png").exists()
    wrong = subprocess.run(
        [*command, "--feature", "x"], cwd=tmp_path, capture_output=True, text=True
    )
    assert wrong.stdout == "2 False\n"
    assert "found --feature without --images FILE, expected both or neither" in wrong.stderr
