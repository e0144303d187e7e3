"""Measures the elements that Flink and Spark would materialize.

Beam's local runner runs the steps meanwhile. Flink and Spark fuse steps greedily
(``GreedyPipelineFuser`` of Beam's Java runners). A step with side inputs begins a stage of its own,
and so do a GroupByKey, a Flatten and a Reshuffle: their main inputs cross the engine, and so do the
elements of side inputs.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import apache_beam as beam
from apache_beam.transforms.core import GroupByKey, ParDo
from apache_beam.transforms.ptransform import PTransform

# Steps of every conversion whose main input, and whose side inputs, cross the engine; more than one
# range of CSV brings the first one.
STEPS = {
    "Convert/FirstPass/ReadSplits/Read/Read", "Convert/FirstPass/MakeResult", "Convert/BuildGraph",
    "Convert/SaveShardPlan", "Convert/WriteShards/DealChunks/Await", "Convert/NoteFinished",
    "Convert/Commit/All",
}  # fmt: skip
_BREAKS = ("GroupByKey", "Flatten", "Reshuffle")


class _Measure(beam.DoFn):
    """Notes the pickled size of each element, and passes it on."""

    def __init__(self, folder: str, step: str) -> None:
        self._folder, self._step = folder, step

    def process(self, element: Any) -> Iterator[Any]:
        size = len(pickle.dumps(element, pickle.HIGHEST_PROTOCOL))
        name = f"{os.getpid()}-{threading.get_ident()}"
        with open(os.path.join(self._folder, name), "a", encoding="utf-8") as file:
            file.write(f"{size}\t{self._step}\n")
        yield element


@contextlib.contextmanager
def measured(folder: Path) -> Iterator[dict[str, int]]:
    """Measures the crossing elements in the body.

    It yields step -> bytes of its largest element, which is complete when the body is done.
    """
    folder.mkdir()
    apply = beam.Pipeline.apply
    largest: dict[str, int] = {}

    def measure(pcollection: Any, step: str) -> Any:
        if not isinstance(pcollection, beam.PCollection):
            return pcollection
        number = len(os.listdir(folder)) + len(seen)
        seen.append(step)
        probed = apply(
            pcollection.pipeline,
            beam.ParDo(_Measure(str(folder), step)),
            pcollection,
            f"Measure{number}-{step}",
        )
        probed.element_type = pcollection.element_type
        return probed

    seen: list[str] = []

    def apply_measured(
        pipeline: beam.Pipeline, transform: PTransform, pvalueish: Any = None, label: Any = None
    ) -> Any:
        step = "/".join(
            [part.full_label for part in pipeline.transforms_stack[-1:]]
            + [str(label or transform.label)]
        ).lstrip("/")
        if isinstance(transform, ParDo) and transform.side_inputs:
            pvalueish = measure(pvalueish, step)
            transform.side_inputs = [
                _measured_side(side, step, measure) for side in transform.side_inputs
            ]
        elif type(transform) is GroupByKey or type(transform).__name__ in _BREAKS:
            pvalueish = (
                measure(pvalueish, step)
                if isinstance(pvalueish, beam.PCollection)
                else type(pvalueish)(measure(each, step) for each in pvalueish)
                if isinstance(pvalueish, tuple | list)
                else pvalueish
            )
        return apply(pipeline, transform, pvalueish, label)

    with mock.patch.object(beam.Pipeline, "apply", apply_measured):
        yield largest
    for path in folder.iterdir():
        for line in path.read_text(encoding="utf-8").splitlines():
            size, step = line.split("\t")
            largest[step] = max(largest.get(step, 0), int(size))


def _measured_side(side: Any, step: str, measure: Any) -> Any:
    side.pvalue = measure(side.pvalue, f"{step} (side input)")
    return side
