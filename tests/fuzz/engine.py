"""One process of atheris: chooses inputs, runs the target, keeps findings.

It chooses by coverage and counts its work. Findings do not end it: each kind is kept once, by its
smallest input. A crash of C++, a hang and too much memory do end it, and ``watch`` handles them:
the file ``current`` holds the input before it runs.
"""

from __future__ import annotations

import faulthandler
import hashlib
import importlib
import json
import math
import mmap
import os
import pathlib
import random
import re
import resource
import struct
import sys
import time
import traceback

from tests.fuzz.finding import Finding
from tests.fuzz.target import Target
from tests.fuzz.targets import module_of

# Limits that the issue asks for: seconds of CPU for one input, and memory beyond 10 times the
# input.
MAX_SECONDS = 10.0
MEMORY_CONSTANT = 96 << 20
MAX_PROCESS_MIB = 3_000
HEADER = struct.Struct("<QQ")  # number of the input, its length
_KEEP_SECONDS = 5.0


class Current:
    """The input that is running, in a file that outlives the process."""

    def __init__(self, path: pathlib.Path, max_bytes: int) -> None:
        size = HEADER.size + max_bytes
        path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), size)

    def put(self, number: int, data: bytes) -> None:
        """Notes an input before it runs."""
        self._map[HEADER.size : HEADER.size + len(data)] = data
        self._map[: HEADER.size] = HEADER.pack(number, len(data))


def read_current(path: pathlib.Path) -> tuple[int, bytes]:
    """Returns the number of the input that ran last, and the input."""
    data = path.read_bytes()
    number, length = HEADER.unpack_from(data)
    return number, data[HEADER.size : HEADER.size + length]


def keep_finding(folder: pathlib.Path, kind: str, message: str, data: bytes) -> bool:
    """Keeps an input if it is the smallest of its kind.

    Returns:
      Whether the kind is new.
    """
    name = (
        re.sub(r"[^A-Za-z0-9]+", "-", kind)[:60].strip("-")
        + "-"
        + hashlib.sha256(kind.encode()).hexdigest()[:8]
    )
    path = folder / f"{name}.input"
    is_new = not path.exists()
    if is_new or path.stat().st_size > len(data):
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.with_suffix(".txt").write_text(f"{kind}\n\n{message}\n\n{data!r}\n")
    return is_new


def kind_of(error: BaseException) -> str:
    """Returns the common part of errors of one cause.

    It is the type, and the place in our code that raised it.
    """
    if isinstance(error, Finding):
        return error.kind
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        frame for frame in frames if f"{os.sep}beam_pipelines{os.sep}" in frame.filename
    ] or frames
    return f"{type(error).__name__} in {pathlib.Path(ours[-1].filename).name} {ours[-1].name}"


class Engine:
    """Runs inputs and counts."""

    def __init__(self, target: Target, state: pathlib.Path) -> None:
        self._target = target
        self._state = state
        self._current = Current(state / "current", max(1 << 20, target.max_bytes))
        self._number = 0
        self._kept = time.monotonic()
        self._slowest = 0.0

    def run(self, data: bytes, is_first: bool = False) -> None:
        """Runs one input and keeps its findings.

        Args:
          data: the input.
          is_first: whether to leave out the memory that libraries allocate on their first use.
        """
        self._number += 1
        self._current.put(self._number, data)
        before, start = _peak_bytes(), time.process_time()
        try:
            self._target.run(data)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            self._keep(kind_of(error), traceback.format_exc(), data)
        seconds, grown = time.process_time() - start, _peak_bytes() - before
        self._slowest = max(self._slowest, seconds)
        if seconds > MAX_SECONDS:
            self._keep("hang", f"{seconds:.1f} s of CPU", data)
        if grown > 10 * len(data) + MEMORY_CONSTANT and not is_first:
            self._keep("memory", f"{grown:,} bytes more for {len(data):,} bytes of input", data)
        if time.monotonic() - self._kept > _KEEP_SECONDS:
            self.keep_totals()

    def keep_totals(self) -> None:
        """Writes how much was done, for ``watch``."""
        self._kept = time.monotonic()
        done = {
            "executions": self._number,
            "cpu_seconds": time.process_time(),
            "slowest_seconds": self._slowest,
        }
        part = self._state / "process.part"
        part.write_text(json.dumps(done))
        part.replace(self._state / "process.json")

    def _keep(self, kind: str, message: str, data: bytes) -> None:
        if keep_finding(self._state / "findings", kind, message, data):
            sys.stderr.write(f"FINDING {kind}\n{message}\n")


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(name: str, state: pathlib.Path, seconds: int, seed: int) -> None:
    """Fuzzes a target until the time is over."""
    import atheris  # only here: the suite replays corpora without it

    start = time.monotonic()  # from here on the engine counts its time
    faulthandler.enable()
    with atheris.instrument_imports(include=["beam_pipelines"]):
        target: Target = importlib.import_module(module_of(name)).TARGET
    engine = Engine(target, state)
    corpus = state / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for data in target.seeds():
        (corpus / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
        engine.run(data, is_first=True)
    kept = pathlib.Path(__file__).parent / "corpus" / name

    def mutate(data: bytes, max_size: int, number: int) -> bytes:
        chance = random.Random(number)
        if chance.randrange(5) < 2:
            return bytes(atheris.Mutate(data, max_size))
        return target.mutate(data, chance)[:max_size]

    arguments = [
        "fuzz",
        str(corpus),
        *([str(kept)] if kept.is_dir() else []),
        f"-seed={seed or 1}",
        f"-max_total_time={seconds + math.ceil(time.monotonic() - start)}",
        f"-max_len={target.max_bytes}",
        f"-rss_limit_mb={MAX_PROCESS_MIB}",
        "-timeout=1000000",  # ``watch`` ends a hang instead
        "-detect_leaks=0",
        "-len_control=20",
        "-print_final_stats=1",
        f"-artifact_prefix={state}/",
    ]
    engine.keep_totals()
    atheris.Setup(arguments, engine.run, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
