"""Where the command begins: who stops it while it is still being imported, for a good tenth of a
second, sees no traceback either.
"""

from __future__ import annotations

from beam_pipelines.core.signals import exit_on_signal


def main() -> None:
    """Runs the command line and ends the process with its exit status."""
    exit_on_signal()
    from beam_pipelines.cli.streams import open_missing

    open_missing()
    from beam_pipelines.cli import main as main_module

    main_module.main()
