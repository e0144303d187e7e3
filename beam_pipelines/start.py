"""Where the command begins: who stops it while it is still being imported, for a good tenth of a second, sees no traceback either."""

from __future__ import annotations

from beam_pipelines import stopping


def main() -> None:
    """Runs the command line and ends the process with its exit status."""
    stopping.at_once()
    from beam_pipelines import standard_streams

    standard_streams.open_missing()
    from beam_pipelines import cli

    cli.main()
