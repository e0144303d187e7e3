"""Draws what joins over time take: the picture of docs/joins.md.

  python benchmarks/draw_as_of.py

What it shows is computed by the joins themselves, of a log of prices, orders, and a log of clicks.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pyarrow as pa

from beam_pipelines.joins.index import build_index, join_batch
from beam_pipelines.recipe.joins import AsOf, Join, Window

PICTURE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "images" / "as-of.svg"
DAY = 86_400_000_000
LEFT, STEP, RIGHT = 130, 46, 800
PRICES = {1: 10, 6: 12, 10: 11}
ORDERS = (0, 4, 6, 9)
CLICKS = (1, 2, 5, 7, 9, 12)
REQUESTS = (9, 13)
OVER = 7
BLUE, YELLOW, GREY = "#0969da", "#d3b257", "#555"


def table(days: Any, **more: Any) -> pa.Table:
    """Returns rows of one key at some days."""
    times = pa.array([day * DAY for day in days], pa.timestamp("us"))
    return pa.table({"k": [1] * len(times), "t": times, **more})


def joined(left: Any, right: pa.Table, join: Join, added: list[tuple[str, str]]) -> list[Any]:
    """Returns the joined column ``x`` of left rows at some days."""
    batch = table(left).combine_chunks().to_batches()[0]
    found: list[Any] = join_batch(batch, build_index(right, join, added), join)[0]["x"].to_pylist()
    return found


def text(x: float, y: float, shown: str, color: str = "#1f2328", anchor: str = "middle") -> str:
    """Returns a line of text."""
    return f'<text x="{x}" y="{y}" fill="{color}" text-anchor="{anchor}">{shown}</text>'


def place(day: float) -> float:
    """Returns where a day is."""
    return LEFT + STEP * day


def lane(y: int, name: str) -> list[str]:
    """Returns a line of time with its name."""
    line = f'<path d="M{LEFT - 10} {y}H{RIGHT}" stroke="{GREY}" marker-end="url(#tip)"/>'
    return [line, text(10, y + 5, name, anchor="start")]


def as_of() -> list[str]:
    """Returns the upper half: the newest price that is not later."""
    join = Join("prices", (("k", "k"),), as_of=AsOf("t", "t"))
    taken = joined(ORDERS, table(PRICES, x=list(PRICES.values())), join, [("x", "x")])
    parts = [*lane(50, "prices"), *lane(120, "orders")]
    day_of = {price: day for day, price in PRICES.items()}
    for day, price in PRICES.items():
        parts += [dot(day, 50, BLUE), text(place(day), 36, str(price))]
    for day, price in zip(ORDERS, taken, strict=True):
        parts += [
            dot(day, 120, YELLOW),
            text(place(day), 144, "none" if price is None else str(price)),
        ]
        if price is not None:
            end = place(day_of[price])
            parts.append(
                f'<path d="M{place(day)} 112 {end} 60" stroke="{BLUE}" marker-end="url(#tip)"/>'
            )
    return parts


def window() -> list[str]:
    """Returns the lower half: what a window counts."""
    over = Window("t", "t", over=OVER * DAY)
    join = Join("clicks", (("k", "k"),), window=over, features={"x": "count()"})
    counts = joined(REQUESTS, table(CLICKS), join, [])
    parts = [*lane(190, "clicks")]
    parts += [dot(day, 190, BLUE) for day in CLICKS]
    for number, (day, count) in enumerate(zip(REQUESTS, counts, strict=True)):
        y = 214 + 34 * number
        begin, end = place(day - OVER), place(day)
        box = f'x="{begin}" y="{y}" width="{end - begin}" height="20" rx="4"'
        parts += [
            f'<rect {box} fill="#dbe7f6"/>',
            f'<path d="M{begin} 180V200M{begin} {y}v20" stroke="{BLUE}"/>',
            f'<path d="M{end} 180V200M{end} {y}v20" stroke="{YELLOW}" stroke-dasharray="4 3"/>',
            text(
                (begin + end) / 2, y + 15, f"request on day {day}: count() over {OVER}d is {count}"
            ),
        ]
    return parts


def dot(day: int, y: int, color: str) -> str:
    """Returns a moment."""
    return f'<circle cx="{place(day)}" cy="{y}" r="5" fill="{color}"/>'


def main() -> None:
    """Writes the picture."""
    title = "Each order gets the newest price that is not later; a window ends before its request"
    head = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 840 300" \
font-family="system-ui, sans-serif" font-size="14" role="img" aria-labelledby="title">
<title id="title">{title}</title>
<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" \
orient="auto"><path d="M0 0 10 5 0 10z" fill="{GREY}"/></marker></defs>
<rect width="840" height="300" fill="#fff"/>"""
    days = [text(place(day), 290, str(day), GREY) for day in range(15)]
    parts = [head, *as_of(), *window(), *days, text(10, 290, "day", GREY, "start"), "</svg>\n"]
    PICTURE.write_text("\n".join(parts))


if __name__ == "__main__":
    main()
