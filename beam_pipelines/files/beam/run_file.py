"""A file of a run, with the digest of its content."""

from __future__ import annotations

import hashlib
import pickle
from typing import Any, NamedTuple

from beam_pipelines.core.errors import DataError
from beam_pipelines.files.beam import files


class RunFile(NamedTuple):
    """The address of a file, as it travels in the job.

    Others who can write to the run's folder cannot exchange the content. So what the job has
    pickled may be unpickled.

    Attributes:
      path: of the file.
      digest: SHA-256 of its content, in hex.
    """

    path: str
    digest: str

    @classmethod
    def write(cls, path: str, data: bytes) -> RunFile:
        """Writes a file, and returns its address."""
        files.write_bytes(path, data)
        return cls(path, hashlib.sha256(data).hexdigest())

    @classmethod
    def keep(cls, value: Any, path: str) -> RunFile:
        """Writes a value to a file, and returns its address."""
        return cls.write(path, pickle.dumps(value, pickle.HIGHEST_PROTOCOL))

    def load(self) -> Any:
        """Returns what ``keep`` was given; raises as ``read``."""
        return pickle.loads(self.read())  # noqa: S301 - as the job has written it

    def read(self) -> bytes:
        """Returns the content.

        Raises:
          DataError: it is not what was written.
        """
        data = files.read_bytes(self.path)
        if hashlib.sha256(data).hexdigest() != self.digest:
            raise DataError(
                f"{self.path}: found other content than this run has written. Stop others from "
                "writing to this folder, and run again."
            )
        return data
