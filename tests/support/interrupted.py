"""Runs a command and kills it in the middle."""

from __future__ import annotations

import os
import subprocess


def run_until(command: list[str], line: str) -> str:
    """Kills a command at its first line and returns its output."""
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
