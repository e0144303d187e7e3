"""Writes the pages of the Python interface from docstrings.

Run it with ``python -m tests.support.api_page``.
"""

from __future__ import annotations

import dataclasses
import inspect
import pathlib
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import beam_pipelines as bp

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
INTRODUCTION = """\
# {title}

<!-- Made from the docstrings by `make api`; a test compares. -->

{text}
"""
_RUNS = (
    "`import beam_pipelines as bp` takes milliseconds: each name loads its module when it is first "
    "used. What is neither here nor on the pages of [datasets](api_datasets.md) and "
    "[readers](api_readers.md) is private and may change."
)
_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):$")
_TITLES = {"Args": "Arguments"}
_ITEM = re.compile(r"^(\w[\w, ]*): (.*)$")
# Page -> its title, text and names.
PAGES = {
    "api.md": ("Python interface", _RUNS, (
        "convert", "plan", "describe", "validate", "transform", "make_graph",
        "Description", "Plan", "Recipe", "PolicyOptions", "register_format", "register_encoding",
        "RecipeError", "DataError",
    )),
    "api_datasets.md": ("Python interface: datasets", "[Opening a dataset](loading.md), in examples.", (
        "open", "Dataset", "FeatureInfo", "Encoder",
    )),
    "api_readers.md": ("Python interface: reading", "[Reading batches](loading.md), in examples.", (
        "Reader", "Ragged", "Keyed", "Lookup", "Image", "mix", "load", "inspect", "verify",
    )),
}  # fmt: skip


def page(name: str) -> str:
    """Returns a page as Markdown."""
    title, text, public = PAGES[name]
    entries = "".join(f"\n{_entry(each)}" for each in public)
    return INTRODUCTION.format(title=title, text=text) + entries


def _entry(name: str) -> str:
    public = getattr(bp, name)
    lines = [f"## bp.{name}", ""]
    if inspect.isfunction(public):
        lines += [
            "<!-- not run: signature -->",
            "```python",
            *_signature(f"bp.{name}", public),
            "```",
            "",
        ]
    lines += _markdown(inspect.getdoc(public) or "")
    if inspect.isclass(public) and public.__module__.startswith("beam_pipelines"):
        for method, function in _members(public):
            lines += [
                "",
                f"**`{method}`** — " + "\n".join(_markdown(inspect.getdoc(function) or "")),
            ]
    return "\n".join(lines).rstrip() + "\n"


def _members(public: type) -> Iterator[tuple[str, Any]]:
    """Yields the documented public methods and properties that a class defines itself."""
    if dataclasses.is_dataclass(public) and public.__name__ == "Recipe":
        return
    for name, member in vars(public).items():
        if name.startswith("_"):
            continue
        if inspect.isfunction(member):
            signature = str(inspect.signature(member)).replace("self, ", "").replace("(self)", "()")
            yield f".{name}{signature.split(' -> ')[0]}", member
        elif isinstance(member, property) or hasattr(member, "func"):
            yield f".{name}", member


def _signature(name: str, function: Any) -> list[str]:
    signature = inspect.signature(function)
    parts, starred = [], False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        parts.append(_parameter(parameter))
    returns = signature.return_annotation
    arrow = "" if returns is inspect.Signature.empty else f" -> {returns}"
    line = f"{name}({', '.join(parts)}){arrow}"
    if len(line) <= 100:
        return [line]
    return [f"{name}(", *(f"    {part}," for part in parts), f"){arrow}"]


def _parameter(parameter: inspect.Parameter) -> str:
    """Returns a parameter as it is written in the source."""
    text = re.sub(r": '([^']*)'", r": \1", str(parameter))
    return re.sub(r"PolicyOptions\(.*\)", "PolicyOptions()", text)


def _markdown(docstring: str) -> list[str]:
    """Returns Google's sections as bold titles and lists."""
    lines: list[str] = []
    section = ""
    for paragraph in re.split(r"\n(?=\S)|\n\n", docstring.replace("``", "`")):
        first, _, rest = paragraph.partition("\n")
        if match := _SECTION.match(first):
            section = match[1]
            lines += ["", f"{_TITLES.get(section, section)}:", "", *_items(textwrap.dedent(rest))]
        else:
            text = " ".join(part.strip() for part in paragraph.split("\n"))
            lines += [text] if not lines or lines[-1] == "" else _continued(lines, text, docstring)
    return lines


def _continued(lines: list[str], text: str, docstring: str) -> list[str]:
    """Joins a line to its paragraph, or begins a new paragraph."""
    starts = f"\n\n{text.split(' ', maxsplit=1)[0]}" in docstring.replace("``", "`")
    if starts or lines[-1].startswith("- "):
        return ["", text]
    lines[-1] += f" {text}"
    return []


def _items(text: str) -> list[str]:
    items: list[str] = []
    for line in text.split("\n"):
        match = _ITEM.match(line)
        if match:
            names = ", ".join(f"`{name}`" for name in match[1].split(", "))
            items.append(f"- {names}: {match[2]}")
        elif (line.startswith(" ") and items) or (items and not items[-1].startswith("- `")):
            items[-1] += f" {line.strip()}"
        elif line.strip():
            items.append(line.strip())
    return items


if __name__ == "__main__":
    for name in PAGES:
        (DOCS / name).write_text(page(name))
