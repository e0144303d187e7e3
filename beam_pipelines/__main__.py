"""``python -m beam_pipelines`` is the command."""

from beam_pipelines.core.process import full_package

full_package.import_module("cli.start", "python -m beam_pipelines").main()
