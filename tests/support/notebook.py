"""Runs the code cells of a notebook.

``python -m tests.support.notebook NOTEBOOK`` stores their outputs.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
from typing import Any


def run(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Runs all code cells in one namespace and returns their outputs.

    Jupyter stores the outputs in the same form. A cell's output is its printed text, then the value
    of its last expression as text, and as HTML if it has ``_repr_html_``.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    return [
        _run_cell("".join(cell["source"]), names)
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def _run_cell(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)  # noqa: S102 - of our own notebook
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append(
            {"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())}
        )
    if value is not None:
        data = {"text/plain": _lines(repr(value))}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = _lines(value._repr_html_())
        outputs.append(
            {"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": None}
        )
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main(path: str) -> None:
    """Runs a notebook in an empty folder and stores its outputs."""
    file = pathlib.Path(path).resolve()
    notebook = json.loads(file.read_text())
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        outputs = iter(run(notebook))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = next(outputs)
    file.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
