"""TFDV: statistics of a CSV file, and an inferred schema.

It follows TFDV's guide and writes no records.
"""

from __future__ import annotations

import time

import options
import tensorflow_data_validation as tfdv
from apache_beam.options.pipeline_options import PipelineOptions


def main() -> None:
    """Computes statistics, infers a schema, writes both."""
    arguments = options.parse(__doc__)
    mode = "multi_processing" if arguments.cores > 1 else "in_memory"
    # Named, because DirectRunner would first try to download another runner.
    beam_arguments = [
        "--runner=FnApiRunner",
        f"--direct_running_mode={mode}",
        f"--direct_num_workers={arguments.cores}",
    ]
    start = time.perf_counter()
    statistics = tfdv.generate_statistics_from_csv(
        str(arguments.input),
        output_path=str(arguments.output / "statistics.tfrecord"),
        pipeline_options=PipelineOptions(beam_arguments),
    )
    tfdv.write_schema_text(tfdv.infer_schema(statistics), str(arguments.output / "schema.pbtxt"))
    rows = statistics.datasets[0].num_examples
    seconds = time.perf_counter() - start
    options.report(seconds, rows=rows)


if __name__ == "__main__":
    main()
