"""Reads datasets by tfx-bsl's decoder, which shares no code with the writer."""

from __future__ import annotations

import gzip
import pathlib
import struct

from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder


def read_examples(folder: pathlib.Path, split: str) -> list[dict]:
    """Returns the examples of a split with single values.

    Bytes are text, and a missing value is None.
    """
    records: list[bytes] = []
    for path in sorted((folder / "examples" / f"Split-{split}").iterdir()):
        data, position = gzip.decompress(path.read_bytes()), 0
        while position < len(data):
            (length,) = struct.unpack_from("<Q", data, position)
            records.append(data[position + 12 : position + 12 + length])
            position += 16 + length
    rows = ExamplesToRecordBatchDecoder().DecodeBatch(records).to_pylist()
    return [{name: _only(value) for name, value in row.items()} for row in rows]


def _only(values: list | None) -> object:
    if not values:
        return None
    return values[0].decode() if isinstance(values[0], bytes) else values[0]
