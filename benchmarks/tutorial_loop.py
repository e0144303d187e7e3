"""The loop of tutorials: csv.DictReader → tf.train.Example → TFRecordWriter.

It converts the table of ``criteo_like.py`` with GZIP: no schema, no statistics, no shuffle, one
file, one process. It is not slowed down on purpose: it makes a feature once for each value that is
not missing, and nothing else.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import time


def main() -> None:
    """Converts some rows and prints, as JSON, their number and the seconds.

    Imports do not count.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--input", required=True, help="CSV file of criteo_like.py")
    parser.add_argument("--output", required=True, help="TFRecord file to write")
    parser.add_argument("--rows", type=int, default=100_000, help="rows to convert")
    parser.add_argument(
        "--compression", choices=("gzip", "none"), default="gzip", help="of the file"
    )
    arguments = parser.parse_args()

    import tensorflow as tf

    def int_feature(text: str) -> tf.train.Feature:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(text)]))

    def text_feature(text: str) -> tf.train.Feature:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))

    compression = "GZIP" if arguments.compression == "gzip" else ""
    start = time.perf_counter()
    rows = 0
    with (
        open(arguments.input, newline="") as file,
        tf.io.TFRecordWriter(
            arguments.output, tf.io.TFRecordOptions(compression_type=compression)
        ) as writer,
    ):
        for row in itertools.islice(csv.DictReader(file), arguments.rows):
            feature = {
                name: text_feature(text) if name.startswith("C") else int_feature(text)
                for name, text in row.items()
                if text
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())
            rows += 1
    seconds = time.perf_counter() - start
    print(
        json.dumps(
            {"rows": rows, "seconds": round(seconds, 3), "rows_per_second": round(rows / seconds)}
        )
    )


if __name__ == "__main__":
    main()
