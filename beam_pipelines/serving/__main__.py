"""The process that builds the serving graph.

Reads a pickled ``GraphJob`` from standard input; its arguments are the output folder and the id of
the parent process.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import sys
import threading
import time

from beam_pipelines.serving.write import MARK, GraphJob, write_transform_graph

_POLL_SECS = 0.1


def main() -> int:
    """Builds the graph and returns the exit status.

    The status is 0, or 1 after a line with the reason.
    """
    threading.Thread(target=_end_with, args=(int(sys.argv[2]),), daemon=True).start()
    logging.disable(logging.ERROR)
    # Nearly all objects live until the process ends; collecting garbage took a fifth of its time.
    gc.disable()
    load_tensorflow()
    try:
        # Unpickling imports the modules of registered encodings; ``sys.path`` is the parent's.
        job: GraphJob = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the parent process
        # Table names contain paths; relative paths are the same for every dataset.
        os.makedirs(sys.argv[1], exist_ok=True)
        os.chdir(sys.argv[1])
        plan, raw, encoded, *others = job
        write_transform_graph(plan, raw, encoded, os.curdir, *others)
    except Exception as error:  # noqa: BLE001 - every error is reported in one line
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        sys.stderr.write(f"\n{MARK}{reason}\n")
        return 1
    return 0


def _end_with(parent: int) -> None:
    """Ends this process with its parent.

    So it never writes into a later run's folder.
    """
    while os.getppid() == parent:
        time.sleep(_POLL_SECS)
    os._exit(1)


def load_tensorflow() -> None:
    """Imports TensorFlow, which takes seconds, without Keras, a third of the time.

    TensorFlow imports Keras last, if installed, to register its model savers; a later import still
    works.
    """
    sys.modules["keras"] = None  # type: ignore[assignment]
    try:
        import tensorflow  # noqa: F401
        from tfx_bsl.tfxio import tensor_representation_util  # noqa: F401
    finally:
        del sys.modules["keras"]
