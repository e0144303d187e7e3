"""ORC files, read stripe by stripe."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import exceeds_ratio, ratio_exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.archives.whole import open_whole
from beam_pipelines.sources.batch_files import BatchFiles, Opened


class Orc(BatchFiles):
    """Apache ORC; one range a file.

    pyarrow does not say where stripes are.
    """

    title = "ORC"
    suffixes = (".orc",)
    is_compressed = True

    @contextlib.contextmanager
    def opened(self, source: Source, path: str) -> Iterator[Opened]:
        """Opens a file; see ``BatchFiles``."""
        from pyarrow import orc  # takes 20 ms

        with open_whole(path) as file:
            try:
                reader = orc.ORCFile(file)
                yield Opened(file, reader.schema, _stripes(source, path, reader))
            except (pa.ArrowException, OSError) as error:
                raise DataError(
                    f"{path}: found damaged ORC data, expected a whole file: {error}. Get the file "
                    "again, or set 'format'."
                ) from error


def _stripes(source: Source, path: str, reader: pa.orc.ORCFile) -> Iterator[pa.RecordBatch]:
    """Yields the stripes; their decoded size is checked."""
    decoded, size = 0, reader.content_length
    for number in range(reader.nstripes):
        stripe = reader.read_stripe(number)
        decoded += stripe.nbytes
        if exceeds_ratio(source.limits, size, decoded):
            raise DataError(
                f"{path}, stripe {number}: {ratio_exceeded(source.limits, size, decoded)}"
            )
        yield stripe
