"""Events of OpenLineage: a run, its sources, and its dataset.

https://openlineage.io/docs/spec/object-model. Names of datasets follow its naming.
"""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import apache_beam as beam

from beam_pipelines.core.errors import mask
from beam_pipelines.core.layout.manifest import Manifest
from beam_pipelines.core.version import __version__
from beam_pipelines.files.beam import files
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.recipe.places import place_in
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines_plugins.telemetry.post import is_server, post

_PRODUCER = f"urn:beam-pipelines:{__version__}"
_SPEC = "https://openlineage.io/spec"
_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FACETS = {
    "errorMessage": "1-0-1/ErrorMessageRunFacet",
    "inputStatistics": "1-0-0/InputStatisticsInputDatasetFacet",
    "outputStatistics": "1-0-2/OutputStatisticsOutputDatasetFacet",
    "processing_engine": "1-1-1/ProcessingEngineRunFacet",
    "schema": "1-2-0/SchemaDatasetFacet",
}


class Lineage:
    """The events of one run, all with its id.

    Args:
      place: a URL that takes events, such as ``http://localhost:5000/api/v1/lineage``; or a local
        file, to which they are appended, one a line.
      plan: of the conversion.
      output: the dataset.
    """

    def __init__(self, place: str, plan: Plan, output: str) -> None:
        self._place, self._plan, self._output = place, plan, output
        self._run = str(uuid.uuid4())

    def __call__(self, kind: str, manifest: Manifest | None = None, error: str = "") -> None:
        """Sends an event.

        Args:
          kind: ``START``, ``COMPLETE``, ``FAIL`` or ``ABORT``.
          manifest: of the new dataset, with ``COMPLETE``.
          error: with ``FAIL`` and ``ABORT``.

        Raises:
          DataError: the server does not take it, or the file cannot be written.
        """
        event = self._event(kind, manifest, error)
        if is_server(self._place):
            post(self._place, event)
            return
        with files.explained(self._place), open(self._place, "a", encoding="utf-8") as file:
            file.write(json.dumps(event, ensure_ascii=False) + "\n")

    def _event(self, kind: str, manifest: Manifest | None, error: str) -> dict[str, Any]:
        engine = {"name": "Apache Beam", "version": beam.__version__}
        facets = _facet("processing_engine", **engine, openlineageAdapterVersion=__version__)
        if error:
            facets |= _facet("errorMessage", message=mask(error), programmingLanguage="Python")
        return {
            "eventType": kind,
            "eventTime": datetime.datetime.now(datetime.timezone.utc).isoformat(),
            "run": {"runId": self._run, "facets": facets},
            "job": {"namespace": "beam-pipelines", "name": self._plan.recipe.name},
            "inputs": [
                each
                for name, source in self._plan.sources.items()
                for each in _inputs(source, manifest and manifest.sources[name])
            ],
            "outputs": [_output(self._output, manifest)],
            "producer": _PRODUCER,
            "schemaURL": _EVENT,
        }


def _facet(facet: str, /, **content: Any) -> dict[str, Any]:
    version, _, kind = _FACETS[facet].partition("/")
    url = f"{_SPEC}/facets/{version}/{kind}.json#/$defs/{kind}"
    return {facet: {"_producer": _PRODUCER, "_schemaURL": url, **content}}


def _named(path: str) -> dict[str, Any]:
    """Returns namespace and name of a path or URL."""
    parts = urlsplit(mask(path))
    if not parts.scheme:
        return {"namespace": "file", "name": files.absolute(path)}
    return {"namespace": f"{parts.scheme}://{parts.netloc}", "name": parts.path.lstrip("/") or "/"}


def _inputs(source: SourcePlan, read: Any) -> Iterator[dict[str, Any]]:
    given = place_in(source.source.options) or ""
    paths = [given] if given else [str(path) for path in source.source.path]
    fields = [{"name": field.name, "type": str(field.type)} for field in source.read_schema]
    for path in paths:
        own = {**_named(path), "facets": _facet("schema", fields=fields)}
        if read is not None and len(paths) == 1:
            size = sum(file.bytes or 0 for file in read.files)
            rows = _facet("inputStatistics", rowCount=read.read, size=size)
            own["inputFacets"] = rows
        yield own


def _output(folder: str, manifest: Manifest | None) -> dict[str, Any]:
    if manifest is None:
        return _named(folder)
    fields = [{"name": name, "type": kind} for name, kind in manifest.columns.items()]
    size = sum(split.bytes for split in manifest.splits.values())
    counts = {"rowCount": manifest.counts.written, "fileCount": len([*manifest.shards])}
    return {
        **_named(folder),
        "facets": _facet("schema", fields=fields),
        "outputFacets": _facet("outputStatistics", size=size, **counts),
    }
