"""The encodings of ``bench_encode.py`` with tf.Transform, as in its guide.

It reads CSV and writes gzip TFRecords and a transform_fn. It runs on Beam's local runner in one
process, which is tf.Transform's quickest way for so few rows. Prints the seconds without imports as
a line of JSON.

  python benchmarks/tft_pipeline.py --input .bench/clicks-20000.csv --output .bench/tft
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shutil
import tempfile
import time

import apache_beam as beam
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from tensorflow_transform.tf_metadata import schema_utils
from tfx_bsl.coders.example_coder import RecordBatchToExamplesEncoder
from tfx_bsl.public import tfxio

import criteo_like

NUMBERS = [f"I{number}" for number in range(1, criteo_like.INTEGERS + 1)]
TEXTS = [f"C{number}" for number in range(1, criteo_like.CATEGORICALS + 1)]


def preprocessing_fn(inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Fills, takes logarithms and standardises numbers; gives texts ids."""
    outputs = {"label": inputs["label"]}
    for name in NUMBERS:
        sparse = inputs[name]
        dense = tf.sparse.to_dense(
            tf.SparseTensor(sparse.indices, sparse.values, [sparse.dense_shape[0], 1])
        )
        outputs[name] = tft.scale_to_z_score(
            tf.math.log1p(tf.cast(tf.reshape(dense, [-1]), tf.float32))
        )
    for name in TEXTS:
        outputs[name] = tft.compute_and_apply_vocabulary(
            inputs[name], top_k=10_000, vocab_filename=name
        )
    return outputs


def run(source: str, output: pathlib.Path) -> None:
    """Analyses, transforms and writes."""
    spec: dict[str, tf.io.VarLenFeature | tf.io.FixedLenFeature] = {
        "label": tf.io.FixedLenFeature([], tf.int64)
    }
    spec |= {name: tf.io.VarLenFeature(tf.int64) for name in NUMBERS}
    spec |= {name: tf.io.VarLenFeature(tf.string) for name in TEXTS}
    schema = schema_utils.schema_from_feature_spec(spec)
    names = ["label", *NUMBERS, *TEXTS]
    csv = tfxio.CsvTFXIO(
        source,
        column_names=names,
        schema=schema,
        skip_header_lines=1,
        telemetry_descriptors=["bench"],
    )
    with (
        beam.Pipeline(runner="FnApiRunner") as pipeline,
        tft_beam.Context(temp_dir=tempfile.mkdtemp(dir=output)),
    ):
        rows = pipeline | "Read" >> csv.BeamSource()
        (transformed, _), transform_fn = (
            rows,
            csv.TensorAdapterConfig(),
        ) | tft_beam.AnalyzeAndTransformDataset(preprocessing_fn, output_record_batches=True)
        coder = RecordBatchToExamplesEncoder()
        _ = (
            transformed
            | "Encode" >> beam.FlatMapTuple(lambda batch, _: coder.encode(batch))
            | "Write" >> beam.io.WriteToTFRecord(str(output / "examples"), file_name_suffix=".gz")
        )
        _ = transform_fn | "WriteTransformFn" >> tft_beam.WriteTransformFn(str(output / "graph"))


def main() -> None:
    """Runs once and prints how long it took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    shutil.rmtree(arguments.output, ignore_errors=True)
    arguments.output.mkdir(parents=True)
    start = time.perf_counter()
    run(arguments.input, arguments.output)
    print(json.dumps({"seconds": time.perf_counter() - start}))


if __name__ == "__main__":
    main()
