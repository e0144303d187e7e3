"""Chromium for tests of pages, and what they measure there."""

from __future__ import annotations

import importlib.util
import os
import shutil

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
# Chromium's own sandbox does not start as root.
OPTIONS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-sync",
    "--no-first-run",
] + ["--no-sandbox"] * (os.geteuid() == 0)

MARKS = [
    pytest.mark.browser,
    pytest.mark.end_to_end,
    pytest.mark.skipif(CHROMIUM is None, reason="found no Chromium; `make browser` installs Debian's"),
    pytest.mark.skipif(importlib.util.find_spec("playwright") is None, reason="found no playwright; it comes with [test]"),
]  # fmt: skip

# The rectangles of a node's text.
_RECTANGLES = """
  const rectangles = (node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    return [...range.getClientRects()].filter((one) => one.width > 1);
  };"""

# Texts that a box cuts off, or that a reader has to scroll sideways for. A value's name may end in
# an ellipsis, and the diagram of the pipeline may be wider than the screen.
CUT_OFF = f"""() => {{{_RECTANGLES}
  const found = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {{
    const node = walker.currentNode, parent = node.parentElement;
    if (!node.data.trim() || !parent.checkVisibility()) continue;
    if (parent.closest("script, .skip, .bars, figcaption, .scroll, thead")) continue;
    for (const one of rectangles(node)) {{
      if (one.right > innerWidth + 1 || one.left < -1) found.add(node.data.trim());
      for (let box = parent; box; box = box.parentElement) {{
        if (getComputedStyle(box).overflowX === "visible") continue;
        const edge = box.getBoundingClientRect();
        if (one.right > edge.right + 1 || one.left < edge.left - 1) found.add(node.data.trim());
      }}
    }}
  }}
  return [...found];
}}"""

# Heads of tables whose text begins and ends elsewhere than the texts of their column.
MISPLACED_HEADS = f"""() => {{{_RECTANGLES}
  const extent = (cells) => {{
    const all = cells.flatMap(rectangles);
    return all.length
      ? [Math.min(...all.map((one) => one.left)), Math.max(...all.map((one) => one.right))] : null;
  }};
  const found = [];
  for (const table of document.querySelectorAll("table")) {{
    if (!table.tHead || !table.checkVisibility()) continue;
    const heads = [...table.tHead.rows[0].cells];
    if (heads[0].getBoundingClientRect().right < 0) continue;
    const rows = [...table.tBodies].flatMap((body) => [...body.rows])
      .filter((row) => row.cells.length === heads.length && row.checkVisibility());
    heads.forEach((head, place) => {{
      const own = extent([head]), column = extent(rows.map((row) => row.cells[place]));
      if (!own || !column) return;
      if (Math.abs(own[0] - column[0]) > 3 && Math.abs(own[1] - column[1]) > 3)
        found.push(`${{head.textContent}}: ${{own.map(Math.round)}} over ${{column.map(Math.round)}}`);
    }});
  }}
  return found;
}}"""
