"""Reads a file of statistics, a DatasetFeatureStatisticsList proto."""

from __future__ import annotations

from google.protobuf.message import DecodeError
from tensorflow_metadata.proto.v0 import statistics_pb2

from beam_pipelines.core.errors import DataError

# TFDV's name for the rows that are not a slice.
_ALL_EXAMPLES = "All Examples"


def parse_statistics(content: bytes, path: str) -> statistics_pb2.DatasetFeatureStatistics:
    """Returns the statistics of all rows.

    Args:
      content: of the file.
      path: for messages.

    Raises:
      DataError: the file has something else, or nothing.
    """
    try:
        found = statistics_pb2.DatasetFeatureStatisticsList.FromString(content)
    except DecodeError as error:
        raise DataError(
            f"{path}: found something that is no DatasetFeatureStatisticsList, expected statistics "
            "as TFDV writes them. Make them again with 'describe'."
        ) from error
    datasets = [
        dataset for dataset in found.datasets if dataset.name in ("", _ALL_EXAMPLES)
    ] or list(found.datasets)
    if not datasets:
        raise DataError(
            f"{path}: found no statistics in the file, expected those of '{_ALL_EXAMPLES}'."
        )
    return datasets[0]
