"""Compares the versions of an engine's workers with ours.

This takes a job of one step. The address of a worker pool, a start command or an image does not
tell its versions. A worker with another Python or Beam unpickles our steps wrongly or not at all;
one without this package fails at the first step, with an error that does not say so. This job takes
seconds; the real one may take hours before it fails.
"""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Iterator

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    PipelineOptions,
    StandardOptions,
)

from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.core.version import __version__
from beam_pipelines.runners.options import find_workers, is_engine
from beam_pipelines.runners.run import run

_NOT_THERE = re.compile(r"No module named '(beam_pipelines|apache_beam)")
_NO_ANSWER = re.compile("for SettableFuture|get control connection")  # of Flink, of Prism


class CompareVersions(beam.DoFn):
    """Compares a worker's versions with expected ones.

    A class of a module, which is pickled by name: code of another Python would not run.

    Attributes:
      expected: name -> version.
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
    """Returns the versions in this process that pickled steps depend on.

    The result maps names to versions.
    """
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return {"Python": python, "apache-beam": beam.__version__, "beam-pipelines": __version__}


def check_workers(options: PipelineOptions) -> None:
    """Compares the versions of workers that an engine starts.

    Threads of this process and Dataflow's workers are not compared.

    Args:
      options: for Beam; not changed.

    Raises:
      RecipeError: the workers have other versions than we, or lack a package.
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
        # If a worker cannot load a step, Flink waits three minutes, Prism one; neither shows why.
        if _NO_ANSWER.search(str(error)):
            raise RecipeError(
                f"the workers gave no answer ({error}), expected some with {_listed(versions())}. "
                "Their own log says why; install what "
                "they lack where they start: docs/runners.md says how."
            ) from error
        raise RecipeError(
            f"the engine failed over a job of one step: {str(error).splitlines()[0]} Expected a "
            "cluster of the version that its job server was made for: docs/runners.md lists them."
        ) from error


def _listed(found: dict[str, str]) -> str:
    return ", ".join(f"{what} {version}" for what, version in found.items())
