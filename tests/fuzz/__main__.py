"""Fuzzes one target, or with ``all`` one after the other.

Run it with ``python -m tests.fuzz TARGET --seconds 1800 --seed 1``.
"""

from __future__ import annotations

import argparse
import importlib
import pathlib
import sys

from tests.fuzz import watch
from tests.fuzz.targets import NAMES, module_of


def main() -> int:
    """Fuzzes, or runs one input; returns 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", choices=[*NAMES, "all"])
    parser.add_argument("--seconds", type=int, default=60, help="for each target (default: 60)")
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        help="of the engine; the same one does not make the same inputs when our code changes",
    )
    parser.add_argument(
        "--state",
        type=pathlib.Path,
        default=pathlib.Path(".fuzz"),
        help="folder that keeps corpora, findings and totals, for another time (default: .fuzz)",
    )
    parser.add_argument(
        "--input", type=pathlib.Path, help="run this one input, here, and show what it finds"
    )
    options = parser.parse_args()
    if options.input is not None:
        importlib.import_module(module_of(options.target)).TARGET.run(options.input.read_bytes())
        return 0
    found = 0
    for name in NAMES if options.target == "all" else [options.target]:
        done = watch.fuzz(name, options.state.resolve() / name, options.seconds, options.seed)
        findings = done["findings"]
        minutes, slowest = done["cpu_seconds"] / 60, done["slowest_seconds"]
        line = (
            f"{name}: {done['executions']:,} inputs in {minutes:.1f} CPU minutes, the slowest "
            f"{slowest:.2f} s; {len(findings)} kinds of findings"
        )
        sys.stdout.write("\n  ".join([line, *findings]) + "\n")
        sys.stdout.flush()
        found += len(findings)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
