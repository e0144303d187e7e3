"""Writes ``transform_graph/``: traces the encodings and saves the graph.

The layout is tensorflow-transform's (``tft.TFTransformOutput``): ``metadata/schema.pbtxt`` of the
raw columns, ``transformed_metadata/`` with the schema of the features and ``asset_map``, and
``transform_fn/``, a SavedModel whose attribute ``transform_fn`` is the graph. The SavedModel has
the attributes of tensorflow-transform's (``impl_helper._trace_and_write_transform_fn``), and
signatures.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.arrow.columns import value_type
from beam_pipelines.encodings.apply import needed
from beam_pipelines.encodings.plan import EncodePlan
from beam_pipelines.encodings.vocabulary_asset import file_name
from beam_pipelines.serving import specs as tensor_specs
from beam_pipelines.serving.ragged import encode_tensors, from_ragged, to_ragged
from beam_pipelines.serving.signatures import distinct, make_signatures, to_dense

if TYPE_CHECKING:
    import tensorflow as tf

    from beam_pipelines.encodings.vocabulary_asset import Tables

    AnyTensor: TypeAlias = tf.Tensor | tf.SparseTensor | tf.RaggedTensor


# Begins the last line of the process's stderr, the message for the user.
MARK = "transform_graph: "
TRANSFORM_FN = "transform_fn"
ASSET_MAP = "transformed_metadata/asset_map"


class GraphJob(NamedTuple):
    """Arguments of ``write_transform_graph``, pickled.

    Attributes:
      plan: encodings, all fitted; pickled by reference to their modules.
      raw_schema, encoded_schema: of the columns, and of the features.
      label: name of the label, or ``None``.
      preprocessing: folder of the graph of a ``preprocessing_fn``, local or not, or ``None``.
    """

    plan: EncodePlan
    raw_schema: schema_pb2.Schema
    encoded_schema: schema_pb2.Schema
    label: str | None = None
    preprocessing: str | None = None


def write_transform_graph(
    plan: EncodePlan,
    raw_schema: schema_pb2.Schema,
    encoded_schema: schema_pb2.Schema,
    folder: str,
    label: str | None = None,
    preprocessing: str | None = None,
) -> None:
    """Writes the serving graph of fitted encodings.

    Args:
      plan: of the encodings.
      raw_schema: of the columns; says how raw examples are parsed. Features that are not columns
        are left out.
      encoded_schema: of the written features; says how they are parsed, and so which of them the
        graph gives as dense tensors.
      folder: local; created if missing.
      label: name of the feature that is unknown when serving: signatures do not give it, nor take
        columns that only it needs.
      preprocessing: folder of tensorflow-transform's graph of a ``preprocessing_fn``
        (``transforms/preprocessing``), whose input are the plan's features; or ``None``. The
        encoded schema is then that of its output.

    Raises:
      ValueError: a schema cannot be interpreted, or is not that of the written features.
    """
    names = {feature.name for feature in encoded_schema.feature}
    if preprocessing is None and names != set(plan.written):
        raise ValueError(
            f"found a schema of features {sorted(names)}, expected {sorted(plan.written)}"
        )
    import tensorflow as tf

    raw_schema = tensor_specs.columns_only(raw_schema, plan.columns.names)
    graph = _Graph(plan, encoded_schema, os.path.join(folder, "vocabularies"), preprocessing)
    module = tf.Module()
    raw_spec = tensor_specs.feature_spec(raw_schema)
    module.transform_fn = graph.transform_fn(raw_spec, label)
    signatures = graph.signatures(raw_spec, label)
    module.tables, module.preprocessing = list(graph.tables.values()), graph.own
    tf.saved_model.save(module, os.path.join(folder, TRANSFORM_FN), signatures)
    _make_reproducible(os.path.join(folder, TRANSFORM_FN))
    graph.remove_files()
    for path, content in tensor_specs.schema_files(
        raw_schema, encoded_schema, plan.columns.names
    ).items():
        _write(folder, path, content)
    _write(
        folder,
        ASSET_MAP,
        json.dumps(_asset_map(graph.asset_names, folder, preprocessing), sort_keys=True).encode(),
    )


class _Graph:
    """Traces the encodings, and after them a ``preprocessing_fn``.

    Attributes:
      asset_names: feature -> name of its vocabulary's file, if it has one.
      tables: of the vocabularies.
      own: the SavedModel of the ``preprocessing_fn``, or ``None``.
    """

    def __init__(
        self, plan: EncodePlan, schema: schema_pb2.Schema, assets: str, preprocessing: str | None
    ) -> None:
        own = os.path.join(preprocessing, TRANSFORM_FN) if preprocessing is not None else ""
        # A ``preprocessing_fn`` gives sparse tensors; encodings give the columns of these.
        self._plan, self._assets = plan, assets
        self._spec = tensor_specs.feature_spec(
            schema if own else tensor_specs.without_sparse_features(schema)
        )
        self._sparse = {} if own else tensor_specs.sparse_specs(schema)
        self.asset_names = _asset_names((chain.name for chain in plan.chains), _assets_of(own))
        self.tables: Tables = {}
        self.own = _load(own) if own else None

    def transform_fn(self, raw_spec: Mapping[str, Any], label: str | None) -> Any:
        """Returns tensorflow-transform's ``transform_fn``, from parsed to parsed tensors.

        All encodings are in this concrete function, none in a function that it calls: so
        tensorflow-transform sees which features need which columns.
        """

        def transform_fn(inputs: Mapping[str, AnyTensor]) -> dict[str, AnyTensor]:
            if self.own is None or label is None:
                outputs = self._outputs(inputs, set(self._spec), self._spec)
            else:
                outputs = self._outputs(inputs, set(self._spec) - {label}, self._spec)
                outputs |= self._outputs(inputs, {label}, self._spec)
            return tensor_specs.assemble_sparse(outputs, self._sparse)

        return _traced(transform_fn, raw_spec)

    def signatures(self, raw_spec: Mapping[str, Any], label: str | None) -> dict[str, Any]:
        """Returns the signatures, without the label, from dense and ragged tensors.

        Parsing to ragged tensors saves the conversion from sparse ones.
        """
        names = {name for name in self._spec if name != label}
        spec = {name: tensor_specs.ragged_spec(self._spec[name]) for name in names}
        left_out = set(self._spec) - names
        taken = names if self.own is None else cut(self.own.transform_fn, left_out).inputs
        columns = needed(self._plan, taken)[1]
        parsed = {
            name: tensor_specs.ragged_spec(spec)
            for name, spec in raw_spec.items()
            if name in columns
        }

        def known(inputs: Mapping[str, AnyTensor]) -> dict[str, tf.Tensor]:
            return to_dense(tensor_specs.split_sparse(self._outputs(inputs, names, spec), spec))

        # A tf.Example has no float64; tensors have it, where the column is one.
        wide = {name: self._wide(name, spec) for name, spec in parsed.items()}
        from_examples = _traced(known, parsed)
        from_tensors = from_examples if wide == parsed else _traced(known, wide)
        return make_signatures(from_examples, parsed, from_tensors, wide)

    def _wide(self, name: str, spec: Any) -> Any:
        """Returns a column's spec with float64, if that is its type."""
        import tensorflow as tf

        is_wide = pa.types.is_float64(value_type(self._plan.columns.field(name).type))
        return spec._replace(dtype=tf.float64) if is_wide else spec

    def _outputs(
        self, raw: Mapping[str, AnyTensor], names: Collection[str], spec: Mapping[str, Any]
    ) -> dict[str, AnyTensor]:
        """Builds some of the outputs."""
        if self.own is None:
            return self._encoded(raw, names, spec)
        function = self.own.transform_fn
        part = cut(function, set(self._spec) - set(names))
        taken = function.structured_input_signature[0][0]
        return part.apply(
            self._encoded(raw, part.inputs, {name: _parsed_as(taken[name]) for name in part.inputs})
        )

    def _encoded(
        self, raw: Mapping[str, AnyTensor], names: Collection[str], spec: Mapping[str, Any]
    ) -> dict[str, AnyTensor]:
        """Builds some features of the plan, as a feature spec describes them."""
        import tensorflow as tf

        own = needed(self._plan, names)[1]
        columns = {name: to_ragged(tensor) for name, tensor in raw.items() if name in own}
        # Elementwise encodings keep the row splits, and so the indices of the sparse tensor.
        sources = {
            columns[name].row_splits.ref(): tensor
            for name, tensor in raw.items()
            if name in columns and isinstance(tensor, tf.SparseTensor)
        }
        ragged = encode_tensors(
            self._plan, columns, names, self._assets, self.asset_names, self.tables
        )
        return {
            name: from_ragged(name, tensor, spec[name], sources.get(tensor.row_splits.ref()))
            for name, tensor in ragged.items()
        }

    def remove_files(self) -> None:
        """Removes the vocabularies' files, after the SavedModel has copied them."""
        import tensorflow as tf

        if os.path.isdir(self._assets):
            tf.io.gfile.rmtree(self._assets)


def _traced(function: Callable[..., Any], specs: Mapping[str, Any]) -> Any:
    """Returns the concrete function of tensors by their specs."""
    import tensorflow as tf

    signature = [{name: tensor_specs.type_spec(spec) for name, spec in specs.items()}]
    return tf.function(function, input_signature=signature, autograph=False).get_concrete_function()


def _parsed_as(spec: Any) -> Any:
    """Returns the feature spec of a tensor.

    The ``preprocessing_fn`` was traced with the tensor.
    """
    import tensorflow as tf

    is_dense = isinstance(spec, tf.TensorSpec)
    return (
        tf.io.FixedLenFeature(spec.shape[1:], spec.dtype)
        if is_dense
        else tf.io.VarLenFeature(spec.dtype)
    )


def _load(saved_model: str) -> Any:
    """Returns a SavedModel of tensorflow-transform's, with its operations registered."""
    import tensorflow as tf
    import tensorflow_transform  # noqa: F401

    return tf.saved_model.load(saved_model)


def _asset_names(features: Iterable[str], taken: Sequence[str]) -> dict[str, str]:
    """Returns a distinct file name for each feature's vocabulary, as tensorflow-transform."""
    plain = {feature: file_name(feature) for feature in features}
    names = distinct([*taken, *plain.values()])[len(taken) :]
    return dict(zip(plain, names, strict=True))


def _asset_map(
    asset_names: Mapping[str, str], folder: str, preprocessing: str | None
) -> dict[str, str]:
    """Returns the vocabularies' files by name: of features, and of a ``preprocessing_fn``."""
    annotated: dict[str, str] = {}
    if preprocessing is not None and os.path.exists(
        path := os.path.join(preprocessing, *ASSET_MAP.split("/"))
    ):
        with open(path, "rb") as file:
            annotated = json.load(file)
    written = _assets_of(os.path.join(folder, TRANSFORM_FN))
    return annotated | {feature: name for feature, name in asset_names.items() if name in written}


def _assets_of(saved_model: str) -> list[str]:
    assets = os.path.join(saved_model, "assets")
    return os.listdir(assets) if os.path.isdir(assets) else []


def _make_reproducible(saved_model: str) -> None:
    """Sorts a SavedModel's nodes and removes its fingerprint.

    The order of the nodes and the fingerprint are random.
    """
    from tensorflow.core.protobuf import saved_model_pb2

    path = os.path.join(saved_model, "saved_model.pb")
    with open(path, "rb") as file:
        model = saved_model_pb2.SavedModel.FromString(file.read())
    for graph in model.meta_graphs:
        for function in graph.graph_def.library.function:
            nodes = sorted(function.node_def, key=lambda node: node.name)
            del function.node_def[:]
            function.node_def.extend(nodes)
    with open(path, "wb") as file:
        file.write(model.SerializeToString(deterministic=True))
    fingerprint = os.path.join(saved_model, "fingerprint.pb")
    if os.path.exists(fingerprint):
        os.unlink(fingerprint)


def _write(folder: str, path: str, data: bytes) -> None:
    target = os.path.join(folder, *path.split("/"))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "wb") as file:
        file.write(data)


class Subgraph(NamedTuple):
    """A part of a graph.

    Attributes:
      inputs: names of the tensors that it needs.
      apply: tensors by name, with or without others -> outputs by name.
    """

    inputs: tuple[str, ...]
    apply: Callable[[Mapping[str, AnyTensor]], dict[str, AnyTensor]]


def cut(function: Any, leave_out: Collection[str]) -> Subgraph:
    """Cuts a graph to all outputs but some.

    Checks (``tf.debugging.Assert``) stay where ``tf.control_dependencies`` ties them to a value
    that stays. TensorFlow runs all checks of a graph in sequence: the check of a dropped output
    also stays if it was traced before one that stays.

    Args:
      function: a concrete function, traced or loaded, from a dict of tensors to a dict of tensors.
      leave_out: names of outputs; unknown ones are ignored.
    """
    import tensorflow as tf
    from tensorflow.python.eager import wrap_function
    from tensorflow_transform import graph_tools, tf2_utils

    graph = function.graph
    inputs = tf2_utils.get_structured_inputs_from_func_graph(graph)
    structure = tf.nest.pack_sequence_as(
        graph.structured_outputs, graph.outputs, expand_composites=True
    )
    outputs = {name: tensor for name, tensor in structure.items() if name not in leave_out}
    # Without the control dependencies of every output on all checks.
    fetches, _ = tf2_utils.strip_and_get_tensors_and_control_dependencies(
        tf.nest.flatten(outputs, expand_composites=True)
    )
    sources = graph_tools.retrieve_sources(
        [tensor.op for tensor in fetches], ignore_control_dependencies=False
    )
    needed = tuple(
        name
        for name, tensor in inputs.items()
        if any(part in sources for part in tf.nest.flatten(tensor, expand_composites=True))
    )
    feeds = tf.nest.flatten({name: inputs[name] for name in needed}, expand_composites=True)
    holder = wrap_function.VariableHolder(share_variables=True)
    part = wrap_function.WrappedFunction(graph, variable_holder=holder).prune(feeds, fetches)
    shapes = [tensor.shape for tensor in fetches]

    def apply(tensors: Mapping[str, AnyTensor]) -> dict[str, AnyTensor]:
        flat = part(
            *tf.nest.flatten({name: tensors[name] for name in needed}, expand_composites=True)
        )
        flat = list(flat) if isinstance(flat, list | tuple) else [flat]
        for tensor, shape in zip(flat, shapes, strict=True):
            tensor.set_shape(shape)
        packed: dict[str, AnyTensor] = tf.nest.pack_sequence_as(
            outputs, flat, expand_composites=True
        )
        return packed

    return Subgraph(needed, apply)
