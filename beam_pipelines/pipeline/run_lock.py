"""Keeps runs from writing to one output at the same time.

A run locks a local output folder; a second run fails at once. The lock is the operating system's,
so it ends with the process. Object stores have no locks: there, each run leaves a mark, and the
later run continues. The earlier one finds another mark at its end, or when its files are gone.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import json
import os
import platform
import uuid
from collections.abc import Iterator

from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.core.process import file_locks
from beam_pipelines.files.beam import files

_MARK = "run.json"


@contextlib.contextmanager
def locked(output: str, temporary: str) -> Iterator[None]:
    """Keeps other runs from an output while the body runs.

    It makes a local folder if there is none.

    Args:
      output: folder of the dataset.
      temporary: folder of the runs' marks.

    Raises:
      RecipeError: another run of this machine is writing to it.
    """
    if not files.is_local(output):
        yield
        return
    files.make_folder(output)
    folder = file_locks.open_unshared(output, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RecipeError(
                f"{output}: {_run_of(temporary)} is writing to it. Wait for its end, or choose "
                "another --output."
            ) from error
        except OSError:  # some network filesystems have no locks: marks have to do
            pass
        yield
    finally:
        file_locks.close(folder)


def leave_mark(temporary: str) -> str:
    """Writes a run's mark to the temporary folder, and returns its id."""
    mark = {
        "run": uuid.uuid4().hex,
        "process": os.getpid(),
        "host": platform.node(),
        "began": datetime.datetime.now().astimezone().isoformat(" ", "seconds"),
    }
    files.write_bytes(files.join(temporary, _MARK), json.dumps(mark).encode())
    return str(mark["run"])


def mark_of(temporary: str) -> str:
    """Returns the id of a temporary folder's last run, or "".

    Raises:
      DataError: the mark cannot be read.
    """
    return str(_read_mark(temporary).get("run", ""))


def other_run(output: str, temporary: str) -> DataError:
    """Returns the error of a run during which another one has begun."""
    return DataError(
        f"{output}: {_run_of(temporary)} has begun to write to it while this one did, which "
        "therefore wrote nothing. Let one run at a time write to an output."
    )


def _read_mark(temporary: str) -> dict[str, object]:
    path = files.join(temporary, _MARK)
    try:
        mark = json.loads(files.read_bytes(path)) if files.exists(path) else {}
    except ValueError:
        mark = {}
    except (OSError, DataError):
        if files.exists(path):  # not removed meanwhile
            raise
        mark = {}
    return mark if isinstance(mark, dict) else {}


def _run_of(temporary: str) -> str:
    mark: dict[str, object] = {}
    with contextlib.suppress(OSError, DataError):
        mark = _read_mark(temporary)
    if not mark:
        return "another run"
    return (
        f"another run (process {mark.get('process')} on {mark.get('host')}, since "
        f"{mark.get('began')})"
    )
