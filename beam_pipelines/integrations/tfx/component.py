"""A recipe as a component of a TFX pipeline: ``RecipeExampleGen(recipe="recipe.yaml")``.

Its outputs are the folders of one dataset, so that nothing is copied::

    <pipeline root>/RecipeExampleGen/dataset/<execution>/      dataset.json, report.html, …
        examples/  statistics/  schema/  anomalies/  transform_graph/      one artifact each

TFX runs the component's driver before it searches its cache. The driver resolves the span, computes
the fingerprint of all inputs, and moves the artifacts into one folder. The executor converts into
that folder. Runners that start TFX's launcher, such as LocalDagRunner, run drivers.
"""

from __future__ import annotations

import copy
import dataclasses
import os
from typing import Any, ClassVar

try:
    from tfx import types
except ImportError as error:
    raise ImportError(
        f"beam_pipelines.integrations.tfx.component: found no TFX that can be imported ({error}), "
        "expected tfx 1.21. Install it with: "
        "pip install '.[tfx]' in a clone, on Linux with glibc 2.39 or later, such as Debian 13 "
        "or Ubuntu 24.04. docs/tfx.md has more."
    ) from error

from absl import logging
from tfx.components.util import examples_utils
from tfx.dsl.components.base import (
    base_beam_component,
    base_beam_executor,
    base_driver,
    executor_spec,
)
from tfx.orchestration import data_types_utils
from tfx.orchestration.portable import base_driver as portable_driver
from tfx.orchestration.portable import outputs_utils
from tfx.proto import example_gen_pb2, range_config_pb2
from tfx.proto.orchestration import driver_output_pb2, execution_result_pb2
from tfx.types import artifact_utils, component_spec, standard_artifacts
from tfx.utils import proto_utils

from beam_pipelines.core.errors import Problem, RecipeError
from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.core.layout.shard_formats import TFRECORD
from beam_pipelines.files.beam import file_changes, files
from beam_pipelines.integrations.tfx.fingerprint import fingerprint_of
from beam_pipelines.integrations.tfx.spans import Spans, fill_spans, resolve_spans
from beam_pipelines.pipeline.convert import convert
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.planning.policy import PolicyOptions, with_policy
from beam_pipelines.pipeline.planning.recipes import load
from beam_pipelines.pipeline.planning.stages import make_plan
from beam_pipelines.recipe.text.lines import explain

__all__ = ["RecipeDriver", "RecipeExampleGen", "RecipeExampleGenSpec", "RecipeExecutor"]

RECIPE, RANGE_CONFIG = "recipe", "range_config"
SPAN, VERSION, FINGERPRINT = "span", "version", "input_fingerprint"
# The dataset's folders that are artifacts, named as the outputs are.
OUTPUTS = {
    "examples": standard_artifacts.Examples,
    "statistics": standard_artifacts.ExampleStatistics,
    "schema": standard_artifacts.Schema,
    "anomalies": standard_artifacts.ExampleAnomalies,
    "transform_graph": standard_artifacts.TransformGraph,
}
PAYLOADS = {
    "example": example_gen_pb2.FORMAT_TF_EXAMPLE,
    "sequence_example": example_gen_pb2.FORMAT_TF_SEQUENCE_EXAMPLE,
    "raw": example_gen_pb2.FORMAT_PROTO,  # TFX's name for records that are bytes
}
GZIP = "tfrecords_gzip"


class RecipeExampleGenSpec(component_spec.ComponentSpec):
    """Inputs and outputs of ``RecipeExampleGen``."""

    PARAMETERS: ClassVar[dict[str, Any]] = {
        RECIPE: component_spec.ExecutionParameter(type=str),
        RANGE_CONFIG: component_spec.ExecutionParameter(
            type=range_config_pb2.RangeConfig, optional=True
        ),
    }
    INPUTS: ClassVar[dict[str, Any]] = {}
    OUTPUTS: ClassVar[dict[str, Any]] = {
        name: component_spec.ChannelParameter(type=type_) for name, type_ in OUTPUTS.items()
    }


class RecipeDriver(base_driver.BaseDriver, portable_driver.BaseDriver):
    """Resolves the span and the output folder before TFX searches its cache."""

    def __init__(self, metadata_handle: Any) -> None:
        base_driver.BaseDriver.__init__(self, metadata_handle)
        portable_driver.BaseDriver.__init__(self, metadata_handle)

    def run(self, execution_info: Any) -> Any:
        """Returns span, version and fingerprint, and the outputs in one folder.

        TFX searches its cache for an execution with the same properties.

        Raises:
          RecipeError, DataError: as planning does, so that the pipeline stops here.
        """
        properties = execution_info.exec_properties
        spans = resolve_spans(load(properties[RECIPE]), _range_config(properties))
        known: dict[str, str | int] = {
            FINGERPRINT: fingerprint_of(_plan(properties[RECIPE], spans)),
            SPAN: spans.span,
        }
        if spans.version is not None:
            known[VERSION] = spans.version
        result = driver_output_pb2.DriverOutput()
        for name, value in {**properties, **known}.items():
            if value is not None:
                data_types_utils.set_metadata_value(result.exec_properties[name], value)
        for name, artifacts in execution_info.output_dict.items():
            artifact = copy.deepcopy(artifacts[0])
            artifact.uri = _folder_beside(artifact.uri, name)
            if name == "examples":
                _describe_input(artifact, known)
            result.output_artifacts[name].artifacts.append(artifact.mlmd_artifact)
        return result


class RecipeExecutor(base_beam_executor.BaseBeamExecutor):
    """Converts into the folder that contains all outputs."""

    def Do(self, input_dict: Any, output_dict: Any, exec_properties: Any) -> Any:  # noqa: N802 - TFX's name
        """Converts.

        Raises:
          RecipeError: the recipe cannot be converted, or no driver has run.
          DataError: the data are not as the recipe says, or the run failed. Of the dataset stay at
            most the rows that are to blame.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        folder = _dataset_folder(output_dict)
        # As the user gave them: TFX adds a package of its own, which our workers do not need.
        options = list(self._context.beam_pipeline_args or ()) if self._context else []
        files.use_options(options)
        plan = _plan(
            exec_properties[RECIPE], Spans(exec_properties[SPAN], exec_properties.get(VERSION))
        )
        try:
            manifest = convert(plan, folder, overwrite=True, beam_options=options, quiet=True)
        except BaseException:
            outputs_utils.make_output_dirs(
                output_dict
            )  # TFX removes them now, and would stumble over a missing one
            raise
        logging.info("%s: %s", folder, manifest.counts)
        return _published(output_dict, manifest, exec_properties)


class RecipeExampleGen(base_beam_component.BaseBeamComponent):
    """Converts a recipe's data; a component that replaces an ExampleGen.

    Outputs, the folders of one dataset: ``examples``, ``statistics``, ``schema``, ``anomalies``,
    and, if the recipe encodes, ``transform_graph``. Without encodings, ``examples`` and ``schema``
    are what Transform and Trainer take; with them, ``examples`` are what ``transform_graph`` makes
    of raw ones, as ``transformed_examples`` of Transform are.
    """

    SPEC_CLASS = RecipeExampleGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(RecipeExecutor)
    DRIVER_CLASS = RecipeDriver

    def __init__(self, recipe: Any, range_config: Any = None) -> None:
        """Makes the component.

        Args:
          recipe: path or URL of a recipe, or of a data file to convert as it is.
          range_config: TFX's ``RangeConfig``, the span to convert: a ``static_range`` of one span,
            or a ``rolling_range`` of one, the latest. ``None``: the latest, if paths have places
            for spans.
        """
        recipe = os.fspath(recipe) if isinstance(recipe, os.PathLike) else recipe
        outputs = {name: types.Channel(type=type_) for name, type_ in OUTPUTS.items()}
        super().__init__(
            spec=RecipeExampleGenSpec(recipe=recipe, range_config=range_config, **outputs)
        )


def _range_config(properties: Any) -> Any:
    """Returns the RangeConfig that TFX keeps as JSON, or ``None``."""
    text = properties.get(RANGE_CONFIG)
    if not text:
        return None
    config = range_config_pb2.RangeConfig()
    proto_utils.json_to_proto(text, config)
    return config


def _plan(path: str, spans: Spans) -> Plan:
    """Plans one span's conversion, and checks that TFX can read it.

    Raises:
      RecipeError: lists all problems of the recipe, with its lines.
    """
    recipe = load(path)
    with recipe.lines.explained():
        output = dataclasses.replace(recipe.output, serving=True)  # TFX's components open it
        filled = fill_spans(dataclasses.replace(recipe, output=output), spans)
        plan = with_policy(make_plan(filled), PolicyOptions())
    if recipe.output.format != TFRECORD:
        message = f"found {recipe.output.format}, expected tfrecord: TFX reads nothing else."
        raise explain([Problem(("output", "format"), message)], recipe.lines)
    if recipe.output.compression != "gzip":
        message = (
            f"found {recipe.output.compression}, expected gzip: TFX's components read nothing else."
        )
        raise explain([Problem(("output", "compression"), message)], recipe.lines)
    return plan


def _folder_beside(uri: str, name: str) -> str:
    """Returns the folder ``dataset/<execution>/<name>`` for a URI from TFX.

    TFX allots ``…/<name>/<execution>``. The result begins with the same folders.
    """
    before, execution = os.path.split(uri.rstrip("/"))
    return os.path.join(os.path.dirname(before), "dataset", execution, name)


def _dataset_folder(output_dict: Any) -> str:
    """Returns the folder that contains all outputs.

    Raises:
      RecipeError: there are several, because no driver has run.
    """
    uris = {name: artifact_utils.get_single_uri(output_dict[name]).rstrip("/") for name in OUTPUTS}
    folders = {os.path.dirname(uri) for uri in uris.values()}
    if len(folders) > 1 or any(os.path.basename(uri) != name for name, uri in uris.items()):
        raise RecipeError(
            f"RecipeExampleGen: found outputs in {len(folders)} folders, expected them in one, "
            "where its driver puts them. This runner does not run "
            "drivers of components; run the pipeline with LocalDagRunner, or convert before it and "
            "use Importer, as docs/tfx.md shows."
        )
    return str(folders.pop())


def _describe_input(examples: Any, known: Any) -> None:
    """Sets span, version and fingerprint on an artifact.

    They are properties, and custom properties like those of TFX's ExampleGen.
    """
    examples.set_string_custom_property(FINGERPRINT, known[FINGERPRINT])
    for name in (SPAN, VERSION):
        if known.get(name) is not None:
            setattr(examples, name, known[name])
            examples.set_int_custom_property(name, known[name])


def _published(output_dict: Any, manifest: Manifest, exec_properties: Any) -> Any:
    """Returns the artifacts that TFX publishes, with splits, span and format.

    ``transform_graph`` is published only if it exists.
    """
    for name in ("examples", "statistics", "anomalies"):
        artifact = artifact_utils.get_single_instance(output_dict[name])
        artifact.split_names = artifact_utils.encode_split_names(list(manifest.splits))
        artifact.span = exec_properties[SPAN]
    examples = artifact_utils.get_single_instance(output_dict["examples"])
    examples_utils.set_payload_format(examples, PAYLOADS[manifest.record])
    examples_utils.set_file_format(examples, GZIP)
    anomalies = artifact_utils.get_single_instance(output_dict["anomalies"])
    # A dataset is there, so its anomalies were accepted: ExampleValidator's word for that is 1.
    anomalies.set_json_value_custom_property("blessed", dict.fromkeys(manifest.splits, 1))
    if manifest.encodings is None:
        file_changes.delete(artifact_utils.get_single_uri(output_dict["transform_graph"]))
        output_dict["transform_graph"] = []
    result = execution_result_pb2.ExecutorOutput()
    outputs_utils.populate_output_artifact(result, output_dict)
    return result
