"""Standard streams of a command: opens missing ones, and explains failed output."""

from __future__ import annotations

import io
import os
import sys

from beam_pipelines.core.errors import DataError

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


class NobodyReadsError(Exception):
    """The reader of standard output has closed it."""


def open_missing() -> None:
    """Opens the null device for each standard stream that is closed.

    Otherwise the next file that is opened would get the stream's number.
    """
    for descriptor, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(descriptor)
        except OSError:
            # ``open`` returns the lowest free number, which is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, mode, closefd=False))  # noqa: SIM115 - for as long as the process lives


def explain_output() -> None:
    """Makes failed writes to standard output raise ``NobodyReadsError`` or a ``DataError``."""
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
