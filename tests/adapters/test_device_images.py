"""Pictures that a CUDA device decodes.

Here an interpreter runs the kernel; a device runs all of it.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import beam_pipelines as bp
from tests.reader.test_images import encoded, picture, write

pytestmark = pytest.mark.adapters
# Formats and sizes: wider, higher, smaller and larger than the result, grey, progressive, no JPEG.
PICTURES = [
    encoded(picture(0, 60, 80, wave=60), "JPEG", quality=90),
    encoded(picture(1, 81, 40, wave=60), "JPEG", quality=95, subsampling=0),
    encoded(picture(2, 9, 7, wave=30), "JPEG", quality=95),
    encoded(picture(3, 50, 130, "L", wave=60), "JPEG", quality=90),
    encoded(picture(4, 70, 70, wave=60), "JPEG", quality=90, progressive=True),
    encoded(picture(5, 40, 60)),
    encoded(picture(6, 40, 60, "CMYK"), "JPEG", quality=95),
]
IMAGES = [bp.Image((12, 16), crop, channels) for crop, channels in
          ((None, 3), ("center", 1), ("random", 3), ("random", 1))]  # fmt: skip
ON_CPU = """
import numpy as np
import pyarrow as pa
import torch
from beam_pipelines.core.errors import DataError
from beam_pipelines.reader import images
from beam_pipelines.reader.device_images import decode_pictures
from tests.adapters.test_device_images import IMAGES, PICTURES, assert_alike
contents, epochs = pa.array(PICTURES, pa.large_binary()), np.arange(len(PICTURES))
def decode(contents, image):
    count = len(contents)
    found = images.prepare_pictures("image", contents, image, 7, epochs[:count]).cut(0, count)
    host = images.Pictures(*map(torch.from_numpy, found))
    return decode_pictures("image", image, 7, host, host).numpy()
for image in IMAGES:
    assert_alike(decode(contents, image), images.decode_images("image", contents, image, 7, epochs))
try:
    decode(pa.array([PICTURES[0][:900]], pa.large_binary()), IMAGES[0])
except DataError as error:
    print(error)
"""


def assert_alike(found, expected):
    """Pixels differ by less than 2, and few by more than 8."""
    differences = np.abs(found.astype(int) - expected)
    assert found.shape == expected.shape
    assert differences.reshape(len(found), -1).mean(1).max() < 2
    assert (differences <= 8).mean() >= 0.999


def test_pixels_by_an_interpreter():
    """The kernel nearly has the CPU's pixels; damage is an error."""
    pytest.importorskip("triton")
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ON_CPU],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    assert "batch, row 0: feature 'image': found 900 bytes that cannot be decoded" in run.stdout


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("capability", [80, 90, 100])
def test_kernel_compiles(channels, capability):
    """The kernel becomes machine code of devices that are not here."""
    pytest.importorskip("triton")
    from triton import compiler
    from triton.backends.compiler import GPUTarget

    from beam_pipelines.reader import device_images

    sizes = {"result_height": 224, "result_width": 224, "channels": channels, "tile": 256}
    types = {"about": "*i64", "cuts": "*fp32", "rows": "*i64", "result": "*u8"}
    source = compiler.ASTSource(
        device_images._resize, types | dict.fromkeys(sizes, "constexpr"), sizes
    )
    assert compiler.compile(source, target=GPUTarget("cuda", capability, 32)).asm["cubin"]


@pytest.mark.parametrize("image", IMAGES)
def test_pixels_on_a_device(tmp_path, image):
    """A device nearly has the CPU's pixels, by number as well."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    folder = write(tmp_path, PICTURES * 20)
    options = {"batch_size": 9, "as_": "torch", "seed": 3, "epochs": 2}
    same = bp.open(folder).batches("train", images={"image": image}, **options)
    own = {"images": {"image": image._replace(device="cuda")}, "device": "cuda"}
    with bp.open(folder).batches("train", **options, **own) as reader:
        for batch, expected in zip(reader, same, strict=True):
            assert batch["image"].is_cuda
            assert batch["id"].tolist() == expected["id"].tolist()
            assert_alike(batch["image"].cpu().numpy(), expected["image"].numpy())
        assert_alike(
            reader.take([5, 0, 3])["image"].cpu().numpy(), same.take([5, 0, 3])["image"].numpy()
        )
