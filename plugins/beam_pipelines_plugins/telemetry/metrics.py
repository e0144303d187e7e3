"""Writes a run's counters as Prometheus' text or OpenTelemetry's JSON.

The formats are https://prometheus.io/docs/instrumenting/exposition_formats and OTLP 1.x,
https://opentelemetry.io/docs/specs/otlp.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from beam_pipelines.core.errors import mask
from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.core.version import __version__
from beam_pipelines.files.beam import files
from beam_pipelines_plugins.telemetry.post import is_server, post

_PREFIX = "beam_pipelines"
_CUMULATIVE = 2


def send_metrics(place: str, manifest: Manifest, started: float) -> None:
    """Writes metrics to a file for Prometheus, or posts them as OTLP.

    Args:
      place: a path, such as one in the folder of node_exporter's textfile collector; or the URL of
        a collector, ``http://localhost:4318/v1/metrics``.
      manifest: of the new dataset, with what was counted.
      started: start of the run, in seconds since 1970.

    Raises:
      DataError: the file cannot be written, or the server does not take the metrics.
    """
    if is_server(place):
        post(place, to_otlp(manifest, started, time.time()))
        return
    with files.replace(place) as file:
        file.write("".join(f"{line}\n" for line in to_prometheus(manifest)).encode())


def _numbers(manifest: Manifest) -> tuple[dict[str, float], dict[str, Mapping[str, int]]]:
    """Returns counters and seconds by name, and distributions by name."""
    counted: Mapping[str, Any] = manifest.timings.get("counted", {})
    secs = {name: n for name, n in manifest.timings.items() if name.endswith("_secs")}
    numbers = {name: n for name, n in counted.items() if not isinstance(n, Mapping)}
    several = {name: n for name, n in counted.items() if isinstance(n, Mapping)}
    return {**numbers, **secs}, several


def to_prometheus(manifest: Manifest) -> Iterator[str]:
    """Yields the lines of Prometheus' text format."""
    numbers, distributions = _numbers(manifest)
    name = manifest.name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    label = f'{{dataset="{name}"}}'
    for name, number in numbers.items():
        kind, suffix = ("gauge", "") if name.endswith("_secs") else ("counter", "_total")
        yield f"# TYPE {_PREFIX}_{name}{suffix} {kind}"
        yield f"{_PREFIX}_{name}{suffix}{label} {number}"
    for name, found in distributions.items():
        yield f"# TYPE {_PREFIX}_{name} summary"
        for what in ("sum", "count"):
            yield f"{_PREFIX}_{name}_{what}{label} {found[what]}"


def to_otlp(manifest: Manifest, started: float, ended: float) -> dict[str, Any]:
    """Returns the body of a request to a collector."""
    numbers, distributions = _numbers(manifest)
    times = {
        "startTimeUnixNano": str(int(started * 1e9)),
        "timeUnixNano": str(int(ended * 1e9)),
    }
    total = {"aggregationTemporality": _CUMULATIVE, "isMonotonic": True}
    metrics: list[dict[str, Any]] = []
    for name, n in numbers.items():
        value = {"asInt": str(n)} if isinstance(n, int) else {"asDouble": n}
        points: dict[str, Any] = {"dataPoints": [times | value]}
        is_time = name.endswith("_secs")
        own = {"unit": "s", "gauge": points} if is_time else {"unit": "1", "sum": total | points}
        metrics.append({"name": f"{_PREFIX}.{name}"} | own)
    for name, found in distributions.items():
        point = {**times, "count": str(found["count"]), "sum": found["sum"]}
        quantiles = [{"quantile": q, "value": found[what]} for q, what in ((0, "min"), (1, "max"))]
        point["quantileValues"] = quantiles
        metrics.append({"name": f"{_PREFIX}.{name}", "summary": {"dataPoints": [point]}})
    facts = {"service.name": "beam-pipelines", "service.version": __version__}
    facts["dataset"] = mask(manifest.name)
    attributes = [{"key": key, "value": {"stringValue": text}} for key, text in facts.items()]
    scope = {"scope": {"name": _PREFIX, "version": __version__}, "metrics": metrics}
    resource = {"resource": {"attributes": attributes}, "scopeMetrics": [scope]}
    return {"resourceMetrics": [resource]}
