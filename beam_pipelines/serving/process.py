"""Builds the serving graph in a separate process.

TensorFlow takes seconds and 600 MB to load.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import tempfile

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.process import python_process
from beam_pipelines.serving.job import MARK, GraphJob
from beam_pipelines.storage import files

_CODE = "from beam_pipelines.serving.__main__ import main; sys.exit(main())"
# CPU only, no start-up messages, and one thread per operation, so that sums have one order.
_ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "PYTHONHASHSEED": "0",
}


class GraphBuilder:
    """A process that builds one serving graph on request.

    It loads TensorFlow at once.

    Attributes:
      folder: ``transform_graph`` of a dataset, local or not.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._temporary = None if files.is_local(folder) else tempfile.TemporaryDirectory()
        self._local = folder if self._temporary is None else self._temporary.name
        self._process = python_process.start(
            _CODE,
            [self._local, str(os.getpid())],
            _ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def __enter__(self) -> GraphBuilder:  # noqa: PYI034 - Python 3.10 has no Self
        return self

    def __exit__(self, *_: object) -> None:
        """Kills the process."""
        self.stop()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stderr):
            if pipe is not None:
                pipe.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def stop(self) -> None:
        """Kills the process, so that ``build`` in another thread returns."""
        self._process.kill()

    def build(self, job: GraphJob) -> None:
        """Builds a graph into the folder; call it once.

        Raises:
          DataError: the graph could not be built.
        """
        with contextlib.ExitStack() as stack:
            job = job._replace(preprocessing=_local_copy(job.preprocessing, stack))
            # The job goes through a pipe to our own process; no pickle is ever a file.
            _, stderr = self._process.communicate(pickle.dumps(job))
        if self._process.returncode:
            raise DataError(_complaint(self._process.returncode, stderr.decode(errors="replace")))
        if self._local != self.folder:
            _upload(self._local, self.folder)


def build_in_subprocess(job: GraphJob, folder: str) -> None:
    """Writes the serving graph into a folder, from a separate process.

    The process then ends.

    Raises:
      DataError: the graph could not be built.
    """
    with GraphBuilder(folder) as builder:
        builder.build(job)


def _complaint(status: int, stderr: str) -> str:
    """Returns the message of the process, or its last line of output."""
    if status < 0:
        return (
            "the serving graph could not be built: the process that does was ended by signal "
            f"{-status}. Nothing was written. "
            "Systems end processes when memory runs out: free memory, and run again."
        )
    lines = [line for line in stderr.splitlines() if line.strip()]
    said = [line.removeprefix(MARK) for line in lines if line.startswith(MARK)]
    reason = (
        said[-1]
        if said
        else f"the process ended with status {status}: {' '.join(lines[-1:]) or 'it said nothing'}"
    )
    return (
        f"the serving graph could not be built: {reason}. Nothing was written. Please "
        "report it, with the recipe."
    )


def _local_copy(folder: str | None, stack: contextlib.ExitStack) -> str | None:
    """Returns the absolute path of a folder's local copy.

    The stack removes the copy.
    """
    if folder is None or files.is_local(folder):
        return folder and os.path.abspath(folder)
    local = stack.enter_context(tempfile.TemporaryDirectory())
    for listed in files.list_files(files.join(folder, "**")):
        path = os.path.join(local, *listed.path.removeprefix(folder).strip("/").split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(files.read_bytes(listed.path))
    return local


def _upload(local: str, folder: str) -> None:
    for parent, _, names in os.walk(local):
        for name in names:
            path = os.path.join(parent, name)
            parts = os.path.relpath(path, local).split(os.sep)
            with open(path, "rb") as file:
                files.write_bytes(files.join(folder, *parts), file.read())
