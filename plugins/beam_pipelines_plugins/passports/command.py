"""The command ``passport``: describes a dataset to other programs."""

from __future__ import annotations

import click

from beam_pipelines.cli.errors import warn
from beam_pipelines.cli.options import StorageCommand
from beam_pipelines.cli.output import answer, is_quiet, output_options

# Without these its validator warns.
RECOMMENDED = ("license", "citation", "published")
KINDS = ("croissant", "huggingface", "tfds")


@click.command(
    cls=StorageCommand, epilog="passport out/flights --for huggingface --about about.yaml"
)
@click.argument("dataset")
@click.option(
    "--for",
    "kinds",
    type=click.Choice(KINDS),
    multiple=True,
    default=KINDS[:2],
    show_default=True,
    help="The program; repeat it for several.",
)
@click.option(
    "--about", metavar="FILE", help="YAML with description, license, url, citation and so on."
)
@click.option("--overwrite", is_flag=True, help="Replace files that are there.")
@output_options
def passport(
    dataset: str, kinds: tuple[str, ...], about: str | None, overwrite: bool, form: str
) -> None:
    """Describe a DATASET to Croissant, Hugging Face and TFDS."""
    from beam_pipelines.storage import files
    from beam_pipelines_plugins.passports.about import About, read_about
    from beam_pipelines_plugins.passports.write import write_passports

    known = About() if about is None else read_about(files.read_document(about).decode(), about)
    paths = write_passports(dataset, kinds, known, overwrite)
    lacking = [key for key in RECOMMENDED if getattr(known, key) is None]
    answer(form, {"paths": paths, "lacking": lacking}, paths)
    if lacking and "croissant" in kinds and not is_quiet():
        warn(f"Croissant also recommends {', '.join(lacking)}. Give them with --about.")
