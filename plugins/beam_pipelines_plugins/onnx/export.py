"""The command ``export``: a dataset's encodings for other programs."""

from __future__ import annotations

import click

from beam_pipelines.cli.options import StorageCommand
from beam_pipelines.cli.output import answer, output_options
from beam_pipelines.core.errors import RecipeError


@click.command(cls=StorageCommand, epilog="export out/flights --onnx encodings.onnx")
@click.argument("dataset")
@click.option(
    "--onnx", metavar="FILE", required=True, help="The ONNX model to write: from raw columns."
)
@click.option(
    "--only",
    metavar="NAMES",
    help="Features to export, separated by commas; default: all but the label.",
)
@click.option("--overwrite", is_flag=True, help="Replace the file that is there.")
@output_options
def export(dataset: str, onnx: str, only: str | None, overwrite: bool, form: str) -> None:
    """Write the fitted encodings of a DATASET as an ONNX model."""
    from beam_pipelines.reader.dataset import Dataset
    from beam_pipelines.storage import files
    from beam_pipelines_plugins.onnx.onnx_graph import OPSET

    if files.exists(onnx) and not overwrite:
        raise RecipeError(
            f"{onnx}: found a file. Add --overwrite to replace it, or choose another name."
        )
    opened = Dataset(dataset)
    try:
        model = opened.to_onnx(None if only is None else only.split(","))
    except ValueError as error:
        raise RecipeError(f"--only {only}: {error}") from error
    with files.replace(onnx) as file:
        file.write(model.SerializeToString(deterministic=True))
    inputs, outputs = len(model.graph.input), len(model.graph.output)
    document = {"path": onnx, "inputs": inputs, "outputs": outputs, "opset": OPSET}
    answer(form, document, [f"{onnx}: {inputs:,} inputs, {outputs:,} outputs, opset {OPSET}."])
