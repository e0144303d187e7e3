"""The commands ``schema infer | update | diff | recipe``."""

from __future__ import annotations

import click

from beam_pipelines.cli.options import StorageCommand
from beam_pipelines.cli.output import answer, output_options, say
from beam_pipelines.core.errors import RecipeError
from beam_pipelines.core.layout.dataset_layout import RAW_SCHEMA


@click.group()
def schema() -> None:
    """Infer, widen and compare schemas; write that of recipes."""


@schema.command(cls=StorageCommand, epilog="schema infer out/flights -o flights.pbtxt")
@click.argument("statistics", metavar="DATASET")
@click.option("-o", "--output", metavar="FILE", required=True, help="The schema to write (.pbtxt).")
@click.option("--overwrite", is_flag=True, help="Replace the file that is there.")
@output_options
def infer(statistics: str, output: str, overwrite: bool, form: str) -> None:
    """Write the schema of a dataset, description or statistics."""
    from beam_pipelines.analysis.schema import infer_schema, read_schema, schema_to_text
    from beam_pipelines.analysis.schema.sparse import add_sparse_features
    from beam_pipelines.analysis.statistics.datasets import read_statistics
    from beam_pipelines.core.layout.schema_features import features_by_path
    from beam_pipelines.core.layout.tensor_representations import add_representations
    from beam_pipelines.files.beam import files
    from beam_pipelines_plugins.schemas.sparse import sparse_columns

    known = read_statistics(statistics)
    found = infer_schema(known)
    # Statistics do not say which columns are one sparse tensor; a dataset's own schema does.
    own = files.within(statistics, RAW_SCHEMA)
    sparse = sparse_columns(read_schema(own)) if files.exists(own) else ()
    add_sparse_features(found, sparse, known)
    add_representations(found)
    if files.exists(output) and not overwrite:
        raise RecipeError(
            f"{output}: there is a file already. Add --overwrite to replace it, or choose another "
            "--output."
        )
    files.write_bytes(output, schema_to_text(found))
    domains = len(found.string_domain)
    tensors = (
        f" {len(sparse)} sparse, of the columns that the dataset's own schema names."
        if sparse
        else ""
    )
    features = len(features_by_path(found))
    answer(
        form,
        {"path": output, "features": features, "domains": domains, "sparse": len(sparse)},
        [f"{output}: {features} features, {domains} of them with a domain of texts.{tensors}"],
    )


@schema.command(cls=StorageCommand, epilog="schema update flights.pbtxt out/2026-11-21")
@click.argument("path", metavar="SCHEMA")
@click.argument("statistics", metavar="DATASET...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="FILE", help="Where to write it; default: SCHEMA itself.")
@output_options
def update(path: str, statistics: tuple[str, ...], output: str | None, form: str) -> None:
    """Widen a schema until datasets pass.

    What they do not contradict stays, but for comments.
    """
    from beam_pipelines.analysis.schema import read_schema, schema_to_text
    from beam_pipelines.analysis.schema.text import has_comments
    from beam_pipelines.analysis.schema.update import update_schema
    from beam_pipelines.analysis.statistics.datasets import read_statistics
    from beam_pipelines.files.beam import files
    from beam_pipelines_plugins.schemas.diff import diff_schemas, render_diff

    before = read_schema(path)
    after = update_schema(
        before, [split for dataset in statistics for split in read_statistics(dataset).values()]
    )
    if after != before and output is None and has_comments(files.read_bytes(path).decode()):
        raise RecipeError(
            f"{path}: found comments, which an update does not keep. Write the schema anew without "
            f"them with '--output {path}', or write another file."
        )
    if after != before or output is not None:
        with files.replace(output or path) as file:
            file.write(schema_to_text(after))
    found = diff_schemas(before, after)
    answer(form, [change._asdict() for change in found], [render_diff(found)])


@schema.command(cls=StorageCommand, epilog="schema recipe -o recipe.schema.json")
@click.option(
    "-o", "--output", metavar="FILE", help="The file to write, or replace; default: print it."
)
@output_options
def recipe(output: str | None, form: str) -> None:
    """Write the JSON Schema of recipes.

    With it, editors complete and check YAML.
    """
    from beam_pipelines.files.beam import files
    from beam_pipelines_plugins.schemas.recipe_schema import MODELINE, schema_text

    if output is None:
        say(schema_text().rstrip("\n"))
        return
    with files.replace(output) as file:
        file.write(schema_text().encode())
    line = f"{output} written. First line of a recipe next to it: {MODELINE}"
    answer(form, {"path": output}, [line])


@schema.command(cls=StorageCommand, epilog="schema diff old.pbtxt new.pbtxt")
@click.argument("before")
@click.argument("after")
@output_options
def diff(before: str, after: str, form: str) -> None:
    """Show what changed between two schemas."""
    from beam_pipelines.analysis.schema import read_schema
    from beam_pipelines_plugins.schemas.diff import diff_schemas, render_diff

    found = diff_schemas(read_schema(before), read_schema(after))
    answer(form, [change._asdict() for change in found], [render_diff(found)])
