"""Features and feature lists of schemas; files of schemas and statistics.

The feature lists of tf.SequenceExamples are in a struct called ``##SEQUENCE##``. This is tfx-bsl's
convention (tfx_bsl/tfxio/tf_sequence_example_record.py), also of TFDV and TFX. A feature list has
two levels of lists: its steps, and the values of each step.
"""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
from google.protobuf.message import DecodeError
from tensorflow_metadata.proto.v0 import path_pb2, schema_pb2, statistics_pb2

from beam_pipelines.core.arrow.columns import value_type
from beam_pipelines.core.errors import DataError

SEQUENCE = "##SEQUENCE##"
# TFDV's name for the rows that are not a slice.
_ALL_EXAMPLES = "All Examples"
# Feature type -> type of parsed values.
VALUE_TYPES = {
    schema_pb2.BYTES: pa.large_binary(),
    schema_pb2.FLOAT: pa.float32(),
    schema_pb2.INT: pa.int64(),
}

# Name -> string domains of the name: one, unless the schema has it twice.
Domains: TypeAlias = Mapping[str, Sequence[schema_pb2.StringDomain]]
# The names of the structs that hold a feature, outermost first, and its own.
Steps: TypeAlias = tuple[str, ...]


def parse_schema(data: bytes, path: str) -> schema_pb2.Schema:
    """Parses a schema in protobuf's text format.

    Args:
      data: of the file.
      path: of it, for messages.

    Raises:
      DataError: it is no schema; the message names the line.
    """
    from google.protobuf import text_format

    line = None
    try:
        return text_format.Parse(data.decode(), schema_pb2.Schema())
    except UnicodeDecodeError as error:
        found = f"invalid UTF-8 at byte {error.start}"
    except RecursionError:
        found = "values that are nested too deeply"
    except text_format.ParseError as error:
        # Without the leading ``line:column : ``.
        line, found = error.GetLine(), str(error).split(" : ", 1)[-1]
    raise DataError(
        f"{path}{f', line {line}' if line else ''}: found no schema in it ({found}), expected a "
        "tensorflow_metadata Schema in text format. Copy the dataset again, or correct your file."
    )


def parse_statistics(content: bytes, path: str) -> statistics_pb2.DatasetFeatureStatistics:
    """Returns the statistics of all rows.

    Args:
      content: of the file.
      path: for messages.

    Raises:
      DataError: the file has something else, or nothing.
    """
    try:
        found = statistics_pb2.DatasetFeatureStatisticsList.FromString(content)
    except DecodeError as error:
        raise DataError(
            f"{path}: found something that is no DatasetFeatureStatisticsList, expected statistics "
            "as TFDV writes them. Make them again with 'describe'."
        ) from error
    datasets = [
        dataset for dataset in found.datasets if dataset.name in ("", _ALL_EXAMPLES)
    ] or list(found.datasets)
    if not datasets:
        raise DataError(
            f"{path}: found no statistics in the file, expected those of '{_ALL_EXAMPLES}'."
        )
    return datasets[0]


def features_of(schema: schema_pb2.Schema) -> list[schema_pb2.Feature]:
    """Returns the schema's own features, then its feature lists.

    The caller may change them.
    """
    return [
        *(feature for feature in schema.feature if not _is_sequence(feature)),
        *feature_lists_of(schema),
    ]


def feature_lists_of(schema: schema_pb2.Schema) -> list[schema_pb2.Feature]:
    """Returns the feature lists of a schema; tf.Examples have none."""
    return [
        child
        for feature in schema.feature
        if _is_sequence(feature)
        for child in feature.struct_domain.feature
    ]


def domains_of(schema: schema_pb2.Schema) -> Domains:
    """Returns the schema's own shared string domains by name.

    The caller may change them.
    """
    found: dict[str, list[schema_pb2.StringDomain]] = {}
    for domain in schema.string_domain:
        found.setdefault(domain.name, []).append(domain)
    return found


def features_by_path(schema: schema_pb2.Schema) -> dict[Steps, schema_pb2.Feature]:
    """Returns all features, those of structs too, by their paths.

    Features of a struct follow it, feature lists come last. The caller may change the features.
    """
    return dict(_walk(schema))


def add_feature(schema: schema_pb2.Schema, path: Steps) -> schema_pb2.Feature:
    """Adds a feature and returns it.

    The structs of its path are added where the schema lacks them.
    """
    features = schema.feature
    for step in path[:-1]:
        structs = (f for f in features if f.name == step and f.type == schema_pb2.STRUCT)
        struct = next(structs, None) or features.add(name=step, type=schema_pb2.STRUCT)
        features = struct.struct_domain.feature
    return features.add(name=path[-1])


def steps_of(name: str, is_list: bool) -> Steps:
    """Returns the path of a feature, or of a feature list."""
    return (SEQUENCE, name) if is_list else (name,)


def path_of(name: str, is_list: bool) -> path_pb2.Path:
    """Returns the path that TFDV gives a feature, or a feature list."""
    return path_pb2.Path(step=steps_of(name, is_list))


def name_of(path: Steps) -> str:
    """Returns the name of a feature: its path joined by dots.

    The name of a feature list is its own.
    """
    return path[1] if len(path) == 2 and path[0] == SEQUENCE else ".".join(path)


def has_one_value_a_step(feature: schema_pb2.Feature) -> bool:
    """Whether the schema gives each step of a feature list one value."""
    if feature.HasField("shape"):
        return [dim.size for dim in feature.shape.dim][1:] == [1]
    counts = feature.value_counts.value_count
    return len(counts) == 2 and counts[1].min == counts[1].max == 1


def has_one_value(feature: schema_pb2.Feature) -> bool:
    """Whether the schema gives a feature at most one value."""
    if feature.HasField("shape"):
        return all(dimension.size == 1 for dimension in feature.shape.dim)
    return bool(feature.value_count.max == 1)


def without_features(schema: schema_pb2.Schema, names: Collection[str]) -> schema_pb2.Schema:
    """Returns the schema without some features and their domains.

    Feature lists, and domains that other features share, stay.
    """
    kept = schema_pb2.Schema()
    kept.CopyFrom(schema)
    del kept.feature[:], kept.string_domain[:]
    kept.feature.extend(feature for feature in schema.feature if feature.name not in names)
    dropped = {feature.domain for feature in schema.feature if feature.name in names}
    unused = dropped - {feature.domain for feature in kept.feature}
    kept.string_domain.extend(d for d in schema.string_domain if d.name not in unused)
    return kept


def flattened(schema: schema_pb2.Schema) -> schema_pb2.Schema:
    """Returns the schema with feature lists as features of a tf.Example.

    Steps become values.
    """
    flat = schema_pb2.Schema()
    flat.CopyFrom(schema)
    del flat.feature[:]
    flat.feature.extend(feature for feature in schema.feature if not _is_sequence(feature))
    flat.feature.extend(_without_steps(feature) for feature in feature_lists_of(schema))
    for group in flat.tensor_representation_group.values():
        tensors = group.tensor_representation
        for name in list(tensors):
            if SEQUENCE in tensors[name].ragged_tensor.feature_path.step:
                del tensors[name]
    return flat


def nested(
    schema: schema_pb2.Schema, lists: Collection[str], lists_of_lists: Collection[str] = ()
) -> schema_pb2.Schema:
    """Returns the schema with some features as feature lists.

    Each step has one value, in ``lists_of_lists`` any number of them.
    """
    result = schema_pb2.Schema()
    result.CopyFrom(schema)
    del result.feature[:]
    for feature in features_of(schema):
        is_list = feature.name in lists
        added = add_feature(result, steps_of(feature.name, is_list))
        added.CopyFrom(feature)
        if is_list and not feature.HasField("value_counts") and len(feature.shape.dim) != 2:
            _add_steps(added, feature.name in lists_of_lists)
    return result


def _is_sequence(feature: schema_pb2.Feature) -> bool:
    return bool(feature.name == SEQUENCE and feature.type == schema_pb2.STRUCT)


def _walk(schema: schema_pb2.Schema) -> Iterator[tuple[Steps, schema_pb2.Feature]]:
    for feature in schema.feature:
        if not _is_sequence(feature):
            yield from _within((), feature)
    for feature in feature_lists_of(schema):
        yield from _within((SEQUENCE,), feature)


def _within(path: Steps, feature: schema_pb2.Feature) -> Iterator[tuple[Steps, schema_pb2.Feature]]:
    path = (*path, feature.name)
    yield path, feature
    for child in feature.struct_domain.feature:
        yield from _within(path, child)


def _without_steps(feature: schema_pb2.Feature) -> schema_pb2.Feature:
    flat = schema_pb2.Feature()
    flat.CopyFrom(feature)
    flat.ClearField("value_counts")
    if feature.HasField("shape"):
        del flat.shape.dim[1:]
    elif len(feature.value_counts.value_count) and feature.value_counts.value_count[0].ByteSize():
        flat.value_count.CopyFrom(feature.value_counts.value_count[0])
    return flat


def _add_steps(feature: schema_pb2.Feature, is_list_of_lists: bool) -> None:
    """Turns a feature's values into steps of a feature list.

    Each step has one value, or any number of them.
    """
    if is_list_of_lists:
        feature.ClearField("shape")
        feature.value_counts.value_count.add()
        feature.value_counts.value_count.add()
        return
    if feature.HasField("shape"):
        feature.shape.dim.add(size=1)
        return
    steps = schema_pb2.ValueCount()
    steps.CopyFrom(feature.value_count)
    feature.value_counts.value_count.add().CopyFrom(steps)
    feature.value_counts.value_count.add(min=1, max=1)


def duplicates(schema: schema_pb2.Schema) -> Iterator[tuple[str, int]]:
    """Yields names of several features, with the number of features."""
    counts = collections.Counter(
        path[1:] if path[0] == SEQUENCE else path for path, _ in _walk(schema)
    )
    counts.update((each.name,) for each in (*schema.sparse_feature, *schema.weighted_feature))
    yield from ((name_of(path), count) for path, count in counts.items() if count > 1)


TYPE_FOR_STATISTICS_TYPE = {
    statistics_pb2.FeatureNameStatistics.INT: schema_pb2.INT,
    statistics_pb2.FeatureNameStatistics.FLOAT: schema_pb2.FLOAT,
    statistics_pb2.FeatureNameStatistics.STRING: schema_pb2.BYTES,
    statistics_pb2.FeatureNameStatistics.BYTES: schema_pb2.BYTES,
    statistics_pb2.FeatureNameStatistics.STRUCT: schema_pb2.STRUCT,
}


def schema_type(column_type: pa.DataType) -> schema_pb2.FeatureType:
    """Returns the feature type of a column: INT, FLOAT or BYTES."""
    kind = value_type(column_type)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return schema_pb2.BYTES
    return schema_pb2.FLOAT if pa.types.is_floating(kind) else schema_pb2.INT


def keep_sparse_features(schema: schema_pb2.Schema, names: Collection[str]) -> None:
    """Removes sparse features with a column that is not among ``names``."""
    kept = [
        feature
        for feature in schema.sparse_feature
        if {feature.value_feature.name, *(index.name for index in feature.index_feature)}
        <= set(names)
    ]
    del schema.sparse_feature[:]
    schema.sparse_feature.extend(kept)
