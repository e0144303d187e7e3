"""Compares the versions of an engine's workers with ours.

This takes a job of one step. The address of a worker pool, a start command or an image does not
tell its versions. A worker with another Python or Beam unpickles our steps wrongly or not at all;
one without this package fails at the first step, with an error that does not say so. This job takes
seconds; the real one may take hours before it fails.
"""

from __future__ import annotations

import contextlib
import copy
import json
import os
import re
import sys
import threading
import urllib.request
import zipfile
from collections.abc import Iterator

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    PipelineOptions,
    PortableOptions,
    StandardOptions,
)

from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.core.version import __version__
from beam_pipelines.runners.options import find_workers, is_engine, is_inside, runner_of
from beam_pipelines.runners.run import run

_NOT_THERE = re.compile(r"No module named '(beam_pipelines|apache_beam)")
_NO_ANSWER = re.compile("for SettableFuture|get control connection")  # of Flink, of Prism
_FLINK = re.compile(r"flink-(\d+\.\d+)")
_ASK_SECS = 10
# Flink gives up after so long. A Spark of another minor version never answers, and a busy one late.
WAIT_SECS = 180
WAITING = (
    "warning: the engine has not answered a job of one step for three minutes. If it has free "
    "workers, its version may not be that of its job server: docs/runners.md lists them.\n"
)


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


def check_cluster(options: PipelineOptions) -> None:
    """Compares the versions of a Flink cluster and its job server.

    Flink takes jobs of its own minor version only, and its error does not say so.

    Args:
      options: for Beam.

    Raises:
      RecipeError: they differ. Without an answer, or with a job server that runs already, they are
        not compared.
    """
    flink = options.view_as(FlinkRunnerOptions)
    has_server = options.view_as(PortableOptions).job_endpoint
    if runner_of(options) != "flink" or is_inside(options) or has_server:
        return
    address = flink.flink_master
    url = address if address.startswith(("http://", "https://")) else f"http://{address}"
    with contextlib.suppress(OSError, ValueError, KeyError):
        with urllib.request.urlopen(f"{url}/overview", timeout=_ASK_SECS) as answer:  # noqa: S310 - http
            found = str(json.load(answer)["flink-version"])
        ours = _flink_of(flink.flink_job_server_jar or "") or flink.flink_version
        if found.split(".")[:2] != ours.split("."):
            raise RecipeError(
                f"--flink_master: found Flink {found}, expected {ours}, for which the job server "
                "was made. Take a job server of the cluster's version: --flink_job_server_jar."
            )


def _flink_of(jar: str) -> str | None:
    """Returns the minor version of Flink in a jar's name or manifest."""
    names = os.path.basename(jar)
    with contextlib.suppress(OSError, KeyError, zipfile.BadZipFile), zipfile.ZipFile(jar) as opened:
        names += opened.read("META-INF/MANIFEST.MF").replace(b"\r\n ", b"").decode()
    found = _FLINK.search(names)
    return found and found[1]


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
    waiting = threading.Timer(WAIT_SECS, sys.stderr.write, [WAITING])
    waiting.start()
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
                "it where they start: docs/runners.md says how."
            ) from error
        # If a worker cannot load a step, Flink waits three minutes, Prism one; neither shows why.
        if _NO_ANSWER.search(str(error)):
            expected = ", ".join(map(" ".join, versions().items()))
            raise RecipeError(
                f"the workers gave no answer ({error}), expected some with {expected}. "
                "Their own log says why; install what "
                "they lack where they start: docs/runners.md says how."
            ) from error
        raise RecipeError(
            f"the engine failed over a job of one step: {str(error).splitlines()[0]} Expected a "
            "cluster of the version that its job server was made for: docs/runners.md lists them."
        ) from error
    finally:
        waiting.cancel()
