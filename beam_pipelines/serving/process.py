"""Builds the serving graph in a separate process.

TensorFlow takes seconds and 600 MB to load.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import subprocess
import tempfile

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.layout.dataset_layout import SAVED_MODEL
from beam_pipelines.core.process import python_process
from beam_pipelines.files.beam import files, listing
from beam_pipelines.serving.write import MARK, GraphJob

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


def build_in_subprocess(job: GraphJob, folder: str) -> list[str]:
    """Builds the serving graph in a separate process.

    The folder may be local or not. Where the graph is not complete, it has no ``saved_model.pb``.

    Returns:
      The paths of its files, relative to the folder.

    Raises:
      DataError: the graph could not be built.
    """
    with contextlib.ExitStack() as stack:
        # A process that outlives a run by a moment writes nothing to the folder.
        local = stack.enter_context(tempfile.TemporaryDirectory(prefix="beam-pipelines-"))
        job = job._replace(preprocessing=_local_copy(job.preprocessing, stack))
        process = python_process.start(
            _CODE,
            [local, str(os.getpid())],
            _ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        try:
            # The job goes through a pipe to our own process, so this pickle is no file.
            _, stderr = process.communicate(pickle.dumps(job))
        except BaseException:
            process.kill()
            raise
        if process.returncode:
            raise DataError(_complaint(process.returncode, stderr.decode(errors="replace")))
        names = sorted(_files_in(local), key=SAVED_MODEL.endswith)
        for name in names:
            with (
                open(os.path.join(local, *name.split("/")), "rb") as source,
                files.replace(files.within(folder, name)) as target,
            ):
                shutil.copyfileobj(source, target)
        return names


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
    for listed in listing.files_below(folder):
        path = os.path.join(local, *listed.path.removeprefix(folder).strip("/").split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(files.read_bytes(listed.path))
    return local


def _files_in(folder: str) -> list[str]:
    """Returns the sorted paths of a local folder's files, relative to it."""
    return sorted(
        os.path.relpath(os.path.join(parent, name), folder).replace(os.sep, "/")
        for parent, _, names in os.walk(folder)
        for name in names
    )
