"""The Python interface: a function for each command.

Functions take recipes, mappings and paths.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2, statistics_pb2

from beam_pipelines.analysis.anomalies import anomalies_to_proto
from beam_pipelines.analysis.schema import read_schema
from beam_pipelines.analysis.statistics.datasets import is_stored, read_protos, read_statistics
from beam_pipelines.core.layout.dataset_layout import anomalies_path
from beam_pipelines.dataset.verify import Verification, verify_dataset
from beam_pipelines.files.beam import files
from beam_pipelines.pipeline import convert as convert_module
from beam_pipelines.pipeline import output_folder
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.planning.plan_recipe import NO_POLICY, RecipeLike, plan
from beam_pipelines.pipeline.planning.policy import PolicyOptions, make_policy, with_policy
from beam_pipelines.pipeline.planning.transform import plan_transform
from beam_pipelines.pipeline.run_options import RunOptions
from beam_pipelines.pipeline.validate import check_statistics, schema_of
from beam_pipelines.reader.dataset import Dataset
from beam_pipelines.recipe import path_dates
from beam_pipelines.recipe.settings import Setting
from beam_pipelines.recipe.text.lines import Lines


@dataclasses.dataclass(frozen=True)
class Description:
    """The result of ``describe``.

    Attributes:
      rows: split -> number of rows.
      schema: inferred from the data, or the recipe's own.
      statistics: split -> statistics, as TFDV has them.
      anomalies: split -> anomalies; none has any if the data are as the schema says.
    """

    rows: Mapping[str, int]
    schema: schema_pb2.Schema
    statistics: Mapping[str, statistics_pb2.DatasetFeatureStatistics]
    anomalies: Mapping[str, anomalies_pb2.Anomalies]


def convert(
    recipe: RecipeLike | Plan,
    output: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    resume: bool = False,
    beam_options: Sequence[str] = (),
    quiet: bool = True,
    **planning: Any,
) -> Dataset:
    """Converts sources into a dataset and returns it.

    Args:
      recipe: as ``plan`` takes it; or a plan.
      output: folder or URL of the dataset; ``{date}`` in it stands for the date.
      overwrite: replaces a dataset that is there, once the new one is complete.
      resume: takes over the shards of an interrupted run of the same recipe, inputs and version.
      beam_options: options of Apache Beam, as on the command line.
      quiet: shows no progress.
      planning: further arguments of ``plan``: ``schema``, ``date``, ``input_roots``, ``policy``,
        ``encode``.

    Raises:
      RecipeError: the recipe is wrong, or the output is no place for a dataset.
      DataError: the data are not as the recipe says, or the run failed. No dataset was written.
    """
    output = path_dates.output_of_day(os.fspath(output), planning.get("date"))
    planned = _planned(recipe, planning)
    if isinstance(recipe, str | os.PathLike):
        output_folder.check_inputs(output, [os.fspath(recipe)])
    running = {"overwrite": overwrite, "resume": resume, "quiet": quiet}
    return _converted(planned, output, beam_options=beam_options, **running)


def _converted(plan: Plan, output: str, **running: Any) -> Dataset:
    convert_module.convert(plan, output, **{"quiet": True, **running})
    if beam_options := running.get("beam_options"):
        files.use_options(beam_options)  # the dataset is opened without Beam
    return Dataset(output)


def _planned(recipe: RecipeLike | Plan, planning: Mapping[str, Any]) -> Plan:
    return recipe if isinstance(recipe, Plan) else plan(recipe, **planning)


def transform(
    dataset: str | os.PathLike[str],
    new_data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    sources: Mapping[str, str] | None = None,
    split: str | None = "test",
    date: datetime.date | None = None,
    policy: PolicyOptions = NO_POLICY,
    settings: Sequence[Setting] = (),
    **running: Any,
) -> Dataset:
    """Converts new data with the fitted encodings of a dataset.

    Nothing is fitted again.

    Args:
      dataset: folder of the dataset.
      new_data: path or pattern, or several, in place of the recipe's base source; empty with a
        date: the recipe's own paths of that day.
      output: folder of the new dataset.
      sources: other source -> path or pattern in place of the dataset's.
      split: the one split that gets all rows. ``None``: the new dataset is read with the first as
        one: it has the splits and the sampling of the recipe, and all columns. What has drifted
        from the first one is an anomaly.
      date, policy: as ``plan`` takes them.
      settings: values for keys of ``output``, ``on_error`` and ``limits`` of the recipe.
      running: further arguments: ``input_roots`` of ``plan``; ``overwrite``, ``resume``,
        ``beam_options`` and ``quiet`` of ``convert``.

    Raises:
      RecipeError: the new data do not fit the dataset's recipe.
      DataError: there is no dataset, it encodes nothing, or the run failed.
    """
    folder, roots = os.fspath(dataset), running.pop("input_roots", ())
    given = [new_data] if isinstance(new_data, str | os.PathLike) else new_data
    paths = [os.fspath(path) for path in given]
    with Lines(folder).explained():
        planned = plan_transform(folder, paths, sources or {}, split, date, roots, settings)
    if split is None and policy.baseline is None:
        policy = dataclasses.replace(policy, baseline=folder)
    output = path_dates.output_of_day(os.fspath(output), date)
    return _converted(with_policy(planned, policy), output, **running)


def describe(
    recipe: RecipeLike | Plan,
    output: str | os.PathLike[str] | None = None,
    *,
    beam_options: Sequence[str] = (),
    quiet: bool = True,
    **planning: Any,
) -> Description:
    """Reads the data once: statistics, schema and anomalies, without writing examples.

    Args:
      recipe: as ``plan`` takes it; or a plan.
      output: folder for the files and the report; ``None`` writes none.
      beam_options, quiet, planning: as ``convert`` takes them.

    Raises:
      RecipeError, DataError: as ``convert``.
    """
    planned = _planned(recipe, planning)
    with folder_or_temporary(output) as folder:
        options = RunOptions(folder, beam_options=beam_options, quiet=quiet)
        manifest = convert_module.describe(planned, options)
        return Description(
            {name: split.rows for name, split in manifest.splits.items()},
            read_schema(schema_of(folder)),
            read_protos(folder),
            _read_anomalies(folder, planned),
        )


def folder_or_temporary(
    output: str | os.PathLike[str] | None,
) -> contextlib.AbstractContextManager[str]:
    """Returns the output folder, or a temporary one without an output."""
    return (
        tempfile.TemporaryDirectory()
        if output is None
        else contextlib.nullcontext(os.fspath(output))
    )


def _read_anomalies(folder: str, planned: Plan) -> dict[str, anomalies_pb2.Anomalies]:
    return {
        name: anomalies_pb2.Anomalies.FromString(
            files.read_bytes(files.within(folder, anomalies_path(name)))
        )
        for name in planned.recipe.split.names
    }


def validate(
    data: RecipeLike | Plan,
    *,
    schema: str | None = None,
    policy: PolicyOptions = NO_POLICY,
    output: str | os.PathLike[str] | None = None,
    beam_options: Sequence[str] = (),
    quiet: bool = True,
    **planning: Any,
) -> Mapping[str, anomalies_pb2.Anomalies]:
    """Checks a dataset's statistics or a recipe's data against a schema.

    Reads the data of a recipe, but only the statistics of a dataset.

    Args:
      data: folder of a dataset or of statistics; or a recipe, as ``plan`` takes it; or a plan.
      schema: path of the expected schema; by default the dataset's or the recipe's.
      policy: environment, baseline and accepted anomalies.
      output: of a recipe, folder for what ``describe`` writes and the offending rows.
      beam_options, quiet, planning: as ``convert`` takes them.

    Returns:
      Split -> accepted anomalies and measured drift.

    Raises:
      DataError: there are anomalies that were not accepted; lists them.
      RecipeError: as ``plan``.
    """
    if isinstance(data, str | os.PathLike) and is_stored(os.fspath(data)):
        return _validate_statistics(os.fspath(data), schema, policy)
    schema = None if schema is None else files.absolute(schema)
    planned = _planned(data, {"schema": schema, "policy": policy, **planning})
    with folder_or_temporary(output) as folder:
        options = RunOptions(folder, beam_options=beam_options, quiet=quiet)
        convert_module.validate(planned, options, stays=output is not None)
        return _read_anomalies(folder, planned)


def _validate_statistics(
    path: str, schema_path: str | None, options: PolicyOptions
) -> Mapping[str, anomalies_pb2.Anomalies]:
    schema_path = schema_path or schema_of(path)
    schema, statistics = read_schema(schema_path), read_statistics(path)
    columns = [name for split in statistics.values() for name in split.columns]
    policy = make_policy(options, schema, schema_path, columns)
    found = check_statistics(path, statistics, schema_path, schema, policy)
    return anomalies_to_proto(found, schema)


def verify(folder: str | os.PathLike[str]) -> Verification:
    """Reads every shard of a dataset again: checksums, counts, manifest, schema.

    Raises:
      DataError: lists everything that is wrong, by file.
    """
    return verify_dataset(os.fspath(folder))


def inspect(path: str | os.PathLike[str], n: int = 5, *, split: str | None = None) -> Iterator[str]:
    """Yields the first examples of a dataset or a TFRecord file.

    Each example is some lines of text.

    Raises:
      RecipeError: there is no dataset or file at the path, or no such split.
      DataError: the file is damaged or contains no tf.Examples.
    """
    from beam_pipelines.dataset.inspect import inspect_examples

    return inspect_examples(os.fspath(path), n, split)
