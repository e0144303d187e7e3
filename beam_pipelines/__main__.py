"""``python -m beam_pipelines`` is the command."""

from beam_pipelines.cli.start import main

main()
