"""Keeps a fuzzing process going until its time is over.

It records why the process died or stood still.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
from typing import Any

import psutil

from tests.fuzz import scratch
from tests.fuzz.engine import MAX_SECONDS, keep_finding, read_current

# The engine itself sees inputs that take too long and come to an end.
_STANDS_STILL = 2 * MAX_SECONDS
_LEAST_SECONDS = 5
# For an input that began in time, and for a start on a busy machine.
_GRACE_SECONDS = 120


def fuzz(name: str, state: pathlib.Path, seconds: int, seed: int) -> dict[str, Any]:
    """Fuzzes a target.

    Returns:
      The totals of this and of all earlier times, which are kept in ``state``.
    """
    state.mkdir(parents=True, exist_ok=True)
    end, before = time.monotonic() + seconds, totals(state)["executions"]
    while (left := int(end - time.monotonic())) >= _LEAST_SECONDS:
        died = _one_process(name, state, left, seed)
        _add_totals(state)
        if died and not _running(state):
            raise SystemExit(
                f"{name}: the process ended before its first input, see {state / 'log'}"
            )
        seed += 1
    done = totals(state)
    if done["executions"] == before:
        raise SystemExit(
            f"{name}: found no input run in {seconds} s, expected some: give it more --seconds, and "
            f"see {state / 'log'}"
        )
    return done


def totals(state: pathlib.Path) -> dict[str, Any]:
    """Returns the totals: executions, CPU seconds, the slowest input, findings."""
    path = state / "totals.json"
    done: dict[str, Any] = {"executions": 0, "cpu_seconds": 0.0, "slowest_seconds": 0.0}
    done |= json.loads(path.read_text()) if path.exists() else {}
    return done | {"findings": sorted(path.stem for path in (state / "findings").glob("*.txt"))}


def _one_process(name: str, state: pathlib.Path, seconds: int, seed: int) -> bool:
    """Runs one process to its end.

    Returns:
      Whether the end came too early.
    """
    command = [sys.executable, "-m", "tests.fuzz.engine", name, str(state), str(seconds), str(seed)]
    (state / "current").unlink(missing_ok=True)
    with (state / "log").open("ab") as log, scratch.temporary_folder() as folder:
        environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", scratch.VARIABLE: folder}
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        watched = psutil.Process(process.pid)
        number, since, stands_still = -1, 0.0, False
        latest = time.monotonic() + seconds + _GRACE_SECONDS
        try:
            while process.poll() is None and time.monotonic() < latest:
                time.sleep(1)
                now, cpu = _running(state), _cpu_seconds(watched)
                if now != number:
                    number, since = now, cpu
                elif number > 0 and cpu - since > _STANDS_STILL:
                    stands_still = True
                    data = read_current(state / "current")[1]
                    keep_finding(state / "findings", "hang", "did not come to an end", data)
                    process.kill()
                    process.wait()
        finally:
            process.kill()
            process.wait()
    if process.returncode == 0 or stands_still or time.monotonic() >= latest:
        return False
    if (state / "current").exists():
        status = process.returncode
        data = read_current(state / "current")[1]
        keep_finding(state / "findings", f"process ended with {status}", "See the log.", data)
    return True


def _running(state: pathlib.Path) -> int:
    return read_current(state / "current")[0] if (state / "current").exists() else 0


def _cpu_seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def _add_totals(state: pathlib.Path) -> None:
    part = state / "process.json"
    if not part.exists():
        return
    new, before = json.loads(part.read_text()), totals(state)
    done = {key: before.get(key, 0) + new[key] for key in ("executions", "cpu_seconds")}
    done["slowest_seconds"] = max(before.get("slowest_seconds", 0.0), new["slowest_seconds"])
    (state / "totals.json").write_text(json.dumps(done))
    part.unlink()
