"""Counts tf.Examples in TFRecord files with TensorFlow and tfx-bsl.

Neither reader belongs to a contender. Prints as JSON the ``rows``, the names of the ``columns`` and
the number of ``values`` (not null, over all columns).

  python benchmarks/count_records.py .bench/compare/ours --pattern 'examples/**/*.tfrecord*'
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
from collections.abc import Iterable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pyarrow.compute as pc
import tensorflow as tf
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

GZIP_MAGIC = b"\x1f\x8b"
BATCH_ROWS = 4096


def count(paths: Iterable[pathlib.Path]) -> dict[str, Any]:
    """Counts over all files; TensorFlow raises an error for a damaged one."""
    decoder = ExamplesToRecordBatchDecoder()
    rows, values, columns = 0, 0, set()
    for path in paths:
        with path.open("rb") as file:
            compression = "GZIP" if file.read(2) == GZIP_MAGIC else ""
        for examples in (
            tf.data.TFRecordDataset(str(path), compression).batch(BATCH_ROWS).as_numpy_iterator()
        ):
            batch = decoder.DecodeBatch(list(examples))
            rows += batch.num_rows
            columns.update(batch.schema.names)
            values += sum(
                pc.sum(pc.list_value_length(column)).as_py() or 0
                for column in batch.columns
                if is_list(column)
            )
    return {"rows": rows, "columns": sorted(columns), "values": values}


def is_list(column: object) -> bool:
    """Whether a column has values.

    A column whose features are all empty has no type but null.
    """
    return not pc.all(pc.is_null(column)).as_py()


def main() -> None:
    """Counts and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--pattern", default="**/*", help="of the record files in the folder")
    arguments = parser.parse_args()
    found = (path for path in arguments.folder.glob(arguments.pattern) if path.is_file())
    # Hadoop and TFDS put files without records next to those with records.
    aside = (".json", ".crc", ".txt", ".pbtxt")
    print(
        json.dumps(
            count(
                sorted(
                    path for path in found if path.suffix not in aside and path.name[0] not in "._"
                )
            )
        )
    )


if __name__ == "__main__":
    main()
