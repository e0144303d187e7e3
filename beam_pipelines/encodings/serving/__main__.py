"""The process that builds the serving graph: a pickled ``GraphJob`` on its standard input, the
folder and who started it as arguments.
"""

from __future__ import annotations

import gc
import logging
import os
import pickle
import sys
import threading
import time

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.encodings.serving.job import MARK, GraphJob
from beam_pipelines.encodings.serving.write import write_transform_graph

_POLL_SECS = 0.1


def main() -> int:
    """Builds the graph; returns 0, or 1 after a line that says why not."""
    threading.Thread(target=_end_with, args=(int(sys.argv[2]),), daemon=True).start()
    logging.disable(logging.ERROR)
    # What is made here lives until the process ends, soon: a fifth of its time would go to looking
    # for garbage.
    gc.disable()
    load_tensorflow()
    job: GraphJob = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this one
    try:
        raw, encoded = (
            schema_pb2.Schema.FromString(data) for data in (job.raw_schema, job.encoded_schema)
        )
        # Names of tables are made of paths: from here they are the same for every dataset.
        os.makedirs(sys.argv[1], exist_ok=True)
        os.chdir(sys.argv[1])
        write_transform_graph(job.plan, raw, encoded, os.curdir, job.label, job.preprocessing)
    except Exception as error:  # noqa: BLE001 - whatever it is, it has to be said in one line
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        sys.stderr.write(f"\n{MARK}{reason}\n")
        return 1
    return 0


def _end_with(parent: int) -> None:
    """Ends this process when the one that started it is gone, so that it never writes into the
    folder of a later run.
    """
    while os.getppid() == parent:
        time.sleep(_POLL_SECS)
    os._exit(1)


def load_tensorflow() -> None:
    """Imports TensorFlow, which takes seconds, in which the job is still being learned; without
    Keras, which is a third of it.

    TensorFlow imports Keras last, if it is there, to register what models are saved with. Whoever
    asks for it later gets it.
    """
    sys.modules["keras"] = None  # type: ignore[assignment]
    try:
        import tensorflow  # noqa: F401
        from tfx_bsl.tfxio import tensor_representation_util  # noqa: F401
    finally:
        del sys.modules["keras"]


if __name__ == "__main__":
    sys.exit(main())
