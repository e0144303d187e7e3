"""Shows examples as text.

Reads no more than it shows, and needs neither TensorFlow nor a schema. With a dataset's schema,
features are in the schema's order and missing ones are named.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.schema import read_schema
from beam_pipelines.core.arrow.python_values import json_value, printable
from beam_pipelines.core.errors import DataError, RecipeError, nearest
from beam_pipelines.core.formatting import shorten
from beam_pipelines.core.layout.dataset_layout import MANIFEST
from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.core.layout.schema_features import feature_lists_of, features_of, has_one_value
from beam_pipelines.dataset.manifest import read_manifest
from beam_pipelines.dataset.shard_records import read_examples
from beam_pipelines.encodings.labels import LONGEST_LIST, LONGEST_TEXT, labels_behind
from beam_pipelines.files.beam import files
from beam_pipelines.reader.encodings.feature_info import texts_of_ids
from beam_pipelines.reader.features import names_of_lists_of_lists
from beam_pipelines.sources.tfrecord.decoder import decode_records, is_sequence_example

HEX_BYTES = 8
MISSING = "(missing)"


class Found(NamedTuple):
    """Files to look at, in order, and their schema.

    Attributes:
      paths: of TFRecord files.
      schema: of a dataset's records.
      manifest: of a dataset; ``None`` for a single file.
      labels: feature -> texts of its ids.
    """

    paths: Sequence[str]
    schema: schema_pb2.Schema | None
    manifest: Manifest | None
    labels: Mapping[str, Sequence[str]]

    @property
    def is_raw(self) -> bool:
        """Whether records are payloads, not tf.Examples."""
        return self.manifest is not None and self.manifest.record == "raw"


def inspect_examples(path: str, number: int, split: str | None = None) -> Iterator[str]:
    """Yields the first examples, each as some lines of text.

    Args:
      path: a dataset's folder, or a TFRecord file: gzip, zlib or neither, by its first bytes.
      number: of examples.
      split: of a dataset, the split to read; default: the first.

    Raises:
      RecipeError: there is nothing at the path, or no such split.
      DataError: the file is damaged or has no tf.Examples.
    """
    found = find(path, split)
    show = show_payloads if found.is_raw else partial(_show_parsed, found)
    shards = first_records(found, number)
    return itertools.chain.from_iterable(show(records, shard) for shard, records in shards)


def example_values(path: str, number: int, split: str | None = None) -> list[dict[str, Any]]:
    """Returns the first examples as data for JSON: feature -> values.

    A missing feature is null. Bytes that are no text become their length. Of raw records there is
    one value, ``record``.

    Args:
      path, number, split: as in ``inspect_examples``.

    Raises:
      RecipeError, DataError: as ``inspect_examples``.
    """
    found = find(path, split)
    rows: list[dict[str, Any]] = []
    for shard, records in first_records(found, number):
        if found.is_raw:
            rows += [{"record": json_value(record)} for record in records]
        else:
            batch = decode_examples(records, shard, found.schema)
            rows += map(json_value, batch.to_pylist())
    return rows


def find(path: str, split: str | None) -> Found:
    """Returns the files at a path; errors are those of ``inspect_examples``."""
    if files.exists(files.join(path, MANIFEST)):
        manifest = read_manifest(path)
        split = next(iter(manifest.splits)) if split is None else split
        if split not in manifest.splits:
            known = ", ".join(manifest.splits)
            raise RecipeError(
                f"{path}: found no split '{split}', expected one of "
                f"{known}.{nearest(split, manifest.splits)}"
            )
        schema = read_schema(files.within(path, manifest.schema))
        return Found(
            [files.within(path, shard.path) for shard in manifest.splits[split].shards],
            schema,
            manifest,
            _labels(path, manifest),
        )
    if split is not None:
        raise RecipeError(
            f"{path}: found --split '{split}', but no dataset (no {MANIFEST}). Leave out --split "
            "for a single file."
        )
    if files.is_local(path) and not os.path.isfile(path):
        raise RecipeError(
            f"{path}: found neither a dataset (no {MANIFEST} in it) nor a file, expected one of "
            "them."
        )
    return Found([path], None, None, {})


def _labels(path: str, manifest: Manifest) -> Mapping[str, Sequence[str]]:
    try:
        return texts_of_ids(lambda name: files.read_bytes(files.within(path, name)), path, manifest)
    except DataError:  # the examples can be shown without what the encodings say
        return manifest.labels


def first_records(found: Found, number: int) -> Iterator[tuple[str, list[bytes]]]:
    """Yields files and their first records, ``number`` records in all.

    Files without records are left out.
    """
    for path in found.paths:
        records = read_examples(path, number, found.schema)
        if records:
            yield path, records
        number -= len(records)
        if number <= 0:
            return


def _show_parsed(found: Found, records: list[bytes], path: str) -> Iterator[str]:
    yield from show_examples(
        decode_examples(records, path, found.schema),
        path,
        found.labels,
        lists_of(found.schema),
        names_of_lists_of_lists(found.manifest.columns if found.manifest else {}),
    )


def lists_of(schema: schema_pb2.Schema | None) -> frozenset[str]:
    """Returns the features that may have several values."""
    if schema is None:
        return frozenset()
    lists = {feature.name for feature in feature_lists_of(schema)}
    return frozenset(
        feature.name
        for feature in features_of(schema)
        if feature.name in lists or not has_one_value(feature)
    )


def show_payloads(records: list[bytes], path: str) -> Iterator[str]:
    """Yields a text for each record that is not an example.

    It says where the record is, and how it begins.
    """
    for row, record in enumerate(records):
        yield f"{path}, record {row}\n  {show_value(record)}\n"


def decode_examples(
    records: list[bytes], path: str, schema: schema_pb2.Schema | None
) -> pa.RecordBatch:
    """Decodes examples to columns of lists; a missing feature is null."""
    try:
        # Without a schema the decoder finds features and types in the records, in any order.
        batch = decode_records(records, schema, any(map(is_sequence_example, records)))
    except ValueError as error:
        raise DataError(
            f"{path}: found records that are no tf.Examples, or not by the schema: {error}"
        ) from error
    return batch if schema is not None else batch.select(sorted(batch.schema.names))


def show_examples(
    batch: pa.RecordBatch,
    path: str,
    labels: Mapping[str, Sequence[str]] | None = None,
    lists: Collection[str] = (),
    lists_of_lists: Collection[str] = (),
) -> Iterator[str]:
    """Yields each row as text: its place, then its features.

    Args:
      batch: columns of lists (null: the feature is missing), as tfx-bsl decodes them.
      path: of the file whose first rows these are.
      labels: feature -> labels by id, which are shown after its values.
      lists: features that are lists even if they have one value.
      lists_of_lists: feature lists whose steps are, too.
    """
    named = labels or {}
    shown = {
        name: [
            show_values(values, name in lists, name in lists_of_lists)
            + labels_behind(values, named.get(name, ()))
            for values in column.to_pylist()
        ]
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    width = max((len(name) for name in shown), default=0)
    for row in range(batch.num_rows):
        lines = [
            f"{path}, example {row}",
            *(f"  {name:<{width}}  {texts[row]}" for name, texts in shown.items()),
        ]
        yield "\n".join(lines) + "\n"


def show_values(
    values: list[Any] | None, is_list: bool = False, is_list_of_lists: bool = False
) -> str:
    """Returns a feature's values: several in brackets, long lists shortened.

    Steps are lists themselves, or missing. One value of a list is in brackets, too; so is one of a
    step, if the column has lists of lists.
    """
    if values is None:
        return MISSING
    if len(values) == 1 and values[0] is not None and not is_list:
        return show_value(values[0])
    shown = ", ".join(
        show_values(value, is_list_of_lists) if isinstance(value, list) else show_value(value)
        for value in values[:LONGEST_LIST]
    )
    more = f", … {len(values):,} values" if len(values) > LONGEST_LIST else ""
    return f"[{shown}{more}]"


def show_value(value: float | bytes | list[Any] | None) -> str:
    """Returns a value as text.

    A float has as many digits as a float32 has, a text is in quotes, of bytes the size and the
    beginning are shown.
    """
    if value is None or isinstance(value, list):
        return show_values(value)
    if isinstance(value, float):
        return str(np.float32(value))
    if not isinstance(value, bytes):
        return str(value)
    text = printable(value)
    if text is None:
        return (
            f"{len(value):,} byte{'' if len(value) == 1 else 's'}: "
            f"{value[:HEX_BYTES].hex(' ')}{' …' if len(value) > HEX_BYTES else ''}"
        )
    return repr(shorten(text, LONGEST_TEXT))
