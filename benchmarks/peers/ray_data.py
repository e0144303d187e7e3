"""Ray Data: its readers, shuffle, preprocessors and ``write_tfrecords``.

The readers are ``read_csv`` and ``read_parquet``, the shuffle is ``random_shuffle``. Types are
given, because Ray's guess depends on the block: a block whose texts all look like numbers would get
another type than the rest. ``write_tfrecords`` writes an integer column without nulls and floats;
nulls go through pyarrow as they are. The clock starts after the start of the machine's cluster.
"""

from __future__ import annotations

import time

import numpy as np
import options
import pyarrow as pa
import pyarrow.csv as pa_csv
import ray
from ray.data.preprocessors import Chain, OrdinalEncoder, SimpleImputer, StandardScaler


def logarithms(batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Takes log1p of the numbers."""
    return {
        name: np.log1p(values) if name in options.INTEGERS else values
        for name, values in batch.items()
    }


def encoded(table: ray.data.Dataset) -> ray.data.Dataset:
    """Fills, takes logarithms, standardises; gives texts ids of a vocabulary.

    The vocabulary is unlimited, because Ray has no other.
    """
    filled = SimpleImputer(options.INTEGERS, strategy="constant", fill_value=0).fit_transform(table)
    chain = Chain(
        StandardScaler(options.INTEGERS),
        SimpleImputer(options.TEXTS, strategy="constant", fill_value=""),
        OrdinalEncoder(options.TEXTS),
    )
    return chain.fit_transform(filled.map_batches(logarithms, batch_format="numpy"))


def main() -> None:
    """Reads, shuffles, encodes if asked to, and writes."""
    arguments = options.parse(__doc__)
    ray.init(num_cpus=arguments.cores, include_dashboard=False, log_to_driver=False)
    start = time.perf_counter()
    if arguments.input.suffix == ".csv":
        types = {
            name: pa.int64() if name in options.NUMBERS else pa.string() for name in options.COLUMNS
        }
        convert = pa_csv.ConvertOptions(column_types=types, strings_can_be_null=True)
        table = ray.data.read_csv(str(arguments.input), convert_options=convert)
    else:
        table = ray.data.read_parquet(str(arguments.input))
    table = table.random_shuffle(seed=7)
    if arguments.encodings:
        table = encoded(table)
    compression = "gzip" if arguments.compression == "gzip" else None
    table.write_tfrecords(
        str(arguments.output), arrow_open_stream_args={"compression": compression}
    )
    options.report(time.perf_counter() - start)


if __name__ == "__main__":
    main()
