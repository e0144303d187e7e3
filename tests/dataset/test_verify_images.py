"""``verify --images`` decodes images of any source strictly."""

from __future__ import annotations

import io
import pathlib
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import beam_pipelines as bp
from beam_pipelines.cli.main import run
from beam_pipelines.core.errors import DataError, RecipeError

pytestmark = pytest.mark.end_to_end


def picture(format_: str) -> bytes:
    """Returns an image with content in all of its parts."""
    file = io.BytesIO()
    Image.effect_noise((64, 64), 90).convert("RGB").save(file, format_)
    return file.getvalue()


JPEG, PNG = picture("JPEG"), picture("PNG")
ZERO_TAIL = JPEG[: len(JPEG) // 2] + bytes(len(JPEG) - len(JPEG) // 2)
CASES = {
    "whole": ([JPEG, None, PNG], None),
    "JPEG that ends in zeros": ([JPEG, None, ZERO_TAIL], "record 2, feature"),
    "PNG without its end": ([JPEG, PNG[:-4]], "record 1, feature"),
    "not an image": ([b"GIF, they say"], "record 0, feature"),
}


def convert(folder: pathlib.Path, images: list[bytes | None], recipe: str) -> pathlib.Path:
    """Writes a dataset of a Parquet table whose images were not decoded."""
    pq.write_table(pa.table({"image/encoded": images}), folder / "t.parquet")
    (folder / "r.yaml").write_text(f"name: t\nsources: {{t: t.parquet}}\n{recipe}\n")
    with mock.patch("beam_pipelines.pipeline.planning.sources.with_images", lambda plan, *_: plan):
        bp.convert(folder / "r.yaml", folder / "out")
    return folder / "out"


@pytest.mark.parametrize("case", CASES)
def test_images_of_a_table(tmp_path: pathlib.Path, case: str) -> None:
    """An image that is not whole is named with its record."""
    images, message = CASES[case]
    out = convert(tmp_path, images, "output: {shuffle: false}")
    assert bp.verify(out).rows == len(images)
    if message is None:
        bp.verify(out, images=True)
    else:
        with pytest.raises(DataError, match=f"tfrecord.gz, {message} 'image/encoded': "):
            bp.verify(out, images=True)


@pytest.mark.parametrize("name", ["image/encoded", "x"])
def test_images_under_another_name(tmp_path: pathlib.Path, name: str) -> None:
    """A feature with an image domain counts, whatever its name."""
    out = convert(tmp_path, [ZERO_TAIL], f"rename: {{image/encoded: {name}}}" * (name == "x"))
    with pytest.raises(DataError, match=f"feature '{name}'"):
        bp.verify(out, images=True)


def test_steps_and_raw_records(tmp_path: pathlib.Path) -> None:
    """Images of feature lists and of raw records are decoded, too."""
    for images, recipe, place in (
        (
            [[JPEG], [JPEG, ZERO_TAIL]],
            "sequence: {features: image/encoded}\noutput: {shuffle: false}",
            "1, feature",
        ),
        ([JPEG, PNG[:-1]], "output: {record: image/encoded, shuffle: false}", "1: "),
    ):
        folder = tmp_path / place[-1]
        folder.mkdir()
        with pytest.raises(DataError, match=f"record {place}"):
            bp.verify(convert(folder, images, recipe), images=True)


def test_the_command(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command says that images were decoded; without any it refuses."""
    out = convert(tmp_path, [JPEG], "")
    assert run(["verify", str(out), "--images"]) == 0
    assert capsys.readouterr().out.endswith("parses by the schema. Every image is whole.\n")
    (tmp_path / "t.csv").write_text("a\n1\n")
    bp.convert(tmp_path / "t.csv", tmp_path / "plain")
    with pytest.raises(RecipeError, match="found no feature of images, expected 'image/encoded'"):
        bp.verify(tmp_path / "plain", images=True)
