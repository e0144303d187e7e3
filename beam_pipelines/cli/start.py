"""Entry point of the command, which sets signal handlers before its imports.

Imports take a good tenth of a second; a signal during them must print no traceback either.
"""

from __future__ import annotations

from beam_pipelines.core.process.signals import exit_on_signal


def main() -> None:
    """Runs the command line and ends the process with its exit status."""
    exit_on_signal()
    from beam_pipelines.cli.streams import open_missing
    from beam_pipelines.core.arrow.memory import pause_garbage_collection

    open_missing()
    pause_garbage_collection()
    from beam_pipelines.cli import main as main_module

    main_module.main()
