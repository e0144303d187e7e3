"""Keeps few small inputs that reach a grown corpus's lines.

Run it with ``python -m tests.fuzz.distil TARGET``. The corpus has grown in ``.fuzz``. The inputs
are written to ``tests/fuzz/corpus/TARGET``. Files there that hold a finding (``finding-…``) stay.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import pathlib
import sys
from types import FrameType
from typing import Any

from tests.fuzz.target import Target
from tests.fuzz.targets import module_of

MOST_BYTES = 6_000
_OURS = f"{os.sep}beam_pipelines{os.sep}"

Reached = set[tuple[str, int]]


def reached_by(target: Target, data: bytes) -> Reached:
    """Returns the lines of our code that an input reaches."""
    reached: Reached = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if _OURS not in name:
            return None
        if event == "line":
            reached.add((name, frame.f_lineno))
        return trace

    sys.settrace(trace)
    try:
        with contextlib.suppress(Exception):
            target.run(data)
    finally:
        sys.settrace(None)
    return reached


def distil(target: Target, inputs: list[bytes]) -> list[bytes]:
    """Returns inputs that reach lines which the others do not.

    Inputs that reach most come first, and small ones before large ones.
    """
    known: Reached = set().union(*(reached_by(target, data) for data in target.seeds()))
    found = {data: reached_by(target, data) - known for data in sorted(inputs, key=len)}
    kept: list[bytes] = []
    left = MOST_BYTES
    while found:
        best = max(found, key=lambda data: len(found[data]))
        gain = found.pop(best)
        if not gain:
            break
        if len(best) <= left:
            kept.append(best)
            left -= len(best)
            found = {data: reached - gain for data, reached in found.items()}
    return kept


def main(name: str, state: pathlib.Path) -> None:
    """Distils the corpus of a target."""
    target: Target = importlib.import_module(module_of(name)).TARGET
    target.run(target.seeds()[0])
    folder = pathlib.Path(__file__).parent / "corpus" / name
    folder.mkdir(parents=True, exist_ok=True)
    before = [path for path in folder.iterdir() if not path.name.startswith("finding-")]
    inputs = [path.read_bytes() for path in [*before, *(state / name / "corpus").glob("*")]]
    for path in before:
        path.unlink()
    for data in distil(target, inputs):
        (folder / hashlib.sha256(data).hexdigest()[:12]).write_bytes(data)


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ".fuzz"))
