"""Asks the workers of an engine what they are, by a job of one step, before a job that takes hours
is sent to them.

What a worker pool, a start command or an image holds, its address does not tell. A worker with
another Python or Beam reads our steps wrongly or not at all, and one without this package fails at
the first of them, in words of its own.
"""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Iterator

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.core.version import __version__
from beam_pipelines.runners.options import find_workers, is_engine
from beam_pipelines.runners.run import run

_NOT_THERE = re.compile(r"No module named '(beam_pipelines|apache_beam)")
_NO_ANSWER = "for SettableFuture"


class CompareVersions(beam.DoFn):
    """Compares what a worker has with what we have. A class of a module, as only its name travels:
    code of another Python would not run.

    Attributes:
      expected: what it is -> version.
    """

    def __init__(self, expected: dict[str, str]) -> None:
        self.expected = expected

    def process(self, _: bytes) -> Iterator[None]:
        found = versions()
        wrong = [
            f"{what} {found[what]}, expected {ours}"
            for what, ours in self.expected.items()
            if found[what] != ours
        ]
        if wrong:
            raise DataError(
                f"the workers have {'; '.join(wrong)}, as here. Give them what submits the job."
            )
        yield


def versions() -> dict[str, str]:
    """Returns the versions of what pickled steps depend on, in this process: what it is ->
    version.
    """
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return {"Python": python, "apache-beam": beam.__version__, "beam-pipelines": __version__}


def check_workers(options: PipelineOptions) -> None:
    """Runs a job of one step on workers that an engine starts; threads of this process and
    Dataflow's workers are not asked.

    Args:
      options: for Beam; they stay as they are.

    Raises:
      RecipeError: the workers have other versions than we, or lack what they need.
    """
    if not is_engine(options) or find_workers(options).kind == "LOOPBACK":
        return
    options = copy.deepcopy(options)
    options.view_as(StandardOptions).no_wait_until_finish = None
    try:
        run(
            lambda pipeline: pipeline | beam.Impulse() | beam.ParDo(CompareVersions(versions())),
            options,
        )
    except DataError as error:
        raise RecipeError(str(error)) from error
    except Exception as error:
        if lacks := _NOT_THERE.search(str(error)):
            package = lacks[1].replace("_", "-")
            raise RecipeError(
                f"the workers have no {package}, expected {package} {versions()[package]}. Install "
                "it where they start: "
                "docs/runners.md says how."
            ) from error
        # Flink does not pass on what a worker says that cannot load a step, and waits three minutes
        # for it.
        if _NO_ANSWER in str(error):
            raise RecipeError(
                f"the workers gave no answer ({error}), expected some with {_listed(versions())}. "
                "Their own log says why; install what "
                "they lack where they start: docs/runners.md says how."
            ) from error
        raise


def _listed(found: dict[str, str]) -> str:
    return ", ".join(f"{what} {version}" for what, version in found.items())
