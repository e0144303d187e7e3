"""A loop over a shuffled pandas DataFrame.

This is the common way to shuffle or encode a table by hand. Encodings are vectorised, as pandas
offers them. The records are made row by row, because there is no other way. One process, one file.
"""

from __future__ import annotations

import time

import numpy as np
import options
import pandas as pd
import tensorflow as tf


def encoded(table: pd.DataFrame) -> pd.DataFrame:
    """Fills, takes logarithms, standardises; gives texts ids by frequency, others -1."""
    columns = {options.LABEL: table[options.LABEL]}
    for name in options.INTEGERS:
        values = np.log1p(table[name].fillna(0).to_numpy(np.float32))
        columns[name] = (values - values.mean()) / values.std()
    for name in options.TEXTS:
        most_frequent = table[name].value_counts().index[: options.VOCABULARY_SIZE]
        codes = pd.Index(most_frequent).get_indexer(table[name])
        columns[name] = pd.array(codes, dtype="Int64")
        columns[name][table[name].isna().to_numpy()] = pd.NA
    return pd.DataFrame(columns)


def feature_of(value: object) -> tf.train.Feature:
    """Makes a feature of one value."""
    if isinstance(value, str):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()]))
    if isinstance(value, float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def main() -> None:
    """Reads, shuffles, encodes if asked to, and writes."""
    arguments = options.parse(__doc__)
    start = time.perf_counter()
    if arguments.input.suffix == ".csv":
        table = pd.read_csv(arguments.input, dtype=dict.fromkeys(options.NUMBERS, "Int64"))
    else:
        table = pd.read_parquet(arguments.input, dtype_backend="numpy_nullable")
    table = table.sample(frac=1, random_state=7)
    if arguments.encodings:
        table = encoded(table)
    names = list(table.columns)
    compression = "GZIP" if arguments.compression == "gzip" else ""
    path = str(arguments.output / "table.tfrecord")
    with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions(compression_type=compression)) as writer:
        for row in zip(
            *(table[name].astype(object).where(table[name].notna(), None) for name in names),
            strict=True,
        ):
            feature = {
                name: feature_of(value)
                for name, value in zip(names, row, strict=True)
                if value is not None
            }
            writer.write(
                tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()
            )
    options.report(time.perf_counter() - start)


if __name__ == "__main__":
    main()
