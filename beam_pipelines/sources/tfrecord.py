"""TFRecord files of tf.Example, with the TFMD schema that says which features they have."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx_bsl.coders import example_coder

from beam_pipelines import files, tfrecord
from beam_pipelines.errors import DataError, Problem, RecipeProblems
from beam_pipelines.pieces import Rejected
from beam_pipelines.plan import FileInfo, Range, SourcePlan
from beam_pipelines.recipe import Source
from beam_pipelines.sources import bad_rows, tables
from beam_pipelines.sources.bad_rows import BadRow
from beam_pipelines.sources.compression import ChecksummedFile
from beam_pipelines.sources.csv_ranges import Dialect
from beam_pipelines.sources.format import Contents, QuoteStates, Rows, combine, cut_rows, empty_batch, problem

_TEXT_DOMAINS = ("string_domain", "domain", "natural_language_domain", "url_domain")


class TFRecord:
    """Serialized examples; one range a file, because nothing in a file says where a record begins."""

    suffixes = (".tfrecord", ".tfrecords", ".tfrecord.zlib")

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        problems = tables.check_text_options(source, "TFRecord")
        if source.compression not in (None, "gzip", "zlib", "none"):
            problems.append(problem(source, "compression", "TFRecord files are compressed with gzip or zlib."))
        if source.schema is None:
            message = "a TFRecord source needs the TFMD schema (schema.pbtxt) of its examples: name it with 'schema'."
            problems.append(problem(source, "schema", message))
        return problems

    def splittable(self, source: Source, path: str) -> bool:  # noqa: ARG002
        """Whether a file can be cut into ranges."""
        return False

    def quoting(self, source: Source) -> Dialect | None:  # noqa: ARG002
        """Returns the dialect if line ends may lie inside quotes."""
        return None

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> Contents:
        """Finds columns and types; see ``Format``."""
        schema = feature_schema(_read_schema(source))
        if not schema.names:
            raise RecipeProblems([problem(source, "schema", f"{source.schema} has no features.")])
        rows = next((len(block) for file in files for block in _blocks(source, file) if block), 0)
        if not rows:
            raise DataError(f"{files[0].path}: found no records, expected data. Check 'path' of the source.")
        shapes = {
            feature.name: tuple(dim.size for dim in feature.shape.dim)
            for feature in _read_schema(source).feature
            if len(feature.shape.dim) > 1 and pa.types.is_list(schema.field(feature.name).type)
        }
        return tables.contents_of(source, [(FileInfo(str(source.schema), 0), schema)], shapes)

    def read(self, plan: SourcePlan, range_: Range, quote_states: QuoteStates, reject: bool) -> Iterator[Rows]:  # noqa: ARG002
        """Reads one range; see ``Format``."""
        decoder = _Decoder(plan.source, plan.read_schema.names)
        number = 0
        with files.open_read(range_.file.path) as opened:
            file = ChecksummedFile(opened)
            for block in tfrecord.read_record_blocks(
                cast("BinaryIO", file), range_.file.path, _compression(plan.source, range_.file)
            ):
                yield from _read_block(block, decoder, plan, range_.file, number, reject)
                number += len(block)
            yield Rows(empty_batch(plan.schema), crc32c=file.crc32c())


def _compression(source: Source, file: FileInfo) -> str:
    return source.compression or tfrecord.compression_of(file.path)


def _blocks(source: Source, file: FileInfo) -> Iterator[list[bytes]]:
    with files.open_read(file.path) as opened:
        yield from tfrecord.read_record_blocks(opened, file.path, _compression(source, file))


def _read_schema(source: Source) -> schema_pb2.Schema:
    path = str(source.schema)
    if not files.exists(path):
        raise RecipeProblems([problem(source, "schema", f"no file '{path}'.")])
    try:
        return text_format.Parse(files.read_bytes(path).decode(), schema_pb2.Schema())
    except (text_format.ParseError, UnicodeDecodeError) as error:
        message = f"{path} is no TFMD schema in text format: {error}."
        raise RecipeProblems([problem(source, "schema", message)]) from error


def feature_schema(schema: schema_pb2.Schema) -> pa.Schema:
    """Returns the columns of a TFMD schema's features.

    A feature with a shape of one value, or at most one value by ``value_count``, is a scalar; any other is a list. Bytes are text if
    the schema gives them a domain of strings, language or URLs.
    """
    return pa.schema([(feature.name, _feature_type(feature)) for feature in schema.feature])


def _feature_type(feature: schema_pb2.Feature) -> pa.DataType:
    type_ = {schema_pb2.INT: pa.int64(), schema_pb2.FLOAT: pa.float32()}.get(feature.type, pa.binary())
    if type_ == pa.binary() and any(feature.HasField(domain) for domain in _TEXT_DOMAINS):
        type_ = pa.string()
    one_value = feature.value_count.max == 1
    if feature.HasField("shape"):
        one_value = all(dimension.size == 1 for dimension in feature.shape.dim)
    return type_ if one_value else pa.list_(type_)


class _Decoder:
    """Decodes the features that are read."""

    def __init__(self, source: Source, names: list[str]) -> None:
        kept = [feature for feature in _read_schema(source).feature if feature.name in names]
        self._schema = schema_pb2.Schema(feature=kept).SerializeToString()
        self._decoder = example_coder.ExamplesToRecordBatchDecoder(self._schema)

    def decode(self, records: list[bytes]) -> pa.RecordBatch:
        """Decodes serialized examples into large lists.

        Raises:
          ColumnError: one of them cannot be decoded; the column is empty if the whole record cannot.
        """
        try:
            return self._decoder.DecodeBatch(records)
        except RuntimeError as error:
            # A decoder that failed keeps what it had decoded and adds it to the next batch.
            self._decoder = example_coder.ExamplesToRecordBatchDecoder(self._schema)
            feature = re.search(r'feature "(.*?)"', str(error))
            raise tables.ColumnError(feature[1] if feature else "", str(error)) from error


def _read_block(
    block: list[bytes], decoder: _Decoder, plan: SourcePlan, file: FileInfo, number: int, reject: bool
) -> Iterator[Rows]:
    good: list[pa.RecordBatch] = []
    rejected: list[Rejected] = []
    for found in bad_rows.sift(functools.partial(_decode, block, decoder, plan), 0, len(block)):
        if isinstance(found, BadRow):
            column = found.error.column if isinstance(found.error, tables.ColumnError) else ""
            message = found.error.message if isinstance(found.error, tables.ColumnError) else str(found.error)
            reason = (
                f"found an example that does not fit the schema ({message}). Mend the record, or {plan.source.schema}."
            )
            bad = Rejected(plan.source.name, file.path, f"record {number + found.number}", column, reason, "")
            if not reject:
                raise DataError(bad.describe())
            rejected.append(bad)
        else:
            good.append(found)
    yield from cut_rows(combine(good, plan.schema), tuple(rejected))


def _decode(block: list[bytes], decoder: _Decoder, plan: SourcePlan, start: int, end: int) -> pa.RecordBatch:
    decoded = decoder.decode(block[start:end])
    arrays = []
    for field in plan.file_schema:
        if field.name in plan.read_schema.names:
            values = decoded.column(decoded.schema.get_field_index(field.name))
            try:
                arrays.append(_feature_values(values, field.type))
            except bad_rows.ERRORS as error:
                raise tables.ColumnError(field.name, str(error)) from error
    names = [field.name for field in plan.file_schema if field.name in plan.read_schema.names]
    return tables.convert(pa.RecordBatch.from_arrays(arrays, names), plan)


def _feature_values(lists: pa.LargeListArray, type_: pa.DataType) -> pa.Array:
    """Returns decoded lists as scalars (none is null) or lists of ``type_``.

    Raises:
      pa.ArrowInvalid: several values where the schema wants one, or text that is not UTF-8.
    """
    if pa.types.is_list(type_):
        return lists.cast(type_)
    lengths = pc.fill_null(pc.list_value_length(lists), 0)
    if pc.any(pc.greater(lengths, 1)).as_py():
        raise pa.ArrowInvalid(f"{pc.max(lengths).as_py()} values, expected at most one")
    before = pc.subtract(pc.cumulative_sum(lengths), lengths)
    places = pc.if_else(pc.equal(lengths, 1), before, pa.scalar(None, before.type))
    return pc.list_flatten(lists).take(places).cast(type_)
