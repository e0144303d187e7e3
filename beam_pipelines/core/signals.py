"""What Ctrl-C, SIGTERM and the end of its terminal (SIGHUP) do to a command: it ends, tidily where
there is something to tidy up, and never with a traceback.

Python raises KeyboardInterrupt wherever the main thread happens to be. Where that is a function
whose errors go nowhere (a finalizer, a callback of the import system, a function registered for the
end), it prints a traceback instead, and the command goes on as if nobody had asked it to stop.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Iterator
from typing import NoReturn

INTERRUPTED = 130
_NOTHING = "nothing was committed"
# Whoever ignores the end of the terminal (nohup) goes on.
SIGNALS = (signal.SIGINT, signal.SIGTERM) + (
    (signal.SIGHUP,)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN
    else ()
)
# Until when the function that could not raise is over.
_AGAIN_SECS = 0.02
# How long it takes to tidy up: whoever says it again in this time is patient, or leaned on the
# keys. A second exception, out of the handling of the first, would leave temporary files, and let
# Beam wait for ever for workers that are gone.
TIDYING_SECS = 5


class _Here:
    """What is known of this process: when it was told to stop, on the monotonic clock; how many
    bodies run that are not to be disturbed; what has come of the command so far.
    """

    told: float | None = None
    has_raised = False
    ignoring_signals = 0
    outcome = _NOTHING


def begin() -> None:
    """Forgets what came of a command that this process ran before."""
    _Here.has_raised, _Here.outcome = False, _NOTHING


def message() -> str:
    """Returns what a command says that was told to stop."""
    return f"interrupted; {_Here.outcome}."


def note_committed(output: str) -> None:
    """Takes note that the dataset was complete when the command was told to stop, if it is from now
    on.
    """
    _Here.outcome = f"{output} was complete already, and stays"


def exit_on_signal(status: int | None = None) -> None:
    """Lets a signal end this process on the spot: where nothing has begun, or all is over and the
    exit status is known.
    """

    def end(number: int, frame: types.FrameType | None) -> NoReturn:  # noqa: ARG001 - as handlers are called
        if status is None:
            os.write(2, f"error: {message()}\n".encode())
        os._exit(INTERRUPTED if status is None else status)

    for number in SIGNALS:
        signal.signal(number, end)


def raise_on_signal() -> None:
    """Lets a signal raise KeyboardInterrupt, so that temporary files are removed, and Python print
    no traceback of it.

    Signals that follow within ``TIDYING_SECS`` do nothing; a later one ends the process on the
    spot.
    """
    for number in SIGNALS:
        signal.signal(number, _raise)
    sys.excepthook = _uncaught
    sys.unraisablehook = _unraisable


@contextlib.contextmanager
def ignoring_signals() -> Iterator[None]:
    """Lets signals that ``raise_on_signal`` takes do nothing while the body runs: it tidies up, and
    the command is about to end anyway.
    """
    _Here.ignoring_signals += 1
    try:
        yield
    finally:
        _Here.ignoring_signals -= 1


def has_raised() -> bool:
    """Whether a signal has raised KeyboardInterrupt, whatever became of that."""
    return _Here.has_raised


def _raise(number: int, frame: types.FrameType | None) -> None:  # noqa: ARG001 - as handlers are called
    now = time.monotonic()
    if _Here.told is not None:
        if now - _Here.told > TIDYING_SECS:
            os.write(
                2,
                b"error: interrupted twice; temporary files may be left, which the next run "
                b"removes.\n",
            )
            os._exit(INTERRUPTED)
        return
    _Here.told = now
    if not _Here.ignoring_signals:
        _Here.has_raised = True
        raise KeyboardInterrupt


def _uncaught(
    kind: type[BaseException], error: BaseException, trace: types.TracebackType | None
) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)


def _unraisable(found: sys.UnraisableHookArgs) -> None:
    """Tells the main thread once more to stop if it could not raise it where it was; and is silent
    about what fails because it stops.
    """
    if isinstance(found.exc_value, KeyboardInterrupt) or found.exc_type is KeyboardInterrupt:
        _Here.told = None
        main = threading.main_thread().ident or 0
        again = threading.Timer(
            _AGAIN_SECS, signal.pthread_kill, (main, signal.SIGINT)
        )  # which ends a wait, too
        again.daemon = True
        again.start()
    elif _Here.told is None:
        sys.__unraisablehook__(found)
