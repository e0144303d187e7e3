"""Ends a command tidily on Ctrl-C, SIGTERM and SIGHUP.

The end of the terminal sends SIGHUP.

Python raises KeyboardInterrupt wherever the main thread is. In a function whose errors go nowhere
(a finalizer, a callback of the import system, a function registered with atexit) it would print a
traceback, and the command would go on. This module raises it again there.
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
# A command that was told to ignore SIGHUP (nohup) outlives its terminal.
_HANGUP = () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)
SIGNALS = (signal.SIGINT, signal.SIGTERM, *_HANGUP)
# Time for a function that cannot raise to return.
_AGAIN_SECS = 0.02
# Time to tidy up, in which further signals do nothing. A second exception, while the first one is
# handled, would leave temporary files, and let Beam wait for ever for workers that are gone.
TIDYING_SECS = 5


class _Interruption:
    """The state of this process's interruption.

    Attributes:
      told: when the process was told to stop, on the monotonic clock; ``None`` before that, and
        while the exception is to be raised again.
      has_raised: whether a signal has raised KeyboardInterrupt.
      in_hook: whether ``_unraisable`` runs, in which an exception would be lost.
      ignoring_signals: how many bodies of ``ignoring_signals`` run.
      outcome: what the command has achieved so far, for its last message.
    """

    told: float | None = None
    has_raised = False
    in_hook = False
    ignoring_signals = 0
    outcome = _NOTHING


def begin() -> None:
    """Forgets the outcome of an earlier command of this process."""
    _Interruption.has_raised, _Interruption.outcome = False, _NOTHING


def message() -> str:
    """Returns the last message of an interrupted command."""
    return f"interrupted; {_Interruption.outcome}."


def note_committed(output: str) -> None:
    """Notes that the dataset is complete, for an interruption from now on."""
    _Interruption.outcome = f"{output} was complete already, and stays"


def exit_on_signal(status: int | None = None) -> None:
    """Lets a signal end this process at once.

    Args:
      status: the exit status of a command that is over; ``None`` before a command has begun.
    """

    def end(number: int, frame: types.FrameType | None) -> NoReturn:  # noqa: ARG001 - as handlers are called
        if status is None:
            os.write(2, f"error: {message()}\n".encode())
        os._exit(INTERRUPTED if status is None else status)

    for number in SIGNALS:
        signal.signal(number, end)


def raise_on_signal() -> None:
    """Lets a signal raise KeyboardInterrupt, and hides its traceback.

    Further signals within ``TIDYING_SECS`` do nothing; a later one ends the process at once.
    """
    for number in SIGNALS:
        signal.signal(number, _raise)
    sys.excepthook = _uncaught
    sys.unraisablehook = _unraisable


@contextlib.contextmanager
def ignoring_signals() -> Iterator[None]:
    """Ignores the signals of ``raise_on_signal`` while the body tidies up.

    The command is about to end anyway.
    """
    _Interruption.ignoring_signals += 1
    try:
        yield
    finally:
        _Interruption.ignoring_signals -= 1


def has_raised() -> bool:
    """Whether a signal has raised KeyboardInterrupt, even if the exception was lost."""
    return _Interruption.has_raised


def _raise(number: int, frame: types.FrameType | None) -> None:  # noqa: ARG001 - as handlers are called
    if _Interruption.in_hook:
        return  # _tell_again repeats the signal
    now = time.monotonic()
    if _Interruption.told is not None:
        if now - _Interruption.told > TIDYING_SECS:
            os.write(
                2,
                b"error: interrupted twice; temporary files may be left, which the next run "
                b"removes.\n",
            )
            os._exit(INTERRUPTED)
        return
    _Interruption.told = now
    if not _Interruption.ignoring_signals:
        _Interruption.has_raised = True
        raise KeyboardInterrupt


def _uncaught(
    kind: type[BaseException], error: BaseException, trace: types.TracebackType | None
) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)


def _unraisable(found: sys.UnraisableHookArgs) -> None:
    """Raises a lost KeyboardInterrupt again.

    Hides errors of a process that stops.
    """
    if isinstance(found.exc_value, KeyboardInterrupt) or found.exc_type is KeyboardInterrupt:
        _Interruption.in_hook = True
        _Interruption.told = None
        try:
            threading.Thread(target=_tell_again, daemon=True).start()
        finally:
            _Interruption.in_hook = False
    elif _Interruption.told is None:
        sys.__unraisablehook__(found)


def _tell_again() -> None:
    """Signals the main thread until the handler has run outside of ``_unraisable``.

    One signal is not enough. It may come while the hook still runs, or just before the main thread
    enters a system call, which it then does not interrupt.
    """
    main = threading.main_thread().ident or 0
    time.sleep(_AGAIN_SECS)
    while _Interruption.told is None:
        signal.pthread_kill(main, signal.SIGINT)
        time.sleep(_AGAIN_SECS)
