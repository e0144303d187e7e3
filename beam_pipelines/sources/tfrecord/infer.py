"""Infers the TFMD schema of records that come without one.

A feature has the type of its values, as TFDV infers it. It is a scalar if no record has several
values, and text if all its bytes are UTF-8.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.arrow.columns import TENSOR, Shape, parse_type
from beam_pipelines.core.errors import DataError, nearest
from beam_pipelines.core.layout.schema_features import add_feature, schema_type, steps_of
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import inference
from beam_pipelines.sources.bad_input import bad_rows
from beam_pipelines.sources.nesting import shapes
from beam_pipelines.sources.plan import FileInfo
from beam_pipelines.sources.tfrecord.decoder import decode_lists
from beam_pipelines.sources.tfrecord.files import read_blocks
from beam_pipelines.tfrecord.framing import RecordBlock
from beam_pipelines.tfrecord.protobuf_parser import Layout, find_kinds

# Records that Python's protobuf parses, to find the features that most records have.
_FIRST_RECORDS = 256


@dataclasses.dataclass
class _Feature:
    """What the records have of one feature or feature list.

    Attributes:
      type: int64, float32 or large_binary; ``None`` while no record has values.
      most: most values of a record, or of a step.
      is_utf8: whether all its bytes are.
    """

    type: pa.DataType | None = None
    most: int = 0
    is_utf8: bool = True

    def note(self, lists: pa.LargeListArray) -> None:
        """Adds the values of some records or steps."""
        self.most = max(self.most, pc.max(pc.list_value_length(lists)).as_py() or 0)
        values = lists.flatten()
        if self.is_utf8 and pa.types.is_large_binary(values.type):
            try:
                values.cast(pa.large_string())
            except pa.ArrowInvalid:
                self.is_utf8 = False


@dataclasses.dataclass
class _Features:
    """What the records have.

    Attributes:
      context, lists: by name.
      seen: shapes of feature lists with several values in a step, as ``shapes.note_shapes`` makes.
    """

    context: dict[str, _Feature] = dataclasses.field(default_factory=dict)
    lists: dict[str, _Feature] = dataclasses.field(default_factory=dict)
    seen: dict[str, Shape | None] = dataclasses.field(default_factory=dict)

    def note(self, block: RecordBlock) -> None:
        """Adds a block of records."""
        if not self.context and not self.lists:
            self._find(block[:_FIRST_RECORDS])
        try:
            found = [_decode(block, self._layout(is_closed=True), 0, len(block))]
        except ValueError:  # features that come up later, other kinds, or bad records
            self._find(block)
            decode = functools.partial(_decode, block, self._layout(is_closed=False))
            found = [
                made
                for made in bad_rows.sift(decode, 0, len(block))
                if not isinstance(made, bad_rows.BadRow)  # reading reports it
            ]
        for context, lists in found:
            for feature, column in zip(self.context.values(), context, strict=True):
                feature.note(column)
            for feature, column in zip(self.lists.values(), lists, strict=True):
                feature.note(column.flatten())
            batch = pa.RecordBatch.from_arrays(lists, list(self.lists))
            shapes.note_shapes(self.seen, [batch])

    def _find(self, block: RecordBlock) -> None:
        for kinds in bad_rows.sift(lambda start, end: find_kinds(block[start:end]), 0, len(block)):
            if isinstance(kinds, bad_rows.BadRow):
                continue
            for features, found in zip((self.context, self.lists), kinds, strict=True):
                for name, type_ in found.items():
                    feature = features.setdefault(name, _Feature())
                    feature.type = feature.type or type_

    def _layout(self, is_closed: bool) -> Layout:
        context, lists = (
            {name: feature.type or pa.large_binary() for name, feature in features.items()}
            for features in (self.context, self.lists)
        )
        return Layout(context, lists, is_closed)


def _decode(
    block: RecordBlock, layout: Layout, start: int, end: int
) -> tuple[list[pa.Array], list[pa.Array]]:
    return decode_lists(block[start:end], layout)


def infer_schema(
    source: Source, files: tuple[FileInfo, ...]
) -> tuple[schema_pb2.Schema, dict[str, Shape | None], tuple[str, ...]]:
    """Infers a schema from a sample, or with ``infer: full`` from everything.

    Declared types decide over the records. They declare features that a sample lacks, too.

    Returns:
      The schema; the shapes of feature lists with several values in a step, ``None`` where records
      differ; the features without values.

    Raises:
      DataError: there are no records, or none is a tf.Example with features; or a name is that of a
        feature and of a feature list.
    """
    features, records = _Features(), 0
    for sampled in inference.sample_rounds(source, files, "records"):
        for file in sampled:
            for block in _sample(source, file, len(sampled)):
                features.note(block)
                records += len(block)
        if records:
            break
    _check(files[0], features)
    for name in _unseen(source, [*features.context, *features.lists]):
        features.context[name] = _Feature()
    schema = schema_pb2.Schema()
    for is_list, found in enumerate((features.context, features.lists)):
        for name in sorted(found):
            _add(schema, name, found[name], bool(is_list), source.types)
    nulls = [
        name
        for found in (features.context, features.lists)
        for name in found
        if found[name].type is None
    ]
    several = {name for name, feature in features.lists.items() if feature.most > 1}
    seen = {name: shape for name, shape in features.seen.items() if name in several}
    return schema, seen, tuple(nulls)


def _unseen(source: Source, found: Sequence[str]) -> list[str]:
    """Returns declared features that the sample lacks, unless they look misspelt."""
    undeclared = [name for name in found if name not in source.types]
    return [
        name
        for name, declared in source.types.items()
        if name not in found
        and declared != TENSOR
        and source.infer == "sample"
        and not nearest(name, undeclared)
    ]


def _sample(source: Source, file: FileInfo, number: int) -> Iterator[RecordBlock]:
    size_bytes = 0
    for block in read_blocks(source, file):
        yield block
        size_bytes += block.framed_bytes
        if not source.reads_all and size_bytes * number >= inference.SAMPLE_BYTES:
            return


def _check(file: FileInfo, features: _Features) -> None:
    if not (features.context or features.lists):
        raise DataError(
            f"{file.path}: found records without features, expected tf.Examples or "
            "tf.SequenceExamples. Read records of another kind with 'format: raw_records'."
        )
    for name in features.context.keys() & features.lists.keys():
        raise DataError(
            f"{file.path}: found '{name}' as a feature and as a feature list, expected one column "
            "of the name. Name a 'schema' that has one of them."
        )


def _add(
    schema: schema_pb2.Schema,
    name: str,
    found: _Feature,
    is_list: bool,
    declared: Mapping[str, str],
) -> None:
    """Adds a feature or feature list; its declared type comes first."""
    type_, is_several, is_text = found.type, found.most > 1, found.is_utf8
    if declared.get(name, TENSOR) != TENSOR:
        column = parse_type(declared[name])
        leaf = shapes.leaf(column)
        is_several = (is_list and is_several) or shapes.depth(column) > is_list
        is_text = is_text and not pa.types.is_binary(leaf)
        type_ = type_ or leaf
    feature = add_feature(schema, steps_of(name, is_list))
    feature.type = schema_type(pa.binary() if type_ in (None, pa.large_binary()) else type_)
    if feature.type == schema_pb2.BYTES and is_text:
        feature.string_domain.SetInParent()
    if is_list and not is_several:
        feature.value_counts.value_count.add()
        feature.value_counts.value_count.add(max=1)
    elif not is_several:
        feature.value_count.max = 1
