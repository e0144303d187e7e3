"""Writes ``transform_graph/``: traces the encodings with tensorflow-transform, without its analysis, which we have done.

The layout is tensorflow-transform's (``tft.TFTransformOutput``): ``metadata/schema.pbtxt`` of the raw columns, ``transformed_metadata/``
with the schema of the features and ``asset_map``, and ``transform_fn/``, a SavedModel whose attribute ``transform_fn`` is the graph. The
SavedModel is written as tensorflow-transform's own code does it (``impl_helper._trace_and_write_transform_fn``), with signatures besides.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.encode_plan import EncodePlan
from beam_pipelines.schema import schema_to_text
from beam_pipelines.transform_graph.cut import cut
from beam_pipelines.transform_graph.ragged import encode_tensors, from_ragged
from beam_pipelines.transform_graph.signatures import make_signatures

if TYPE_CHECKING:
    import tensorflow as tf

    AnyTensor: TypeAlias = tf.Tensor | tf.SparseTensor | tf.RaggedTensor

TRANSFORM_FN = "transform_fn"
RAW_SCHEMA = "metadata/schema.pbtxt"
ENCODED_SCHEMA = "transformed_metadata/schema.pbtxt"
ASSET_MAP = "transformed_metadata/asset_map"


def write_transform_graph(
    plan: EncodePlan,
    raw_schema: schema_pb2.Schema,
    encoded_schema: schema_pb2.Schema,
    folder: str,
    label: str | None = None,
    preprocessing: str | None = None,
) -> None:
    """Writes the serving graph of encodings that are fitted.

    Args:
      plan: of the encodings.
      raw_schema: of the columns; says how raw examples are parsed. Features that are no columns are left out.
      encoded_schema: of the written features; says how they are parsed, and so which of them the graph gives as dense tensors.
      folder: local; made if it is not there.
      label: name of the feature that is not known when serving: signatures do not give it, nor take columns that only it needs.
      preprocessing: folder of what tensorflow-transform wrote of the recipe's own ``preprocessing_fn`` (``preprocessing.py``), which takes
        what the plan writes; or ``None``. The encoded schema is then that of what it gives.

    Raises:
      ValueError: a schema cannot be interpreted, or is not that of the written features.
    """
    names = {feature.name for feature in encoded_schema.feature}
    if preprocessing is None and names != set(plan.written):
        raise ValueError(f"found a schema of features {sorted(names)}, expected {sorted(plan.written)}")
    import tensorflow as tf
    from tensorflow_transform import graph_context, impl_helper
    from tensorflow_transform.saved import saved_transform_io_v2

    raw_schema = _columns_only(raw_schema, plan.columns.names)
    raw_spec = _feature_spec(raw_schema)
    module = tf.Module()
    graph = _Graph(
        plan, _feature_spec(encoded_schema), os.path.join(folder, "vocabularies"), module, label, preprocessing
    )
    type_specs = impl_helper.get_type_specs_from_feature_specs(raw_spec)
    context = graph_context.TFGraphContext(module_to_export=module, temp_dir=None, evaluated_replacements=None)
    traced = saved_transform_io_v2.trace_and_update_module(
        module,
        impl_helper.get_traced_transform_fn(graph, type_specs, context),
        TRANSFORM_FN,
        strip_control_dependencies=False,
    )
    known = cut(traced, {label} if label is not None else ())
    signatures = make_signatures(
        known.apply,
        {name: raw_spec[name] for name in known.inputs},
        {name: type_specs[name] for name in known.inputs},
    )
    tf.saved_model.save(module, os.path.join(folder, TRANSFORM_FN), signatures)
    _make_reproducible(os.path.join(folder, TRANSFORM_FN))
    graph.remove_files()
    _write(folder, RAW_SCHEMA, schema_to_text(raw_schema))
    _write(folder, ENCODED_SCHEMA, schema_to_text(encoded_schema))
    _write(folder, ASSET_MAP, json.dumps(_asset_map(graph.asset_names, folder, preprocessing), sort_keys=True).encode())


class _Graph:
    """A ``preprocessing_fn`` of tensorflow-transform's convention, whose analysis is done."""

    def __init__(
        self,
        plan: EncodePlan,
        spec: Mapping[str, Any],
        assets: str,
        module: tf.Module,
        label: str | None,
        preprocessing: str | None,
    ) -> None:
        import tensorflow as tf

        own = os.path.join(preprocessing, TRANSFORM_FN) if preprocessing is not None else ""
        self._plan, self._spec, self._assets, self._label = plan, spec, assets, label
        self.asset_names = _asset_names((chain.name for chain in plan.chains), _assets_of(own))
        self._own = None
        if own:
            module.preprocessing = tf.saved_model.load(own)
            self._own = module.preprocessing.transform_fn

    def __call__(self, raw: Mapping[str, AnyTensor]) -> dict[str, AnyTensor]:
        # The label comes last, and by itself, so that the rest can be cut from it (``cut.py``).
        features = {name for name in self._spec if name != self._label}
        outputs = self._outputs(raw, features)
        return outputs if self._label is None else outputs | self._outputs(raw, {self._label})

    def _outputs(self, raw: Mapping[str, AnyTensor], names: Collection[str]) -> dict[str, AnyTensor]:
        """Builds some of the outputs."""
        if self._own is None:
            ragged = encode_tensors(self._plan, raw, names, self._assets, self.asset_names)
            return {name: from_ragged(name, tensor, self._spec[name]) for name, tensor in ragged.items()}
        part = cut(self._own, set(self._spec) - set(names))
        encoded = encode_tensors(self._plan, raw, part.inputs, self._assets, self.asset_names)
        specs = self._own.structured_input_signature[0][0]
        return part.apply(
            {name: from_ragged(name, tensor, _parsed_as(specs[name])) for name, tensor in encoded.items()}
        )

    def remove_files(self) -> None:
        """Removes the vocabularies' files, once the SavedModel has copies of them."""
        import tensorflow as tf

        if os.path.isdir(self._assets):
            tf.io.gfile.rmtree(self._assets)


def _parsed_as(spec: Any) -> Any:
    """Returns the feature spec of the kind of tensor that the recipe's own function was traced with."""
    import tensorflow as tf

    is_dense = isinstance(spec, tf.TensorSpec)
    return tf.io.FixedLenFeature(spec.shape[1:], spec.dtype) if is_dense else tf.io.VarLenFeature(spec.dtype)


def _columns_only(schema: schema_pb2.Schema, names: Iterable[str]) -> schema_pb2.Schema:
    """Returns the schema without features that are no columns."""
    known = set(names)
    result = schema_pb2.Schema()
    result.CopyFrom(schema)
    del result.feature[:]
    result.feature.extend(feature for feature in schema.feature if feature.name in known)
    return result


def _feature_spec(schema: schema_pb2.Schema) -> dict[str, Any]:
    from tensorflow_transform.tf_metadata import schema_utils

    spec: dict[str, Any] = schema_utils.schema_as_feature_spec(schema).feature_spec
    return spec


def _asset_names(features: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    """Returns the file name of each feature's vocabulary, if it has one: as tensorflow-transform would, and each once."""
    from tensorflow_transform.analyzers import sanitized_vocab_filename

    names: dict[str, str] = {}
    used = set(taken)
    for feature in dict.fromkeys(features):
        name = plain = sanitized_vocab_filename(feature)
        number = 2
        while name in used:
            name, number = f"{plain}_{number}", number + 1
        used.add(name)
        names[feature] = name
    return names


def _asset_map(asset_names: Mapping[str, str], folder: str, preprocessing: str | None) -> dict[str, str]:
    """Returns the vocabularies' files by name: those of features, and those that the recipe's own function annotated."""
    annotated: dict[str, str] = {}
    if preprocessing is not None and os.path.exists(path := os.path.join(preprocessing, *ASSET_MAP.split("/"))):
        with open(path, "rb") as file:
            annotated = json.load(file)
    written = _assets_of(os.path.join(folder, TRANSFORM_FN))
    return annotated | {feature: name for feature, name in asset_names.items() if name in written}


def _assets_of(saved_model: str) -> list[str]:
    assets = os.path.join(saved_model, "assets")
    return os.listdir(assets) if os.path.isdir(assets) else []


def _make_reproducible(saved_model: str) -> None:
    """Puts a SavedModel's nodes in an order, which TensorFlow leaves to chance, and leaves out its fingerprint, a random number."""
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
