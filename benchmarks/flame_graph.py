"""Draws where a conversion spends its time, from the samples of py-spy.

py-spy (`pip install py-spy`) samples all processes of a command, with the frames of C++:

  py-spy record --native --subprocesses --rate 100 --format raw --output samples.txt --
      .venv/bin/beam-pipelines convert recipe.yaml --output out
  .venv/bin/python benchmarks/flame_graph.py samples.txt docs/images/flame-graph.svg

A box is a function, as wide as its share of the samples; the boxes above it are what it calls. The
boxes at the bottom are the steps of a conversion. Frames of Beam, and samples of threads that wait,
are left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import html
import pathlib
import re

WIDTH, ROW, MARGIN = 1180, 22, 8
# Boxes below this share of the picture have no room.
LEAST = 0.002
COLORS = ("#f6c28b", "#f3a683", "#e9c46a", "#a8d5ba", "#9fc5e8", "#c9b1d9", "#f4b6c2", "#cfd8a8")
WAITS = re.compile(
    r"PyThread_acquire_lock|Condition\.wait|clock_nanosleep|epoll_wait|sem_timedwait|poll \(|"
    r"select \(|pthread_cond|waitpid|wait4"
)
OWN = re.compile(r"(?P<function>\S+) \((?:.*/)?beam_pipelines/(?P<module>[\w/]+)\.py:\d+\)$")
NATIVE = re.compile(r"native::(?:\(anonymous namespace\)::)?(?P<function>[\w:]+).*_kernels")
# Innermost module of a step -> its name, in the order of a conversion.
STEPS = {
    "imports": "imports",
    "pipeline": "plan, graph, commit",
    "cli": "plan, graph, commit",
    "transforms/read": "read",
    "transforms/row_chain": "read",
    "transforms/select": "select, split",
    "transforms/split": "select, split",
    "transforms/statistics": "statistics",
    "transforms/spill": "spill, load",
    "transforms/shuffle": "shuffle",
    "transforms/exchange": "exchange",
    "transforms/write": "serialize, compress, write",
}
OTHER = "Beam, Python"


@dataclasses.dataclass
class Box:
    """A function, and the samples in it.

    Attributes:
      samples: number of them, also in what it calls.
      calls: name -> box of a function that it calls.
    """

    samples: int = 0
    calls: dict[str, Box] = dataclasses.field(default_factory=dict)

    def add(self, names: list[str], samples: int) -> None:
        """Counts samples in the functions of a stack, outermost first."""
        box = self
        box.samples += samples
        for name in names:
            box = box.calls.setdefault(name, Box())
            box.samples += samples


def stack_of(line: str) -> tuple[list[str], int]:
    """Returns a stack's names, its step first, and its number of samples."""
    text, _, samples = line.rpartition(" ")
    frames = text.split(";")
    if WAITS.search(";".join(frames[-6:])):
        return [], 0
    if any("importlib._bootstrap" in frame for frame in frames):
        return ["imports"], int(samples)
    step, names = OTHER, []
    for frame in frames:
        if own := OWN.search(frame):
            found = step_of(own["module"])
            if found:
                step, names = found, []
            names.append(f"{own['module'].rpartition('/')[2]}.{own['function']}")
        elif native := NATIVE.search(frame):
            names.append(f"C++ {native['function']}")
        elif "libarrow" in frame and names and names[-1] != "Arrow":
            names.append("Arrow")
    return [step, *names], int(samples)


def step_of(module: str) -> str | None:
    """Returns the step that a module begins, if it does."""
    return next((name for start, name in STEPS.items() if module.startswith(start)), None)


def draw(root: Box) -> str:
    """Returns the picture of all boxes as SVG."""
    order = [*dict.fromkeys(STEPS.values()), OTHER]
    depth = depth_of(root, root.samples) - 1
    height = depth * ROW + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"',
        'font-family="sans-serif" font-size="12" role="img">',
        f"<title>Shares of {root.samples:,} samples of all processes</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    left = float(MARGIN)
    for number, name in enumerate(sorted(root.calls, key=order.index)):
        box, color = root.calls[name], COLORS[number % len(COLORS)]
        left += put(parts, root, name, box, left, height - MARGIN - ROW, color)
    return "\n".join([*parts, "</svg>", ""])


def put(
    parts: list[str], root: Box, name: str, box: Box, left: float, top: float, color: str
) -> float:
    """Appends a box and what it calls; returns its width."""
    share = box.samples / root.samples
    width = share * (WIDTH - 2 * MARGIN)
    if share < LEAST:
        return width
    room = int(width / 7.2)
    text = f"{name} {share:.0%}" if len(name) + 4 <= room else name
    shown = text if len(text) <= room else f"{text[: room - 1]}…" if room > 6 else ""
    parts.append(
        f'<g><title>{html.escape(name)}: {share:.1%}</title><rect x="{left:.1f}" y="{top}" '
        f'width="{width:.1f}" height="{ROW - 1}" fill="{color}" stroke="#ffffff"/>'
        f'<text x="{left + 3:.1f}" y="{top + 15}" fill="#222222">{html.escape(shown)}</text></g>'
    )
    inner = left
    for called in sorted(box.calls, key=lambda one: -box.calls[one].samples):
        inner += put(parts, root, called, box.calls[called], inner, top - ROW, color)
    return width


def depth_of(box: Box, total: int) -> int:
    """Returns the number of rows of boxes that are drawn."""
    drawn = [called for called in box.calls.values() if called.samples >= LEAST * total]
    return 1 + max((depth_of(called, total) for called in drawn), default=0)


def main() -> None:
    """Draws the picture, and prints the share of each step."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("samples", type=pathlib.Path)
    parser.add_argument("picture", type=pathlib.Path)
    arguments = parser.parse_args()
    root = Box()
    for line in arguments.samples.read_text().splitlines():
        names, samples = stack_of(line)
        if samples:
            root.add(names, samples)
    arguments.picture.write_text(draw(root))
    for name, box in sorted(root.calls.items(), key=lambda one: -one[1].samples):
        print(f"{box.samples / root.samples:6.1%}  {name}")


if __name__ == "__main__":
    main()
