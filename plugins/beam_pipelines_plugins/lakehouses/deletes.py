"""Deleted rows of a table that are still in its files.

Their numbers are kept as an Arrow file with one batch for each data file, so that a worker reads
those of its own file only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import google_crc32c
import numpy as np
import pyarrow as pa

from beam_pipelines.storage import files
from beam_pipelines_plugins.lakehouses.snapshots import NOTHING, Positions

_SCHEMA = pa.schema([("position", pa.int64())])


@dataclasses.dataclass(frozen=True)
class Deletes:
    """The deleted rows of all files of a table.

    Attributes:
      data: the Arrow file; empty: there are none, or they are stored.
      path: of the stored file, or empty.
    """

    data: bytes = b""
    path: str = ""

    def of_file(self, number: int | None) -> Positions:
        """Returns the deleted rows of one file, from 0, ascending.

        Args:
          number: of its batch; ``None``: it has none.
        """
        if number is None:
            return NOTHING
        if not self.path:
            return _batch(pa.BufferReader(self.data), number)
        with files.open_read(self.path) as file, files.reading(self.path):
            return _batch(file, number)

    def stored(self, folder: str) -> Deletes:
        """Returns them in a file of a folder, which workers see."""
        if not self.data:
            return self
        name = f"deletes-{google_crc32c.value(self.data):08x}-{len(self.data)}.arrow"
        path = files.join(folder, name)
        files.write_bytes(path, self.data)
        return Deletes(path=path)


def keep_deletes(deleted: Iterable[Positions]) -> Deletes:
    """Returns deleted rows, one batch for each item."""
    sink = pa.BufferOutputStream()
    batches = 0
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, _SCHEMA, options=options) as writer:
        for positions in deleted:
            writer.write_batch(pa.record_batch([pa.array(positions, pa.int64())], schema=_SCHEMA))
            batches += 1
    return Deletes(sink.getvalue().to_pybytes()) if batches else Deletes()


def _batch(file: object, number: int) -> Positions:
    batch = pa.ipc.open_file(file).get_batch(number)
    return np.array(batch.column(0).to_numpy(zero_copy_only=False), np.int64)
