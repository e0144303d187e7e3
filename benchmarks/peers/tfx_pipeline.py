"""TFX: CsvExampleGen, and optionally StatisticsGen, SchemaGen and Transform.

Its tutorials wire them in this way; it uses LocalDagRunner and metadata in SQLite. Parquet goes
through its own Parquet executor. It writes one split instead of two, like the other contenders. The
records are moved to ``records`` at the end, after the clock has stopped.
"""

from __future__ import annotations

import os
import pathlib
import sys
import time

import options
from tfx import v1 as tfx
from tfx.components.example_gen.component import FileBasedExampleGen
from tfx.components.example_gen.custom_executors import parquet_executor
from tfx.dsl.components.base import executor_spec

BENCHMARKS = pathlib.Path(__file__).resolve().parent.parent


def components(
    folder: pathlib.Path, suffix: str, statistics: bool, encodings: bool
) -> list[tfx.types.BaseComponent]:
    """Returns the pipeline's components.

    A transform needs the schema, and so the statistics.
    """
    split = tfx.proto.SplitConfig(
        splits=[tfx.proto.SplitConfig.Split(name="train", hash_buckets=1)]
    )
    output = tfx.proto.Output(split_config=split)
    if suffix == ".csv":
        examples = tfx.components.CsvExampleGen(input_base=str(folder), output_config=output)
    else:
        spec = executor_spec.BeamExecutorSpec(parquet_executor.Executor)
        examples = FileBasedExampleGen(
            input_base=str(folder), output_config=output, custom_executor_spec=spec
        )
    made = [examples]
    if statistics or encodings:
        made.append(tfx.components.StatisticsGen(examples=examples.outputs["examples"]))
        made.append(tfx.components.SchemaGen(statistics=made[-1].outputs["statistics"]))
    if encodings:
        made.append(
            tfx.components.Transform(
                examples=examples.outputs["examples"],
                schema=made[-1].outputs["schema"],
                preprocessing_fn="tft_pipeline.preprocessing_fn",
                splits_config=tfx.proto.SplitsConfig(analyze=["train"], transform=["train"]),
            )
        )
    return made


def main() -> None:
    """Runs the pipeline on a folder that holds nothing but the table."""
    arguments = options.parse(__doc__)
    sys.path.append(str(BENCHMARKS))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(BENCHMARKS), os.environ.get("PYTHONPATH", "")])
    folder, root = arguments.output / "table", arguments.output / "pipeline"
    folder.mkdir()
    os.link(arguments.input, folder / arguments.input.name)
    mode = "multi_processing" if arguments.cores > 1 else "in_memory"
    # Named, because DirectRunner would first try to download another runner.
    beam_arguments = [
        "--runner=FnApiRunner",
        f"--direct_running_mode={mode}",
        f"--direct_num_workers={arguments.cores}",
    ]
    start = time.perf_counter()
    tfx.orchestration.LocalDagRunner().run(
        tfx.dsl.Pipeline(
            pipeline_name="clicks",
            pipeline_root=str(root),
            components=components(
                folder, arguments.input.suffix, arguments.statistics, arguments.encodings
            ),
            metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(
                str(arguments.output / "metadata.db")
            ),
            beam_pipeline_args=beam_arguments,
        )
    )
    seconds = time.perf_counter() - start
    (found,) = root.glob(
        "Transform/transformed_examples/*" if arguments.encodings else "*ExampleGen/examples/*"
    )
    found.rename(arguments.output / "records")
    options.report(seconds)


if __name__ == "__main__":
    main()
