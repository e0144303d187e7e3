"""Tests of the check that an image is whole.

TensorFlow decodes what is stored, and its pixels are those of the whole file.
"""

from __future__ import annotations

import base64
import io
import random
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import Limits
from beam_pipelines.sources.images import pictures
from beam_pipelines.sources.images.options import ImageOptions, PictureError
from beam_pipelines.sources.planner import plan_source
from beam_pipelines.transforms.read import read_table
from tests.support.image_files import animation, encode, photographs
from tests.support.made_source import made_source

RGB = np.ascontiguousarray(photographs()["flower"][100:140, 200:260])
GREY = np.ascontiguousarray(RGB[:, :, 1])
RGBA = np.dstack([RGB, GREY])
RESIZE = ImageOptions(resize=(9, 9))
LIMITS = Limits()


def palette(format_: str, colors: int = 50, **options: Any) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(RGB).quantize(colors).save(stream, format_, **options)
    return stream.getvalue()


def bmp(numbers: np.ndarray[Any, Any], bits: int, colors: list[tuple[int, int, int]]) -> bytes:
    """Returns a BMP with a table of colors.

    A pixel is the number of its color, in 1, 4 or 8 bits.
    """
    height, width = numbers.shape
    row_bytes = (width * bits + 31) // 32 * 4
    digits = (numbers[:, :, None] >> np.arange(bits)[::-1]) & 1
    rows = np.packbits(digits.reshape(height, -1).astype(np.uint8), axis=1)
    rows = np.pad(rows, ((0, 0), (0, row_bytes - rows.shape[1])))[::-1]
    table = b"".join(struct.pack("BBBB", blue, green, red, 0) for red, green, blue in colors)
    start = 54 + len(table)
    head = struct.pack("<2sIII", b"BM", start + rows.size, 0, start)
    size = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, 0, 0, 0, 0, len(colors), 0)
    return head + size + table + rows.tobytes()


def cmyk() -> bytes:
    stream = io.BytesIO()
    Image.fromarray(RGB).convert("CMYK").save(stream, "JPEG")
    return stream.getvalue()


# 16 × 16 pixels with a ratio of color to brightness that TurboJPEG has no name for, made by
# `cjpeg -optimize -quality 40 -sample 1x1,2x1,1x2`.
ODDLY_SAMPLED = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABQODxIPDRQSEBIXFRQYHjIhHhwcHj0sLiQySUBMS0dARkVQWnNiUFVt"
    "VkVGZIhlbXd7gYKBTmCNl4x9lnN+gXz/2wBDARUXFx4aHjshITt8U0ZTfHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8"
    "fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHx8fHz/wAARCAAQABADAREAAiEBAxIB/8QAFAABAAAAAAAAAAAAAAAAAAAA"
    "AP/EABsQAQACAgMAAAAAAAAAAAAAAAECAwAFBCFx/8QAFgEBAQEAAAAAAAAAAAAAAAAAAwEE/8QAHBEAAQQDAQAA"
    "AAAAAAAAAAAAAgABAxESISJB/9oADAMBAAIRAxEAPwBr9LRxqq7b4M7gF7Ei+YJy0/KEpSfVqhHk9rSA+L//2Q=="
)
BMP = encode(RGB, "bmp")
GIF = palette("gif")
CASES = {
    "jpeg": encode(RGB, "jpeg"),
    "grey jpeg": encode(GREY, "jpeg"),
    "progressive jpeg": encode(RGB, "jpeg", progressive=True),
    "restarting jpeg": encode(RGB, "jpeg", restart_marker_blocks=3),
    "CMYK jpeg": cmyk(),
    "RGB jpeg": encode(RGB, "jpeg", keep_rgb=True),
    "jpeg of one pixel": encode(np.ascontiguousarray(RGB[:1, :1]), "jpeg"),
    "png": encode(RGB, "png"),
    "grey png": encode(GREY, "png"),
    "RGBA png": encode(RGBA, "png"),
    "16 bits png": encode(GREY.astype(np.uint16) * 256, "png"),
    "palette png": palette("png"),
    "palette with alpha png": palette("png", transparency=3),
    "4 bits png": palette("png", 9, bits=4),
    "gif": GIF,
    "grey gif": encode(GREY, "gif"),
    "gif of 9 colors": palette("gif", 9, transparency=2),
    "animated gif": animation([RGB, RGB[::-1], RGB], "gif"),
    "gif on a larger canvas": GIF[:6] + struct.pack("<HH", 90, 70) + GIF[10:],
    "webp": encode(RGB, "webp"),
    "RGBA webp": encode(RGBA, "webp", lossless=True),
    "bmp": BMP,
    "bmp, upper row first": BMP[:22] + struct.pack("<i", -40) + BMP[26:],
    "grey bmp": encode(GREY, "bmp"),
    "palette bmp": palette("bmp"),
    "32 bits bmp": encode(RGBA, "bmp"),
}


def tensorflow_shape(data: bytes) -> tuple[int, ...] | None:
    """Returns the shape of the first frame, as TensorFlow decodes it.

    Returns ``None`` if TensorFlow refuses any frame.
    """
    try:
        tf.io.decode_image(data)
        return tuple(tf.io.decode_image(data, expand_animations=False).shape)
    except tf.errors.InvalidArgumentError:
        return None


def stored(data: bytes) -> tuple[bytes, tuple[int, ...]] | None:
    """Returns what is stored, and the shape of its pixels."""
    try:
        made, look = pictures.convert(data, ImageOptions())
    except PictureError:
        return None
    return made, look[1:]


def accepted(data: bytes) -> tuple[int, ...] | None:
    found = stored(data)
    return found and found[1]


def is_recoded(name: str) -> bool:
    return "gif" in name or "bmp" in name


def damages(data: bytes) -> Iterator[bytes]:
    """Yields damaged copies of a file.

    Copies lack their end, have zeros there, or have bytes changed or inserted.
    """
    size, draw = len(data), random.Random(7)
    for length in (1, 2, 3, 4, 5, 8, *(max(1, size * share // 100) for share in (10, 50, 90))):
        yield data[:-length]
        yield data[:-length] + bytes(length)
        yield data[:-length] + bytes(max(0, length - 2)) + data[-2:]
    for _ in range(25):
        place = draw.randrange(min(size, 80) if draw.random() < 0.3 else size)
        yield data[:place] + bytes([data[place] ^ draw.randrange(1, 256)]) + data[place + 1 :]
        yield data[:place] + draw.randbytes(draw.randrange(20)) + data[place:]


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_stored_that_tensorflow_refuses(name):
    """Height, width and channels of what is stored are TensorFlow's.

    The undamaged file is stored, as it is or as PNG.
    """
    whole = CASES[name]
    found = stored(whole)
    assert found is not None
    assert (found[0] == whole) != is_recoded(name)
    for data in (whole, *damages(whole)):
        if data[8:16] == b"WEBPVP8X" and data[20] & 2:  # TensorFlow would crash
            continue
        found = stored(data)
        assert found is None or tensorflow_shape(found[0]) == found[1]
        if not is_recoded(name) and "webp" not in name and tensorflow_shape(data) is None:
            with pytest.raises(PictureError, match="expected"):
                pictures.convert(data, RESIZE)


@pytest.mark.parametrize("name", [name for name in CASES if is_recoded(name)])
def test_a_recoded_image_that_is_cut_is_refused_or_keeps_its_pixels(name):
    """Bytes without pixels of the first picture may be missing."""
    data = CASES[name]
    with Image.open(io.BytesIO(data)) as image:
        pixels = np.asarray(image.convert("RGB"))
    whole = stored(data)
    assert whole is not None
    decoded = tf.io.decode_image(whole[0]).numpy()
    np.testing.assert_array_equal(decoded[..., :3], pixels[..., : decoded.shape[2]])
    for length in range(0, len(data), 37):
        assert stored(data[:length]) in (None, whole)
    assert stored(data[: len(data) // 5]) is None


PHOTO = photographs()["flower"]


@pytest.mark.parametrize("options", [{}, {"progressive": True}], ids=["baseline", "progressive"])
@pytest.mark.parametrize("pixels", [PHOTO, PHOTO[:, :, 1]], ids=["RGB", "grey"])
@pytest.mark.parametrize("share", [10, 50, 90])
def test_a_jpeg_whose_end_is_zeros_is_refused(pixels, options, share):
    """A photograph of real size, kept as it is or resized."""
    data = encode(np.ascontiguousarray(pixels), "jpeg", **options)
    length = len(data) * share // 100
    for damaged in (data[:-length] + bytes(length), data[:-length]):
        with pytest.raises(PictureError, match="does not decode"):
            pictures.probe(damaged)
        with pytest.raises(PictureError, match="does not decode"):
            pictures.convert(damaged, RESIZE)


def test_a_warning_of_libjpeg_is_an_error():
    """TensorFlow takes this image, with pixels missing; another trainer may not."""
    data = CASES["jpeg"]
    damaged = data[:-40] + data[-2:]
    assert tensorflow_shape(damaged) == RGB.shape
    with pytest.raises(PictureError, match="premature end of data segment"):
        pictures.probe(damaged)


def test_a_jpeg_of_a_rare_ratio_of_color_is_refused():
    """TurboJPEG has no name for it; the error says what to do."""
    with pytest.raises(PictureError, match=r"rare ratio of color.*Encode it as PNG"):
        pictures.probe(ODDLY_SAMPLED)


def chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    found, at = [], 8
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        found.append((kind, data[at + 8 : at + 8 + length]))
        at += 12 + length
    return found


def png(parts: list[tuple[bytes, bytes]]) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in parts
    )


HEAD, *_, END = chunks(CASES["grey png"])
PIXELS = b"".join(b"\0" + row.tobytes() for row in GREY)
IDAT = (b"IDAT", zlib.compress(PIXELS))
PALETTE = (b"PLTE", bytes(range(150)))


@pytest.mark.parametrize(
    ("parts", "is_whole"),
    {
        "as it is": ([HEAD, IDAT, END], True),
        "pixels in two chunks": ([HEAD, ("IDAT", IDAT[1][:9]), (b"IDAT", IDAT[1][9:]), END], True),
        "a chunk that need not be known": ([HEAD, (b"abCd", b"1"), IDAT, END], True),
        "too few pixels": ([HEAD, (b"IDAT", zlib.compress(PIXELS[:-1])), END], False),
        "too many pixels": ([HEAD, (b"IDAT", zlib.compress(PIXELS + b"12")), END], True),
        "no checksum of pixels": ([HEAD, (b"IDAT", IDAT[1][:-4]), END], False),
        "an unknown filter": ([HEAD, (b"IDAT", zlib.compress(b"\7" + PIXELS[1:])), END], False),
        "a chunk between pixels": (
            [HEAD, (b"IDAT", IDAT[1][:9]), (b"abCd", b""), (b"IDAT", IDAT[1][9:]), END],
            False,
        ),
        "a chunk that must be known": ([HEAD, (b"ABCD", b"1"), IDAT, END], False),
        "no pixels": ([HEAD, END], False),
        "no header": ([IDAT, END], False),
        "no end": ([HEAD, IDAT], False),
        "no palette": ([(b"IHDR", HEAD[1][:9] + b"\3\0\0\0"), IDAT, END], False),
        "two palettes": ([HEAD, PALETTE, PALETTE, IDAT, END], False),
        "a palette behind pixels": (
            [(b"IHDR", HEAD[1][:9] + b"\3\0\0\0"), IDAT, PALETTE, END],
            False,
        ),
        "a side that is too long": (
            [
                (b"IHDR", struct.pack(">II", 1_000_001, 1) + HEAD[1][8:]),
                (b"IDAT", zlib.compress(bytes(1_000_002))),
                END,
            ],
            False,
        ),
    }.values(),
)
def test_the_structure_of_a_png_is_that_of_libpng(parts, is_whole):
    """Checksums of chunks are right in all of them."""
    data = png(
        [(kind if isinstance(kind, bytes) else kind.encode(), content) for kind, content in parts]
    )
    assert (accepted(data) is not None, tensorflow_shape(data) is not None) == (is_whole, is_whole)


@pytest.mark.parametrize(
    ("alpha", "channels"),
    [((b"tRNS", b"\1\2"), 4), ((b"tRNS", bytes(51)), 3), ((b"tRNS", b""), 3)],
    ids=["of some colors", "of more than there are", "of none"],
)
def test_a_palette_has_alpha_where_tensorflow_sees_it(alpha, channels):
    """Alpha that does not fit the palette is refused, as decoders disagree."""
    header = (b"IHDR", HEAD[1][:9] + b"\3\0\0\0")
    pixels = (b"IDAT", zlib.compress(bytes(len(PIXELS))))
    data = png([header, PALETTE, alpha, pixels, END])
    assert tensorflow_shape(data) == (*GREY.shape, channels)
    assert accepted(data) == ((*GREY.shape, 4) if channels == 4 else None)


CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
KINDS = st.sampled_from([(color, bits) for color, all_ in DEPTHS.items() for bits in all_])
SIZES = st.tuples(st.integers(1, 9), st.integers(1, 9))
ADAM7 = (
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
)


def raw_rows(size: tuple[int, int], color: int, bits: int, interlaced: int) -> bytes:
    """Returns filtered rows of random pixels."""
    draw, rows = random.Random(repr((size, color, bits))), []
    for x, y, across, down in ADAM7 if interlaced else ((0, 0, 1, 1),):
        if columns := len(range(x, size[0], across)):
            count = -(-columns * bits * CHANNELS[color] // 8)
            rows += [
                bytes([draw.randrange(5)]) + draw.randbytes(count) for _ in range(y, size[1], down)
            ]
    return b"".join(rows)


def pillow_pixels(data: bytes, channels: int) -> np.ndarray[Any, Any]:
    with Image.open(io.BytesIO(data)) as image:
        if image.mode.startswith("I"):
            return (np.asarray(image).astype(np.uint32) >> 8)[..., None]
        pixels = np.asarray(image.convert(["L", "LA", "RGB", "RGBA"][channels - 1]))
        return pixels.reshape(*pixels.shape[:2], channels)


def check_as_tensorflow(data: bytes) -> bool:
    """Checks that what is accepted has Pillow's pixels in TensorFlow."""
    shape = accepted(data)
    if shape:
        decoded = tf.io.decode_image(data, expand_animations=False).numpy()
        assert decoded.shape == shape
        np.testing.assert_array_equal(decoded, pillow_pixels(data, shape[2]))
    return bool(shape)


@given(KINDS, SIZES, st.integers(0, 1))
@settings(max_examples=100)
def test_the_bytes_of_pixels_are_counted(kind, size, interlaced):
    """Of every depth, interlaced or not, one byte fewer is too few."""
    color, bits = kind
    raw = raw_rows(size, color, bits, interlaced)
    header = (b"IHDR", struct.pack(">IIBBBBB", *size, bits, color, 0, 0, interlaced))
    for missing in (0, 1, 1 + -(-size[0] * bits * CHANNELS[color] // 8)):
        rows = (b"IDAT", zlib.compress(raw[: len(raw) - missing]))
        data = png([header, *[(b"PLTE", bytes(768))] * (color == 3), rows, END])
        assert check_as_tensorflow(data) == (not missing)


# Some of them are no content that their kind may have.
MORE_CHUNKS = [
    *((kind, content) for kind in (b"tRNS", b"PLTE") for content in (b"", b"\0\1", bytes(51))),
    *((kind, b"x") for kind in (b"gAMA", b"pHYs", b"zTXt", b"abCd", b"ABCD", b"a1Cd", b"acTL")),
    (b"gAMA", struct.pack(">I", 45455)),
    (b"IDAT", b""),
    END,
]


@given(KINDS, SIZES, st.integers(0, 1), st.data())
@settings(max_examples=400)
def test_an_accepted_png_has_the_pixels_of_pillow_in_tensorflow(kind, size, interlaced, draw):
    """Chunks are dropped, moved, cut, changed and added, with right checksums."""
    color, bits = kind
    rows = zlib.compress(raw_rows(size, color, bits, interlaced))
    header = (b"IHDR", struct.pack(">IIBBBBB", *size, bits, color, 0, 0, interlaced))
    parts = [header, *[PALETTE] * (color == 3), (b"IDAT", rows[:9]), (b"IDAT", rows[9:]), END]
    for change in draw.draw(
        st.lists(st.sampled_from(["drop", "move", "cut", "set", "add"]), max_size=2)
    ):
        place = draw.draw(st.integers(0, len(parts) - 1))
        name, content = parts.pop(place)
        if change in ("cut", "set") and content:
            at = draw.draw(st.integers(0, len(content) - 1))
            other = bytes([draw.draw(st.integers(0, 255))])
            content = (
                content[: -1 - at % 8]
                if change == "cut"
                else content[:at] + other + content[at + 1 :]
            )
        if change == "move":
            place = draw.draw(st.integers(0, len(parts)))
        if change != "drop" or not parts:
            parts.insert(place, (name, content))
        if change == "add":
            parts.insert(
                draw.draw(st.integers(0, len(parts))), draw.draw(st.sampled_from(MORE_CHUNKS))
            )
    data = png(parts)
    check_as_tensorflow(data[: len(data) - draw.draw(st.sampled_from([0, 0, 0, 1, 4, 9]))])


GREYS = [(value, value, value) for value in range(256)]
RECODED = {
    "gif": CASES["gif"],
    "animated gif": CASES["animated gif"],
    "bmp": BMP,
    "bmp of 1 bit": bmp(GREY & 1, 1, GREYS[:2]),
    "bmp of 4 bits": bmp(GREY & 15, 4, [(value, 0, 0) for value in range(16)]),
    "bmp with bytes behind the pixels": BMP + b"\0\0",
    "animated webp": animation([RGB, RGB[::-1]], "webp"),
}


@pytest.mark.parametrize("name", RECODED)
def test_what_not_every_trainer_decodes_becomes_png(name):
    """A file does; in a column it is refused with a hint."""
    data = RECODED[name]
    with pytest.raises(PictureError, match=r"found an? .* image, .*expected JPEG, PNG or WebP"):
        pictures.probe(data)
    made, look = pictures.convert(data, ImageOptions())
    assert (look.format, pictures.probe(made)) == ("png", look)
    assert pictures.traits(data, LIMITS)[0] == "recoded"
    assert not pictures.traits(made, LIMITS)


@pytest.mark.parametrize("bits", [1, 4, 8])
@pytest.mark.parametrize(
    "colors",
    [GREYS[:2], GREYS[:5], GREYS[:256], [GREYS[0], GREYS[255]], [GREYS[255], GREYS[0]], GREYS[:1]],
    ids=["2", "5", "256", "black and white", "white and black", "black"],
)
def test_grey_bmps_keep_their_pixels(bits, colors):
    """Those that Pillow misreads are refused, with what to do."""
    count = min(len(colors), 2**bits)
    numbers = (GREY.astype(int) % count).astype(np.uint8)
    data = bmp(numbers, bits, colors[:count])
    misread = {1: GREYS[0:1], 2: [GREYS[0], GREYS[255]]}.get(count, GREYS[:count])
    own = {1: 8, 2: 1}.get(count, 8)
    if colors[:count] == misread and bits != own:
        with pytest.raises(PictureError, match=rf"{bits} bits a pixel .*Encode it as PNG"):
            pictures.convert(data, ImageOptions())
    else:
        made, _ = pictures.convert(data, ImageOptions())
        found = tf.io.decode_image(made).numpy()[..., 0]
        np.testing.assert_array_equal(found, np.array(colors)[numbers][..., 0])


def test_a_damaged_file_of_a_folder_is_named(tmp_path):
    """By its path, as a bad row that a budget allows."""
    folder = tmp_path / "photos" / "cat"
    folder.mkdir(parents=True)
    data = CASES["jpeg"]
    (folder / "1.jpg").write_bytes(data)
    (folder / "2.jpg").write_bytes(data[:-200] + bytes(200))
    for options in (ImageOptions(), RESIZE):
        source = made_source("photos", (str(tmp_path / "photos"),), format="images", image=options)
        plan = plan_source(source, "")
        with pytest.raises(DataError, match=r"2\.jpg: found an image that does not decode"):
            read_table(plan, reject=False)
        table, _, rejected = read_table(plan, reject=True)
        assert table.column("image/filename").to_pylist() == ["cat/1.jpg"]
        assert [row.file for row in rejected] == [str(folder / "2.jpg")]
