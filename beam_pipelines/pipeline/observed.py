"""Reports a conversion's start and end, and what its job has counted."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

from beam_pipelines.core.errors import mask
from beam_pipelines.core.layout.dataset_layout import MANIFEST
from beam_pipelines.core.layout.manifest import Manifest, to_text
from beam_pipelines.core.process import plugins
from beam_pipelines.dataset.manifest import read_manifest
from beam_pipelines.files.beam import file_changes, files
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.runners.options import ReportOptions
from beam_pipelines.transforms import metrics


@contextlib.contextmanager
def observed(
    plan: Plan, output: str, options: PipelineOptions, waits: bool, started: float
) -> Iterator[Callable[[Any], None]]:
    """Reports a conversion while the body runs it.

    Args:
      plan: of the conversion.
      output: the dataset.
      options: for Beam; engines do not get those of reports.
      waits: whether the body ends with the job.
      started: start of the run, in seconds since 1970.

    Yields:
      A function that takes Beam's result of the job once it has ended.

    Raises:
      DataError: the start cannot be reported, or what reports is not installed. After the commit,
        a report that fails is a warning; there is none of a dataset that another run replaces.
    """
    places = options.view_as(ReportOptions)
    results: list[Any] = []
    to_metrics, to_lineage = places.metrics, places.lineage
    places.metrics = places.lineage = None  # may contain a token, and engines show options
    send_metrics = plugins.load(plugins.FUNCTIONS, "metrics") if to_metrics else None
    lineage = None
    if to_lineage:
        lineage = plugins.load(plugins.FUNCTIONS, "lineage")(to_lineage, plan, output)
        lineage("START")
    metrics.begin()
    try:
        yield results.append
    except BaseException as error:
        if lineage:
            with _warned("--lineage", "the run failed"):
                kind = "FAIL" if isinstance(error, Exception) else "ABORT"
                lineage(kind, error=str(error) or "interrupted")
        raise
    if not waits:
        return
    path = files.join(output, MANIFEST)
    version, manifest = file_changes.version_of(path), read_manifest(output)
    if manifest.timings.get("started") != started:
        sys.stderr.write(mask(f"warning: {output}: another run has replaced this dataset\n"))
        return
    with _warned(MANIFEST, "its 'timings' lack what was counted"):
        manifest = _with_totals(manifest, metrics.totals_of(results[0]))
        file_changes.change_version(path, str(version), to_text(manifest).encode())
    if send_metrics:
        with _warned("--metrics", "the dataset is complete"):
            send_metrics(to_metrics, manifest, started)
    if lineage:
        with _warned("--lineage", "the dataset is complete"):
            lineage("COMPLETE", manifest=manifest)


def _with_totals(manifest: Manifest, totals: Mapping[str, Any]) -> Manifest:
    """Returns a manifest with what was counted, and seconds of stages."""
    secs, last = {}, 0
    for stage in metrics.STAGES:
        if ended := totals.get(f"{stage}_ended_msecs"):
            secs[f"{stage}_secs"] = round((ended["max"] - last) / 1000, 3)
            last = ended["max"]
    counted = {name: n for name, n in totals.items() if not name.endswith("_ended_msecs")}
    timings = {**manifest.timings, **secs, "counted": counted}
    return dataclasses.replace(manifest, timings=timings)


@contextlib.contextmanager
def _warned(what: str, state: str) -> Iterator[None]:
    """Prints an error of the body as a warning."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - engines and servers fail in many ways
        sys.stderr.write(mask(f"warning: {what}: {error} ({state})\n"))
