"""Standard input, output and error, as a command needs them: all there, and without a word of
Python's when what is printed cannot be.
"""

from __future__ import annotations

import io
import os
import sys

from beam_pipelines.core.errors import DataError

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


class NobodyReadsError(Exception):
    """Whoever read the standard output has stopped: there is nobody to say any more to."""


def open_missing() -> None:
    """Opens the null device in the place of each stream that the process was started without: else
    the next file would take its number.
    """
    for descriptor, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(
                os.open(os.devnull, os.O_RDWR), True
            )  # the lowest number that is free is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, mode, closefd=False))  # noqa: SIM115 - for as long as the process lives


def explain_output() -> None:
    """Lets whatever is printed to standard output raise ``NobodyReadsError``, or a ``DataError``
    that names it, where it cannot be written.
    """
    before = sys.stdout
    binary = io.BufferedWriter(io.FileIO(before.fileno(), "w", closefd=False))
    sys.stdout = _Output(binary, before.encoding, before.errors, line_buffering=before.isatty())


class _Output(io.TextIOWrapper):
    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            raise _explained(error) from error

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise _explained(error) from error


def _explained(error: OSError) -> Exception:
    if isinstance(error, BrokenPipeError):
        return NobodyReadsError()
    return DataError(
        f"standard output: cannot be written: {error.strerror}. Only what the command prints is "
        "lost: send it elsewhere."
    )
