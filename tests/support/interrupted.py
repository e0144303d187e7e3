"""Runs a command and kills it in the middle, as a machine that goes away does."""

from __future__ import annotations

import os
import subprocess


def run_until(command: list[str], line: str) -> str:
    """Starts a command, kills it as soon as it prints a line, and returns what it has printed."""
    printed = []
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}
    )
    assert process.stdout is not None
    for text in process.stdout:
        printed.append(text)
        if line in text:
            break
    process.kill()
    process.wait()
    assert line in printed[-1], "".join(printed)
    return "".join(printed)
