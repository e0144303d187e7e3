"""Defines, measures and prints the stages of a benchmark."""

from __future__ import annotations

import dataclasses
import functools
import resource
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bench_convert import Measured
from clicks import Clicks

HEADER = ("stage", "s", "rows/s", "MB/s of its input", "µs/row", "CPU µs/row, if other", "")


class Work(NamedTuple):
    """A stage that is ready to be measured.

    Attributes:
      run: does it once; returns what it made, or what ``bench_convert.measure`` saw.
      rows, size_bytes: of its input; 0 where a rate says nothing.
      note: says something about what was made.
    """

    run: Callable[[], Any]
    rows: int
    size_bytes: int
    note: Callable[[Any], str] = lambda _: ""


class Stage(NamedTuple):
    """A stage to measure.

    Attributes:
      name: a line's title, by whose beginning the stage is chosen.
      prepare: makes the input before the clock starts.
      on_demand: whether it is measured only when it is asked for.
    """

    name: str
    prepare: Callable[[Clicks], Work]
    on_demand: bool


class Stages(list[Stage]):
    """Stages in the order in which they are printed."""

    def add(
        self, *cases: tuple[Any, ...], on_demand: bool = False
    ) -> Callable[[Callable[..., Work]], None]:
        """Makes a function one stage for each case.

        A case holds the stage's name, then the function's arguments after the table.
        """

        def register(prepare: Callable[..., Work]) -> None:
            for name, *arguments in cases:
                self.append(Stage(name, functools.partial(_prepare, prepare, arguments), on_demand))

        return register

    def chosen(self, only: Sequence[str]) -> list[Stage]:
        """Returns the stages whose names begin with one of the texts.

        Without texts, it returns all stages that are not on demand.

        Raises:
          SystemExit: there are none.
        """
        found = [
            stage
            for stage in self
            if (stage.name.startswith(tuple(only)) if only else not stage.on_demand)
        ]
        if not found:
            names = "\n  ".join(stage.name for stage in self)
            sys.exit(
                f"--only: found {', '.join(only)}, expected the beginnings of some of these "
                f"names:\n  {names}"
            )
        return found


def _prepare(prepare: Callable[..., Work], arguments: Sequence[Any], clicks: Clicks) -> Work:
    return prepare(clicks, *arguments)


@dataclasses.dataclass(frozen=True)
class Timed:
    """One repeat: wall and CPU seconds, and what was made."""

    wall: float
    cpu: float
    result: Any


def measure(work: Work) -> Timed:
    """Does the work once. A command has its measurements already."""
    start, cpu = time.perf_counter(), cpu_seconds()
    result = work.run()
    if isinstance(result, Measured):
        return Timed(result.wall_seconds, result.cpu_seconds, result)
    return Timed(time.perf_counter() - start, cpu_seconds() - cpu, result)


def cpu_seconds() -> float:
    """Returns user and system time of all threads so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def best_of(repeats: int, work: Work) -> Timed:
    """Returns the repeat of least wall time.

    Only one result is in memory at a time, next to the best one.
    """
    best = measure(work)
    for _ in range(repeats - 1):
        timed = measure(work)
        best = min(best, timed, key=lambda timed: timed.wall)
    return best


def line(stage: Stage, clicks: Clicks, repeats: int) -> list[str]:
    """Measures one stage and returns its line of the table."""
    work = stage.prepare(clicks)
    best = best_of(repeats, work)
    cells = ["", "", "", ""]
    if work.rows:
        rate = f"{work.size_bytes / best.wall / 1e6:,.0f}" if work.size_bytes else ""
        differs = abs(best.cpu - best.wall) > 0.1 * best.wall
        wall, cpu = (f"{seconds / work.rows * 1e6:.2f}" for seconds in (best.wall, best.cpu))
        cells = [f"{work.rows / best.wall:,.0f}", rate, wall, cpu if differs else ""]
    return [stage.name, f"{best.wall:.3f}", *cells, work.note(best.result)]


def print_line(cells: Sequence[str]) -> None:
    """Prints one line of a Markdown table."""
    print("| " + " | ".join(cells) + " |", flush=True)
