"""Deletion vectors of a Delta table, read in their own process.

The package ``deltalake`` makes a flag for each row up to the last deleted one. A damaged vector
asks for petabytes: the package then ends its process.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import urllib.parse
from typing import Any

import numpy as np
import pyarrow as pa

from beam_pipelines.core.process import python_process

_SCHEMA = pa.schema([("path", pa.string()), ("deleted", pa.large_list(pa.int64()))])
# What the package takes: some times the flags, and what it reads at once.
_LEAST_BYTES, _BYTES_PER_ROW = 4 << 30, 32
# Runs this file without the rest of the package, which takes seconds to load.
_RUN = "import runpy; runpy.run_path(sys.argv[1], run_name='__main__')"


def read_vectors(path: str, version: int, rows: int | None) -> dict[str, Any]:
    """Returns path in the table -> numbers of deleted rows.

    They are ascending, from 0.

    Args:
      path: of the table.
      version: of it.
      rows: in its files, which bound the memory; ``None``: not known.

    Raises:
      ValueError: the vectors cannot be read.
    """
    memory = 0 if rows is None else _LEAST_BYTES + rows * _BYTES_PER_ROW
    with python_process.start(
        _RUN,
        [__file__, path, str(version), str(memory)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        stdout, stderr = process.communicate()
    if process.returncode < 0:
        raise ValueError(
            "the process that reads deletion vectors was ended by signal "
            f"{-process.returncode}: a vector is damaged, or memory ran out"
        )
    if process.returncode:
        raise ValueError(stderr.decode(errors="replace").strip().rpartition("\n")[2])
    return {
        batch["path"][0].as_py(): batch["deleted"].flatten().to_numpy(zero_copy_only=False)
        for batch in pa.ipc.open_stream(stdout)
    }


def main(path: str, version: int, memory: int) -> None:
    """Writes the vectors to standard output, as an Arrow stream.

    Args:
      path, version: of the table.
      memory: bytes that may be allocated; 0: any number.
    """
    from deltalake import DeltaTable

    table = DeltaTable(path, version=version)
    with contextlib.suppress(ImportError):  # Windows
        import resource

        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        bounds = [bound for bound in (memory, hard) if bound > 0]
        resource.setrlimit(resource.RLIMIT_DATA, (min(bounds, default=hard), hard))
    with pa.ipc.new_stream(sys.stdout.buffer, _SCHEMA) as writer:
        for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()):
            uris, masks = batch.column("filepath").to_pylist(), batch.column("selection_vector")
            for uri, is_kept in zip(uris, masks, strict=True):
                # The package names files by URLs.
                name = urllib.parse.unquote(uri.removeprefix(table.table_uri))
                deleted = np.flatnonzero(~is_kept.values.to_numpy(zero_copy_only=False))
                writer.write_batch(pa.record_batch([[name], [deleted]], schema=_SCHEMA))


if __name__ == "__main__":
    main(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
