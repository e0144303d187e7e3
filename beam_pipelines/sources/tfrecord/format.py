"""TFRecord files of tf.Example or tf.SequenceExample.

Their TFMD schema is read, or inferred from the records.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.arrow import columns as arrow_columns
from beam_pipelines.core.errors import Problem, RecipeProblems
from beam_pipelines.core.layout.schema_features import SEQUENCE, duplicates, feature_lists_of
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources import source_format, tables
from beam_pipelines.sources.bad_input import bad_rows
from beam_pipelines.sources.bad_input.bad_values import ColumnError
from beam_pipelines.sources.exact_cast import convert_array
from beam_pipelines.sources.images.columns import image_features
from beam_pipelines.sources.nesting import shapes
from beam_pipelines.sources.plan import ByteRange, FileInfo, QuoteStates, SourcePlan
from beam_pipelines.sources.tfrecord import schema
from beam_pipelines.sources.tfrecord import schema as record_schema
from beam_pipelines.sources.tfrecord.decoder import is_sequence_example, layout_of, record_batch
from beam_pipelines.sources.tfrecord.files import check_compression, first_block, read_file
from beam_pipelines.sources.tfrecord.infer import infer_schema
from beam_pipelines.tfrecord.protobuf_parser import Layout, WireError

# Records that show whether there are feature lists.
_FIRST_RECORDS = 256


class TFRecord(source_format.Format):
    """Serialized examples.

    A file is one range: records cannot be found from its middle.
    """

    # The last one is TFX's: data_tfrecord-00000-of-00001.gz.
    suffixes = (".tfrecord", ".tfrecords", ".tfrec", ".record", ".tfrecord.zlib", "data_tfrecord")
    has_arrays = True
    is_compressed = True
    Options = record_schema.TFRecordOptions

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        return check_compression(source)

    def paths_of(self, source: Source) -> Mapping[str, tuple[str, ...]]:
        """Returns the path of a schema that the options name; see ``Format``."""
        schema = source.options_of(record_schema.TFRecordOptions).schema
        return {} if schema is None else {"schema": (schema,)}

    def placed(self, source: Source, place: Callable[[str], str]) -> Source:
        """Returns the source with another path of a schema; see ``Format``."""
        schema = source.options_of(record_schema.TFRecordOptions).schema
        return source if schema is None else source.with_options(schema=place(schema))

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> source_format.Contents:
        """Finds columns and types; see ``Format``."""
        path = record_schema.schema_path(source, files)
        if path is None:
            return _infer(source, files)
        schema = record_schema.read_schema(source, path)
        sample = first_block(source, files)
        _check_schema(source, path, schema, sample)
        single, seen = _seen_in_steps(source, schema, sample)
        found = record_schema.column_types(schema, single)
        typed = source
        if source.planning.keeps_steps:
            lists = {one.name for one in feature_lists_of(schema)}
            several = [one.name for one in found if arrow_columns.has_lists_as_steps(one.type)]
            typed = _with_steps(source, found, [name for name in several if name in lists])
        contents = tables.contents_of(
            typed, [(FileInfo(path, 0), found)], {**seen, **record_schema.shapes_of(schema, found)}
        )
        read = contents.read_schema.names
        return contents._replace(
            source=typed,
            images=tuple(name for name in image_features(schema) if name in read),
            steps=tuple(one.name for one in feature_lists_of(schema) if one.name in read),
        )

    def pin(
        self, source: Source, types: Mapping[str, str], labels: Mapping[str, tuple[str, ...]]
    ) -> Source:
        """Returns the source with the dataset's types, unless a schema has them."""
        if source.options_of(
            record_schema.TFRecordOptions
        ).schema is not None or record_schema.may_be_shards(source):
            return source
        return dataclasses.replace(source, types={**types, **source.types}, infer="sample")

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[source_format.Rows]:
        """Reads one range; see ``Format``."""
        attempt = functools.partial(_decode, layout=_layout(plan), plan=plan)
        explained = functools.partial(_explained, plan)
        yield from read_file(plan, byte_range, attempt, explained, reject)

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns ``record`` and the number of the first one; see ``Format``."""
        return "record", 0


def _infer(source: Source, files: tuple[FileInfo, ...]) -> source_format.Contents:
    """Returns the columns of records; the file schema keeps the inferred one.

    Feature lists with several values in a step, and no shape, stay steps.
    """
    schema, seen, nulls = infer_schema(source, files)
    found = record_schema.column_types(schema).with_metadata(
        {record_schema.INFERRED: schema.SerializeToString()}
    )
    steps = [name for name, shape in seen.items() if source.planning.keeps_steps or not shape]
    typed = _with_steps(source, found, steps)
    contents = tables.contents_of(typed, [(files[0], found)], seen)
    read = contents.read_schema.names
    return contents._replace(
        null_columns=tuple(name for name in nulls if name in read),
        source=typed,
        decisions=tuple(
            f"types: {{{name}: '{type_}'}}"
            for name, type_ in typed.types.items()
            if name not in source.types
        ),
        steps=tuple(one.name for one in feature_lists_of(schema) if one.name in read),
    )


def _with_steps(source: Source, found: pa.Schema, names: Iterable[str]) -> Source:
    """Returns the source with types of some columns whose lists are steps.

    Declared types stay.
    """
    wanted = source.columns or found.names
    steps = {
        name: f"list<list<{arrow_columns.type_name(found.field(name).type.value_type.value_type)}>>"
        for name in names
        if name not in source.types and name in wanted
    }
    return dataclasses.replace(source, types={**source.types, **steps})


def _check_schema(
    source: Source, path: str, schema: schema_pb2.Schema, sample: Sequence[bytes]
) -> None:
    """Raises ``RecipeProblems`` for missing feature lists, or a name used twice."""
    if not feature_lists_of(schema) and any(map(is_sequence_example, sample[:_FIRST_RECORDS])):
        message = (
            f"found tf.SequenceExamples, but no feature list in {path}, expected them in the "
            f"struct_domain of a feature '{SEQUENCE}' of "
            "type STRUCT. Without it, none would be read."
        )
        raise RecipeProblems([source_format.problem(source, "schema", message)])
    for name, _ in duplicates(schema):
        message = (
            f"found '{name}' twice in {path}, expected one column of the name. Rename it "
            "there, or leave it out."
        )
        raise RecipeProblems([source_format.problem(source, "schema", message)])


def _seen_in_steps(
    source: Source, schema: schema_pb2.Schema, sample: Sequence[bytes]
) -> tuple[list[str], dict[str, arrow_columns.Shape | None]]:
    """Looks at the steps of a sample, where the schema is silent.

    Returns:
      The feature lists with at most one value in a step, unless the recipe declares lists of
      lists, and the shapes of the others.
    """
    most = {
        feature.name: record_schema.most_values_a_step(feature)
        for feature in feature_lists_of(schema)
    }
    layout = layout_of(schema, [name for name, values in most.items() if values != 1])
    seen: dict[str, arrow_columns.Shape | None] = {}
    if not layout.lists:
        return [], seen
    found = bad_rows.sift(
        lambda start, end: record_batch(sample[start:end], Layout({}, layout.lists)), 0, len(sample)
    )
    batches = [
        batch for batch in found if not isinstance(batch, bad_rows.BadRow)
    ]  # a bad one is reported when it is read
    steps = {
        name
        for name, type_ in source.types.items()
        if arrow_columns.array_type(type_) is None
        and arrow_columns.has_lists_as_steps(arrow_columns.parse_type(type_))
    }
    single = [
        name
        for name in layout.lists
        if most[name] is None
        and name not in steps
        and all((pc.max(pc.list_value_length(b[name].flatten())).as_py() or 0) < 2 for b in batches)
    ]
    shapes.note_shapes(seen, (batch.drop_columns(single) for batch in batches))
    return single, seen


def _layout(plan: SourcePlan) -> Layout:
    """Returns the features and feature lists that a plan reads."""
    inferred = (plan.file_schema.metadata or {}).get(record_schema.INFERRED)
    if inferred is None:
        path = record_schema.schema_path(plan.source, [plan.files[0]])
        return layout_of(record_schema.read_schema(plan.source, path or ""), plan.read_schema.names)
    # As in JSON Lines, a feature that is not listed in 'columns' may come up.
    is_closed = not plan.source.columns
    names = None if is_closed else plan.read_schema.names
    layout = layout_of(schema_pb2.Schema.FromString(inferred), names)
    return layout._replace(is_closed=is_closed)


def _explained(plan: SourcePlan, error: Exception) -> tuple[str, str]:
    """Returns the column and the reason of a bad record."""
    column = error.column if isinstance(error, ColumnError) else ""
    return column, schema.reason(plan, column, str(error))


def _decode(records: Sequence[bytes], layout: Layout, plan: SourcePlan) -> pa.RecordBatch:
    lists = tuple(layout.lists)
    try:
        decoded = record_batch(records, layout)
    except WireError as error:
        # Among many records, ``sift`` looks for the row in the message.
        raise ColumnError(
            error.feature, error.found if len(records) == 1 else str(error)
        ) from error
    columns = {}
    for field in plan.file_schema:
        if field.name in plan.read_schema.names:
            values = decoded.column(decoded.schema.get_field_index(field.name))
            shape = _steps if field.name in lists else _feature_values
            try:
                columns[field.name] = shape(values, field.type)
            except bad_rows.ERRORS as error:
                raise ColumnError(field.name, str(error)) from error
    made = _convert(columns, plan, [name for name in lists if not _is_nested(columns[name].type)])
    return pa.RecordBatch.from_arrays(
        [made[name] for name in plan.schema.names], schema=plan.schema
    )


def _convert(
    columns: Mapping[str, pa.Array], plan: SourcePlan, lists: Sequence[str]
) -> dict[str, pa.Array]:
    """Returns the plan's columns; only steps may be null inside lists."""
    made: dict[str, pa.Array] = {}
    others = [
        name
        for name in columns
        if name not in lists or arrow_columns.array_type(plan.source.types.get(name))
    ]
    if others:
        rest = dataclasses.replace(
            plan, read_schema=_only(plan.read_schema, others), schema=_only(plan.schema, others)
        )
        batch = tables.convert(
            pa.RecordBatch.from_arrays([columns[name] for name in others], others), rest
        )
        made = dict(zip(rest.schema.names, batch.columns, strict=True))
    for name in lists:
        if name not in made:
            made[name] = _converted_steps(name, columns[name], plan.read_schema.field(name).type)
    return made


def _converted_steps(name: str, steps: pa.ListArray, type_: pa.DataType) -> pa.Array:
    try:
        values = convert_array(steps.values, type_.value_type)
    except bad_rows.ERRORS as error:
        raise ColumnError(name, str(error)) from error
    mask = steps.is_null() if steps.null_count else None
    return pa.ListArray.from_arrays(steps.offsets, values, mask=mask)


def _only(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([field for field in schema if field.name in names])


def _is_nested(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_.value_type))


def _steps(lists: pa.LargeListArray, type_: pa.DataType) -> pa.ListArray:
    """Returns a decoded feature list as lists of ``type_``.

    They are lists of values, null where a step has none, or lists of lists.

    Raises:
      pa.ArrowInvalid: several values in a step that may have one.
    """
    if _is_nested(type_):
        return lists.cast(type_)
    try:
        values = _feature_values(lists.values, type_.value_type)
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid(f"a step of {error}") from error
    mask = lists.is_null() if lists.null_count else None
    return pa.ListArray.from_arrays(lists.offsets.cast(pa.int32()), values, mask=mask)


def _feature_values(lists: pa.LargeListArray, type_: pa.DataType) -> pa.Array:
    """Returns decoded lists as scalars (none is null) or lists of ``type_``.

    Raises:
      pa.ArrowInvalid: several values where the schema wants one, or text that is not UTF-8.
    """
    if pa.types.is_list(type_):
        return lists.cast(type_)
    offsets = lists.offsets.to_numpy()
    lengths = np.diff(offsets)
    most = lengths.max(initial=0)
    if most > 1:
        raise pa.ArrowInvalid(f"{most} values, expected at most one")
    is_missing = lengths == 0
    if not is_missing.any():
        return lists.values.slice(offsets[0], len(lists)).cast(type_)
    return lists.values.take(pa.array(offsets[:-1], mask=is_missing)).cast(type_)
