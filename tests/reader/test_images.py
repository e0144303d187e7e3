"""Images of any format and size come as pixels of one size."""

from __future__ import annotations

import io
import itertools
import sys

import numpy as np
import PIL.Image
import pyarrow as pa
import pytest

import beam_pipelines as bp
from beam_pipelines.core.errors import DataError
from beam_pipelines.reader import images, reader
from tests.reader.datasets import write_records
from tests.support.wire import example

# Pillow 13 rounds otherwise when it resizes.
IS_SAME = int(PIL.__version__.split(".")[0]) < 13

SCHEMA = """
feature { name: "id" type: INT presence { min_fraction: 1 } shape { dim { size: 1 } } }
feature { name: "image" type: BYTES presence { min_fraction: 1 } shape { dim { size: 1 } } }
"""


def picture(number, height=40, width=60, mode="RGB", wave=15):
    """Returns a smooth picture, another one for each number."""
    y, x = np.mgrid[:height, :width]
    waves = [np.sin((x * (1 + c) + y * (3 - c) + number * 40) / wave) for c in range(3)]
    pixels = (np.stack(waves, 2) * 120 + 128).astype(np.uint8)
    return PIL.Image.fromarray(pixels).convert(mode)


def encoded(image, format_="PNG", **options):
    data = io.BytesIO()
    image.save(data, format_, **options)
    return data.getvalue()


def write(folder, contents, schema=SCHEMA):
    rows = [
        example({"id": ("int64", [number]), "image": ("bytes", None if one is None else [one])})
        for number, one in enumerate(contents)
    ]
    return write_records(folder, schema, rows)


def read(folder, image, batch_size=100, **options):
    options = {"shuffle": False, **options}
    return bp.open(folder).batches("train", batch_size, images={"image": image}, **options)


def test_formats(tmp_path):
    """Every format and mode becomes the pixels that Pillow has."""
    plain = picture(1)
    transparent = plain.copy()
    transparent.putalpha(7)
    deep = PIL.Image.fromarray(np.asarray(picture(2, mode="L")).astype(np.uint16) * 256 + 99)
    grey = picture(2, mode="L")
    contents = [
        (encoded(plain), plain),
        (encoded(plain, "BMP"), plain),
        (encoded(plain, "WEBP", lossless=True), plain),
        (encoded(transparent), plain),
        (encoded(picture(2, mode="L")), picture(2, mode="L")),
        (encoded(deep), picture(2, mode="L")),
        (encoded(picture(3, mode="P")), picture(3, mode="P")),
        (encoded(grey, "GIF", save_all=True, append_images=[picture(1, mode="L")]), grey),
        (encoded(plain, "JPEG", quality=95), plain),
        (encoded(picture(2, mode="L"), "JPEG", quality=95), picture(2, mode="L")),
        (encoded(picture(4, mode="CMYK"), "JPEG", quality=95), picture(4)),
    ]
    folder = write(tmp_path, [content for content, _ in contents])
    for channels, mode in ((3, "RGB"), (1, "L")):
        (batch,) = read(folder, bp.Image((40, 60), channels=channels))
        found = batch["image"]
        assert found.dtype == np.uint8
        assert found.shape == (11, 40, 60, channels)
        for number, (pixels, (_, expected)) in enumerate(zip(found, contents, strict=True)):
            own = np.asarray(expected.convert("RGB").convert(mode)).reshape(pixels.shape)
            most = 0 if number < 8 else 16  # JPEG loses
            assert np.abs(pixels.astype(int) - own).max() <= most, number


def test_sizes_and_crops(tmp_path):
    """The image or its centered part is resized with a triangle filter."""
    sizes = [(40, 60), (60, 40), (10, 10), (200, 31), (24, 32)]
    shown = [picture(number, *size) for number, size in enumerate(sizes)]
    folder = write(tmp_path, [encoded(image) for image in shown])
    bilinear = PIL.Image.Resampling.BILINEAR
    (whole,) = read(folder, bp.Image((24, 32)))
    (center,) = read(folder, bp.Image((24, 32), crop="center"))
    for number, image in enumerate(shown):
        expected = np.asarray(image.resize((32, 24), bilinear))
        assert np.abs(whole["image"][number] - expected.astype(int)).max() <= 1 - IS_SAME
        wide = image.width / 32 > image.height / 24
        scale = image.height / 24 if wide else image.width / 32
        left, top = (image.width - 32 * scale) / 2, (image.height - 24 * scale) / 2
        box = left, top, left + 32 * scale, top + 24 * scale
        expected = np.asarray(image.resize((32, 24), bilinear, box)).astype(int)
        assert np.abs(center["image"][number] - expected).max() <= 1


@pytest.mark.parametrize("size", [(20, 30), (21, 30), (9, 12), (5, 5), (60, 80)])
def test_scaled_jpegs(tmp_path, size):
    """JPEGs that are decoded smaller look like whole ones."""
    content = encoded(picture(5, 81, 119, wave=60), "JPEG", quality=95)
    folder = write(tmp_path, [content])
    (batch,) = read(folder, bp.Image(size))
    image = PIL.Image.open(io.BytesIO(content))
    expected = np.asarray(image.resize(size[::-1], PIL.Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(batch["image"][0] - expected).mean() < 2


def test_random_crops(tmp_path, monkeypatch):
    """A resume repeats crops, on any ranks; epochs differ."""
    monkeypatch.setattr(reader, "IMAGE_BYTES", 8 * 8 * 3 * 5)  # groups of five rows
    folder = write(tmp_path, [encoded(picture(number)) for number in range(24)])
    image = bp.Image((8, 8), crop="random")

    def by_id(*readers, steps=None):
        found = {}
        for one in readers:
            for step, batch in enumerate(one):
                found |= dict(zip(batch["id"].tolist(), map(bytes, batch["image"]), strict=True))
                if step + 1 == steps:
                    break
        return found

    whole = read(folder, image, 4, shuffle=True)
    first, second = by_id(whole), by_id(whole)
    assert len(first) == 24
    assert all(first[number] != second[number] for number in first)
    begun = read(folder, image, 4, shuffle=True)
    before = by_id(begun, steps=2)
    rest = [read(folder, image, 2, shuffle=True, rank=rank, world_size=2) for rank in range(2)]
    for one in rest:
        one.load_state_dict(begun.state_dict())
    assert before | by_id(*rest) == first
    assert by_id(read(folder, image, 7)) == first
    assert by_id(read(folder, image, 7, seed=2)) != first


@pytest.mark.parametrize("size", [(40, 60), (3, 100), (100, 3), (1, 1)])
def test_random_boxes(size):
    """Boxes are within the image, and have the stated shares."""
    for number in range(100):
        left, top, right, bottom = images._random_box(*size, np.random.Philox(number))
        assert 0 <= left < right <= size[1]
        assert 0 <= top < bottom <= size[0]
        share = (right - left) * (bottom - top) / size[0] / size[1]
        if size == (40, 60):
            assert 0.07 < share <= 1
            assert 0.7 < (right - left) / (bottom - top) < 1.43


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no picture", r"found 10 bytes that cannot be decoded \(.*\), expected an image"),
        (b"", "found 0 bytes that cannot be decoded"),
        (encoded(picture(0))[:200], "found 200 bytes that cannot be decoded"),
        (encoded(picture(0), "JPEG")[:300], "found 300 bytes that cannot be decoded"),
        (encoded(picture(0), "EPS"), r"found .* expected an image \(JPEG, PNG, BMP, GIF or WebP\)"),
        (encoded(picture(0), "TIFF"), "found .* bytes that cannot be decoded"),
        (None, "found nothing, expected one image in every row"),
    ],
)
def test_damaged_images(tmp_path, content, message):
    """A missing or damaged image is an error with its place."""
    contents = [encoded(picture(0)), content, encoded(picture(1)), encoded(picture(2))]
    folder = write(tmp_path, contents)
    with pytest.raises(DataError, match=r"t-00000\S*, record 1: feature 'image': " + message):
        list(read(folder, bp.Image((8, 8))))


def test_too_many_pixels(tmp_path, monkeypatch):
    """A JPEG of too many pixels is refused before decoding."""
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 1000)
    folder = write(tmp_path, [encoded(picture(0), "JPEG")])
    with pytest.raises(DataError, match=r"cannot be decoded .*2[,]?400 pixels"):
        list(read(folder, bp.Image((8, 8))))
    # A conversion in this process takes Pillow's limit away: it has one of its own, as readers.
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", None)
    assert len(list(read(folder, bp.Image((8, 8))))) == 1
    monkeypatch.setattr(images, "_USUAL_PIXELS", 1000)
    for format_ in ("JPEG", "PNG"):
        folder = write(tmp_path / format_, [encoded(picture(0), format_)])
        with pytest.raises(DataError, match=r"cannot be decoded \(2,400 pixels, at most 2,000"):
            list(read(folder, bp.Image((8, 8))))


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ((8, 8), r"images: found \(8, 8\) for feature 'image', expected bp.Image"),
        (bp.Image((8, 0)), r"expected a size of \(height, width\) in pixels"),
        (bp.Image(8), r"expected a size of \(height, width\) in pixels"),
        (bp.Image((8, 8), "left"), "expected a crop of None, 'center' or 'random'"),
        (bp.Image((8, 8), channels=4), "expected channels of 1"),
        (bp.Image((8, 8), device="gpu"), "expected a device of None or 'cuda'"),
        (bp.Image((8, 8), device="cuda"), r"Give batches\(\) device='cuda' as well"),
    ],
)
def test_wrong_options(tmp_path, image, message):
    """A wrong size, crop or number of channels is refused."""
    folder = write(tmp_path, [encoded(picture(0))])
    with pytest.raises(ValueError, match=message):
        read(folder, image)


def test_features_without_images(tmp_path):
    """Features of numbers, and Arrow batches, have no images."""
    folder = write(tmp_path, [encoded(picture(0))])
    with pytest.raises(ValueError, match="images: found 'id', expected a feature of bytes"):
        bp.open(folder).batches("train", images={"id": bp.Image((8, 8))})
    with pytest.raises(ValueError, match="images: found it with as_='arrow'"):
        read(folder, bp.Image((8, 8)), as_="arrow")


def test_rows_by_number(tmp_path):
    """Rows by their numbers have the crops of epoch 0."""
    folder = write(tmp_path, [encoded(picture(number)) for number in range(9)])
    with read(folder, bp.Image((8, 8), crop="random"), seed=3) as reader:
        (whole,) = reader
        found = reader.take([7, 2])
    assert found["id"].tolist() == [7, 2]
    assert np.array_equal(found["image"], whole["image"][[7, 2]])


def test_pictures_of_a_device():
    """Parts of a column have files, and pixels that no device decodes."""
    formats = ["JPEG", "PNG", "JPEG", "JPEG", "WEBP", "BMP", "JPEG"]
    contents = [encoded(picture(number), format_) for number, format_ in enumerate(formats)]
    column, image = pa.array([b"", *contents], pa.large_binary())[1:], bp.Image((8, 9), "random")
    epochs = np.arange(7)
    expected = images.decode_images("image", column, image, 3, epochs)
    found = images.prepare_pictures("image", column, image, 3, epochs)
    for start, end in itertools.combinations_with_replacement(range(8), 2):
        part = found.cut(start, end)
        ends = np.cumsum(part.sizes)
        files = [
            part.files[at - size : at].tobytes() for size, at in zip(part.sizes, ends, strict=True)
        ]
        assert files == contents[start:end]
        assert part.epochs.tolist() == list(range(start, end))
        others = [number - start for number in (1, 4, 5) if start <= number < end]
        assert part.others.tolist() == others
        assert np.array_equal(part.pixels, expected[start:end][others])
        boxes = part.cuts[[number not in others for number in range(end - start)]]
        assert (boxes[:, :2] < boxes[:, 2:4]).all()


@pytest.mark.parametrize("module", ["PIL", "simplejpeg"])
def test_missing_packages(tmp_path, monkeypatch, module):
    """Without a package that decodes images, the error names both."""
    folder = write(tmp_path, [encoded(picture(1))])
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=r"images: found no .* Install pillow and simplejpeg\."):
        read(folder, bp.Image((4, 4)))
