"""Prints examples of a dataset, or of any TFRecord file of tf.Examples, as a person wants to read them.

Only as much is read as is printed, and neither TensorFlow nor a schema is needed; with a dataset's schema, missing features are
named as well, and features come in the schema's order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from beam_pipelines import files
from beam_pipelines.errors import DataError, RecipeError, nearest
from beam_pipelines.manifest import FILE_NAME, read_manifest
from beam_pipelines.schema import read_schema
from beam_pipelines.tfrecord import read_record_blocks

LONGEST_TEXT = 60
LONGEST_LIST = 8
HEX_BYTES = 8
_GZIP_MAGIC = b"\x1f\x8b"
# RFC 1950: deflate with a window of 32 KiB, at each of the four levels that the header tells apart.
_ZLIB_MAGIC = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
MISSING = "(missing)"
_SPACES = str.maketrans("\n\r\t", "   ")


def inspect_examples(path: str, number: int, split: str | None = None) -> Iterator[str]:
    """Yields the first examples, each as some lines of text.

    Args:
      path: a dataset's folder, or a TFRecord file: gzip, zlib or neither, by its first bytes.
      number: how many examples.
      split: of a dataset, the split to read; default: the first.

    Raises:
      RecipeError: there is nothing at the path, or no such split.
      DataError: the file is damaged or holds no tf.Examples.
    """
    if files.exists(files.join(path, FILE_NAME)):
        manifest = read_manifest(path)
        split = next(iter(manifest["splits"])) if split is None else split
        if split not in manifest["splits"]:
            known = ", ".join(manifest["splits"])
            raise RecipeError(
                f"{path}: found no split '{split}', expected one of {known}.{nearest(split, manifest['splits'])}"
            )
        schema = read_schema(files.join(path, *manifest["schema"].split("/")))
        shards = [files.join(path, *shard["path"].split("/")) for shard in manifest["splits"][split]["shards"]]
        return _show_shards(shards, number, schema)
    if split is not None:
        raise RecipeError(
            f"{path}: found --split '{split}', but no dataset (no {FILE_NAME}). Leave out --split for a single file."
        )
    if not files.is_file(path) and files.is_local(path):
        raise RecipeError(f"{path}: found neither a dataset (no {FILE_NAME} in it) nor a file, expected one of them.")
    return _show_shards([path], number, None)


def _show_shards(paths: Sequence[str], number: int, schema: schema_pb2.Schema | None) -> Iterator[str]:
    left = number
    for path in paths:
        records = read_examples(path, left)
        if records:
            yield from show_examples(_decode(records, path, schema), path)
        left -= len(records)
        if left <= 0:
            return


def read_examples(path: str, number: int) -> list[bytes]:
    """Returns the first serialized examples of a file, at most ``number``; what lies behind them is not read."""
    with files.open_read(path) as file:
        compression = compression_of(file.read(4))
        file.seek(0)
        blocks = read_record_blocks(file, path, compression)
        return list(itertools.islice(itertools.chain.from_iterable(blocks), number))


def compression_of(start: bytes) -> str:
    """Returns the compression that a file's first four bytes speak for.

    A plain TFRecord file begins with the length of a record as a little-endian uint64; one that looks like gzip or zlib would
    begin with a record of at least 2 GB, or one whose third and fourth byte are zero.
    """
    if start[:2] == _GZIP_MAGIC and start[2:3] == b"\x08":
        return "gzip"
    if start[:2] in _ZLIB_MAGIC and start[2:4] != b"\0\0":
        return "zlib"
    return "none"


def _decode(records: list[bytes], path: str, schema: schema_pb2.Schema | None) -> pa.RecordBatch:
    """Returns the examples as columns of lists; null where a feature is missing."""
    try:
        # Without a schema the decoder finds features and types in the records, in no particular order.
        decoder = ExamplesToRecordBatchDecoder(*([] if schema is None else [schema.SerializeToString()]))
        batch = decoder.DecodeBatch(records)
    except Exception as error:  # tfx-bsl raises RuntimeError and ValueError alike
        raise DataError(f"{path}: found records that are no tf.Examples, or not by the schema: {error}") from error
    return batch if schema is not None else batch.select(sorted(batch.schema.names))


def show_examples(batch: pa.RecordBatch, path: str) -> Iterator[str]:
    """Yields one text for each row: where it is, then a line for each feature, values aligned.

    Args:
      batch: columns of lists (null: the feature is missing), as tfx-bsl decodes them.
      path: of the file whose first rows these are.
    """
    names = batch.schema.names
    width = max((len(name) for name in names), default=0)
    columns = [column.to_pylist() for column in batch.columns]
    for row in range(batch.num_rows):
        lines = [f"{path}, example {row}"]
        lines += [f"  {name:<{width}}  {show_values(column[row])}" for name, column in zip(names, columns, strict=True)]
        yield "\n".join(lines) + "\n"


def show_values(values: list[Any] | None) -> str:
    """Returns a feature's values: one alone, several in brackets, long lists shortened."""
    if values is None:
        return MISSING
    if len(values) == 1:
        return show_value(values[0])
    shown = ", ".join(show_value(value) for value in values[:LONGEST_LIST])
    more = f", … {len(values):,} values" if len(values) > LONGEST_LIST else ""
    return f"[{shown}{more}]"


def show_value(value: float | bytes) -> str:
    """Returns a number (a float with as many digits as a float32 has), a text in quotes, or the size and beginning of bytes."""
    if isinstance(value, float):
        return str(np.float32(value))
    if not isinstance(value, bytes):
        return str(value)
    text = _decoded(value)
    if text is None:
        return f"{len(value):,} byte{'' if len(value) == 1 else 's'}: {value[:HEX_BYTES].hex(' ')}{' …' if len(value) > HEX_BYTES else ''}"
    return repr(text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "…")


def _decoded(value: bytes) -> str | None:
    """Returns bytes as text if they are UTF-8 that can be printed (line ends and tabs are shown escaped)."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if text.translate(_SPACES).isprintable() else None
