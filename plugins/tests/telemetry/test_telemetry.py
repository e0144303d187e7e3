"""Metrics and events of lineage, in files and sent to a server."""

from __future__ import annotations

import contextlib
import http.server
import json
import math
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE
from referencing import Registry, Resource

import beam_pipelines as bp
from beam_pipelines.core.errors import DataError
from beam_pipelines.core.process import plugins

# A line of Prometheus' text format, of what we write.
SAMPLE = re.compile(r'(beam_pipelines_[a-z_]+)\{dataset="((?:[^"\\]|\\.)*)"\} (\S+)')
TYPE = re.compile(r"# TYPE (beam_pipelines_[a-z_]+) (counter|gauge|summary)")
URI = {"type": "string", "format": "uri", "pattern": "^[a-z]+:"}
FACETS = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "properties": {"_producer": URI, "_schemaURL": URI},
        "required": ["_producer", "_schemaURL"],
    },
}
DATASETS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "namespace": {"type": "string"},
            "name": {"type": "string"},
            "facets": FACETS,
            "inputFacets": FACETS,
            "outputFacets": FACETS,
        },
        "required": ["namespace", "name"],
        "additionalProperties": False,
    },
}
# What OpenLineage 2-0-2 asks of a run event.
EVENT = {
    "type": "object",
    "properties": {
        "eventType": {"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
        "eventTime": {"type": "string", "format": "date-time", "pattern": "T.*[+]00:00$"},
        "run": {
            "type": "object",
            "properties": {"runId": {"type": "string", "format": "uuid"}, "facets": FACETS},
            "required": ["runId"],
        },
        "job": {
            "type": "object",
            "properties": {"namespace": {"type": "string"}, "name": {"type": "string"}},
            "required": ["namespace", "name"],
        },
        "inputs": DATASETS,
        "outputs": DATASETS,
        "producer": URI,
        "schemaURL": URI,
    },
    "required": ["eventTime", "producer", "schemaURL", "run", "job"],
}


@pytest.fixture
def recipe(tmp_path: Path) -> dict[str, Any]:
    """A recipe of 100 rows, one of them bad."""
    rows = [f"{n},{n % 7}" for n in range(99)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b", *rows, "x,1"]) + "\n")
    source = {"path": str(tmp_path / "rows.csv"), "types": {"a": "int64"}}
    return {"name": "rows", "sources": {"rows": source}, "on_error": {"reject": 0.1}}


@contextlib.contextmanager
def collector(status: int = 200) -> Iterator[tuple[str, list[Any]]]:
    """A server that keeps documents; yields its URL and them."""
    posted: list[Any] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.headers["Content-Type"] == "application/json"
            posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1", posted
        server.shutdown()


def timings(folder: Path) -> dict[str, Any]:
    """Returns what the manifest says of the run."""
    return json.loads((folder / "dataset.json").read_text())["timings"]


def events(path: Path) -> list[Any]:
    """Returns the events in a file, each checked."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for event in found:
        checked(event)
    return found


def checked(event: Any) -> None:
    """Checks an event.

    It uses the public schemas if ``OPENLINEAGE_SPEC`` names their folder.
    """
    form = jsonschema.FormatChecker()
    jsonschema.Draft202012Validator(EVENT, format_checker=form).validate(event)
    if spec := os.environ.get("OPENLINEAGE_SPEC"):
        schemas = [json.loads(path.read_text()) for path in Path(spec).rglob("*.json")]
        known = Registry().with_resources(
            (schema["$id"], Resource.from_contents(schema)) for schema in schemas if "$id" in schema
        )
        validate(known, event["schemaURL"], event)
        datasets = [*event["inputs"], *event["outputs"]]
        kinds = ("facets", "inputFacets", "outputFacets")
        facets = [
            event["run"]["facets"],
            *(each.get(kind, {}) for each in datasets for kind in kinds),
        ]
        for facet in (facet for several in facets for facet in several.values()):
            validate(known, facet["_schemaURL"], facet)


def validate(known: Registry, url: str, document: Any) -> None:
    """Validates a document by a schema of the registry."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": url}
    jsonschema.Draft202012Validator(
        schema, registry=known, format_checker=jsonschema.FormatChecker()
    ).validate(document)


def test_prometheus(recipe, tmp_path):
    """The file has each counter of the manifest, with its type."""
    file = tmp_path / "run.prom"
    bp.convert(recipe, tmp_path / "out", beam_options=[f"--metrics={file}"])
    types, samples = {}, {}
    for line in file.read_text().splitlines():
        if kind := TYPE.fullmatch(line):
            types[kind[1]] = kind[2]
        else:
            name, dataset, value = SAMPLE.fullmatch(line).groups()
            assert dataset == "rows"
            samples[name] = float(value)
    known = timings(tmp_path / "out")
    for name, number in known["counted"].items():
        if isinstance(number, dict):
            assert types[f"beam_pipelines_{name}"] == "summary"
            assert samples[f"beam_pipelines_{name}_sum"] == number["sum"]
            assert samples[f"beam_pipelines_{name}_count"] == number["count"]
        else:
            assert types[f"beam_pipelines_{name}_total"] == "counter"
            assert samples[f"beam_pipelines_{name}_total"] == number
    assert samples["beam_pipelines_rows_rejected_total"] == 1
    assert samples["beam_pipelines_write_secs"] == known["write_secs"]


def test_otlp(recipe, tmp_path):
    """OpenTelemetry's own messages take each number once, with times."""
    with collector() as (url, posted):
        bp.convert(recipe, tmp_path / "out", beam_options=[f"--metrics={url}"])
    (document,) = posted
    request = json_format.ParseDict(document, ExportMetricsServiceRequest())
    (resource,) = request.resource_metrics
    facts = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert facts["service.name"] == "beam-pipelines"
    assert facts["dataset"] == "rows"
    (scope,) = resource.scope_metrics
    found = {}
    for metric in scope.metrics:
        kind = metric.WhichOneof("data")
        (point,) = getattr(metric, kind).data_points
        assert point.start_time_unix_nano < point.time_unix_nano
        if kind == "sum":
            assert metric.sum.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
            assert metric.sum.is_monotonic
        value = point.sum if kind == "summary" else getattr(point, point.WhichOneof("value"))
        found[metric.name.removeprefix("beam_pipelines.")] = float(value)
    known = timings(tmp_path / "out")
    del known["started"]
    counted = {n: v["sum"] if isinstance(v, dict) else v for n, v in known.pop("counted").items()}
    assert found == pytest.approx(counted | known)
    assert not any(map(math.isnan, found.values()))


def test_lineage_of_a_run(recipe, tmp_path):
    """A run starts and completes under one id, with its rows."""
    file = tmp_path / "events.jsonl"
    bp.convert(recipe, tmp_path / "out", beam_options=[f"--lineage={file}"])
    start, complete = events(file)
    assert [start["eventType"], complete["eventType"]] == ["START", "COMPLETE"]
    assert start["run"]["runId"] == complete["run"]["runId"]
    (read,), (written,) = complete["inputs"], complete["outputs"]
    assert (read["namespace"], read["name"]) == ("file", str(tmp_path / "rows.csv"))
    assert read["inputFacets"]["inputStatistics"]["rowCount"] == 99
    assert (written["namespace"], written["name"]) == ("file", str(tmp_path / "out"))
    statistics = written["outputFacets"]["outputStatistics"]
    assert statistics["rowCount"] == 99
    assert statistics["fileCount"] == len(list((tmp_path / "out" / "examples").rglob("*-of-*")))
    assert {field["name"] for field in written["facets"]["schema"]["fields"]} == {"a", "b"}


def test_lineage_of_a_failure(recipe, tmp_path):
    """A run that fails says why."""
    file, recipe["on_error"] = tmp_path / "events.jsonl", {"reject": 0}
    with pytest.raises(DataError) as failed:
        bp.convert(recipe, tmp_path / "out", beam_options=[f"--lineage={file}"])
    start, fail = events(file)
    assert [start["eventType"], fail["eventType"]] == ["START", "FAIL"]
    assert fail["run"]["facets"]["errorMessage"]["message"] == str(failed.value)


def test_events_are_posted(recipe, tmp_path):
    """A server gets both events."""
    with collector() as (url, posted):
        bp.convert(recipe, tmp_path / "out", beam_options=[f"--lineage={url}"])
    for event in posted:
        checked(event)
    assert [event["eventType"] for event in posted] == ["START", "COMPLETE"]


def test_a_server_that_refuses_the_start(recipe, tmp_path):
    """Nothing runs if the first event is not taken."""
    with (
        collector(500) as (url, _),
        pytest.raises(DataError, match=r"HTTP Error 500.*Start it, or"),
    ):
        bp.convert(recipe, tmp_path / "out", beam_options=[f"--lineage={url}"])
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_metrics_without_a_server(recipe, tmp_path, capsys):
    """The dataset is complete, and a warning says what was not sent."""
    with collector(503) as (url, posted):
        bp.convert(recipe, tmp_path / "out", beam_options=[f"--metrics={url}"])
    assert len(posted) == 1
    assert re.search(r"^warning: --metrics: .*503.*dataset is complete", capsys.readouterr().err)
    assert "counted" in timings(tmp_path / "out")


@pytest.mark.parametrize("option", ["metrics", "lineage"])
def test_a_run_without_plugins_says_what_to_install(recipe, tmp_path, monkeypatch, option):
    """The options are errors before the job."""
    monkeypatch.setattr(plugins, "_points", dict)
    plugins.load.cache_clear()
    with pytest.raises(DataError, match=f"function '{option}': .*pip install ./plugins"):
        bp.convert(recipe, tmp_path / "out", beam_options=[f"--{option}={tmp_path / 'file'}"])
    plugins.load.cache_clear()
    assert not (tmp_path / "out" / "dataset.json").exists()
