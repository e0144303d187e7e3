"""Decodes, crops and resizes a batch of JPEGs on a CUDA device.

nvJPEG decodes, through torchvision. One kernel of Triton makes all pictures of a batch. It filters
as ``Image.resize`` of Pillow does with BILINEAR: a triangle, widened where the picture shrinks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import torch
import torchvision.io
import triton
import triton.language as tl

from beam_pipelines.core.errors import DataError
from beam_pipelines.reader.arrays import WrongRowError
from beam_pipelines.reader.images import Image, Pictures, decode_images

_MODES = {1: torchvision.io.ImageReadMode.GRAY, 3: torchvision.io.ImageReadMode.RGB}
# Pixels of the result that a program of the kernel makes.
_TILE = 256


def decode_pictures(
    name: str, image: Image, seed: int, host: Pictures, device: Pictures
) -> torch.Tensor:
    """Makes the pixels of a batch on the current stream.

    Where nvJPEG refuses a picture, the CPU decodes the batch, to the same crops.

    Args:
      name: of the feature, for messages.
      image: the result.
      seed: of the crops.
      host: the pictures, tensors on the CPU.
      device: the same on the device where the result will be.

    Returns:
      uint8 [rows, height, width, channels].

    Raises:
      DataError: a picture is damaged.
    """
    is_jpeg = np.ones(len(host.sizes), np.bool_)
    is_jpeg[host.others.numpy()] = False
    rows = np.flatnonzero(is_jpeg)
    files = host.files.split(host.sizes.tolist())
    result = device.pixels.new_empty((len(files), *image.size, image.channels))
    result[device.others] = device.pixels
    if not len(rows):
        return result
    try:
        found = torchvision.io.decode_jpeg(
            [files[row] for row in rows.tolist()],
            _MODES[image.channels],
            device=device.cuts.device,
        )
    except RuntimeError:
        return result.copy_(torch.from_numpy(_on_cpu(name, image, seed, host)))
    where = torch.from_numpy(rows).to(result.device)
    planes = [picture.contiguous() for picture in found]  # they are, on a device
    _resize_all(planes, device.cuts[where], where, result)
    if result.is_cuda:  # nvJPEG has a stream of its own, and may get this memory for the next ones
        torch.cuda.current_stream().synchronize()
    return result


def _on_cpu(name: str, image: Image, seed: int, host: Pictures) -> Any:
    offsets = np.concatenate([[0], np.cumsum(host.sizes.numpy())])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(host.files.numpy())]
    contents = pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)
    try:
        return decode_images(name, contents, image, seed, host.epochs.numpy())
    except WrongRowError as error:
        raise DataError(
            f"batch, row {error.row}: {error.message}. Without the device of bp.Image, the error "
            "has the file and the record."
        ) from error


def _resize_all(
    pictures: list[torch.Tensor], cuts: torch.Tensor, rows: torch.Tensor, result: torch.Tensor
) -> None:
    """Writes a part of each picture to its row of the result.

    Args:
      pictures: uint8 [channels, height, width], of any sizes.
      cuts: float32 [pictures, 5]: left, top, right, bottom, factor.
      rows: int64 [pictures].
      result: uint8 [rows, height, width, channels].
    """
    about = torch.tensor(
        [(picture.data_ptr(), *picture.shape[1:]) for picture in pictures], dtype=torch.int64
    ).to(result.device)
    _, height, width, channels = result.shape
    grid = len(pictures), triton.cdiv(height * width, _TILE)
    _resize[grid](about, cuts, rows, result, height, width, channels, _TILE)


@triton.jit
def _reach(start, end, place, size, length, factor):
    """Returns center, half width, first pixel and number of pixels.

    A JPEG that the CPU decodes smaller has blocks of ``factor`` pixels in place of pixels.
    """
    scale = (end - start) / factor / size
    center = start / factor + (place + 0.5) * scale
    half = tl.maximum(scale, 1.0)
    blocks = (length + factor - 1) // factor
    first = tl.maximum((center - half + 0.5).to(tl.int32), 0)
    behind = tl.minimum((center + half + 0.5).to(tl.int32), blocks)
    last = tl.minimum(behind * factor, length)
    return center, half, first * factor, last - first * factor


@triton.jit
def _weight(pixel, factor, center, half, count, step):
    """Returns the weight of a pixel, which is that of its block."""
    found = 1.0 - tl.abs((pixel // factor + 0.5 - center) / half)
    return tl.where(step < count, tl.maximum(found, 0.0), 0.0)


@triton.jit
def _resize(
    about,
    cuts,
    rows,
    result,
    result_height: tl.constexpr,
    result_width: tl.constexpr,
    channels: tl.constexpr,
    tile: tl.constexpr,
):
    """Makes a tile of one picture's pixels."""
    picture = tl.program_id(0)
    place = tl.program_id(1) * tile + tl.arange(0, tile)
    source = tl.load(about + 3 * picture).to(tl.pointer_type(tl.uint8))
    height = tl.load(about + 3 * picture + 1).to(tl.int32)
    width = tl.load(about + 3 * picture + 2).to(tl.int32)
    left, top = tl.load(cuts + 5 * picture), tl.load(cuts + 5 * picture + 1)
    right, bottom = tl.load(cuts + 5 * picture + 2), tl.load(cuts + 5 * picture + 3)
    factor = tl.load(cuts + 5 * picture + 4).to(tl.int32)
    across, half_x, left_most, columns = _reach(
        left, right, place % result_width, result_width, width, factor
    )
    down, half_y, top_most, lines = _reach(
        top, bottom, place // result_width, result_height, height, factor
    )
    total = tl.zeros([tile], tl.float32)
    first = tl.zeros([tile], tl.float32)
    second = tl.zeros([tile], tl.float32)
    third = tl.zeros([tile], tl.float32)
    for line in range(tl.max(lines, 0)):
        y = top_most + line
        of_line = _weight(y, factor, down, half_y, lines, line)
        for column in range(tl.max(columns, 0)):
            x = left_most + column
            weight = of_line * _weight(x, factor, across, half_x, columns, column)
            pixel = source + y * width + x
            counts = weight > 0
            total += weight
            first += weight * tl.load(pixel, mask=counts, other=0).to(tl.float32)
            if channels == 3:
                green = tl.load(pixel + height * width, mask=counts, other=0)
                blue = tl.load(pixel + 2 * height * width, mask=counts, other=0)
                second += weight * green.to(tl.float32)
                third += weight * blue.to(tl.float32)
    to = result + (tl.load(rows + picture) * result_height * result_width + place) * channels
    is_own = place < result_height * result_width
    tl.store(to, (first / total + 0.5).to(tl.uint8), mask=is_own)
    if channels == 3:
        tl.store(to + 1, (second / total + 0.5).to(tl.uint8), mask=is_own)
        tl.store(to + 2, (third / total + 0.5).to(tl.uint8), mask=is_own)
