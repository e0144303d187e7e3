"""Renders the page from its templates."""

from __future__ import annotations

import base64
import hashlib
import re
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beam_pipelines.analysis.anomalies import Row
from beam_pipelines.analysis.drift import LARGE_DRIFT
from beam_pipelines.analysis.report.details import Cell, DetailTable
from beam_pipelines.analysis.report.diagram import draw_pipeline
from beam_pipelines.analysis.report.features import describe_features, describe_slices
from beam_pipelines.analysis.report.values import SPLIT_COLORS, Report
from beam_pipelines.core.errors import mask
from beam_pipelines.core.formatting import show_bytes, show_number, show_share
from beam_pipelines.core.version import __version__

if TYPE_CHECKING:
    import jinja2
    from markupsafe import Markup


_SPECIAL = re.compile("[&<>\"']")


def render_report(report: Report) -> str:
    """Returns the report as one HTML page.

    Equal reports give equal bytes. The templates escape every value. A content security policy
    forbids the browser to load anything and to run any script but the page's own.
    """
    environment = page_environment()
    script = page_file(environment, "page.js")
    # The browser hashes the text between the tags, which starts with a line break.
    digest = base64.b64encode(hashlib.sha256(f"\n{script}".encode()).digest()).decode()
    manifest, statistics, data = report
    anomalies = data.anomalies
    columns = next(iter(statistics.values())).columns if statistics else {}
    return environment.get_template("page.html").render(
        manifest=manifest,
        statistics=statistics,
        **vars(data),
        accepted=sum(row.is_accepted for row in anomalies),
        anomaly_lines=_by_feature(anomalies),
        # The name of the recipe's schema; empty: it was inferred.
        contract=manifest.contract and (manifest.recipe.get("schema") or "that was given"),
        recipe=_recipe_text(manifest.recipe),
        features=describe_features(report),
        names=list(columns),
        slices=describe_slices(report),
        diagram=draw_pipeline(manifest),
        script=script,
        script_hash=f"sha256-{digest}",
        style=page_file(environment, "page.css"),
        version=__version__,
    )


def _recipe_text(recipe: Mapping[str, Any]) -> str:
    """Returns a normal form as YAML, without what is empty."""
    import yaml  # here, because workers do not need it

    def filled(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        items = ((name, filled(item)) for name, item in value.items())
        return {name: item for name, item in items if item not in (None, [], {}, "")}

    return yaml.safe_dump(filled(recipe), sort_keys=False, allow_unicode=True, width=100)


def page_environment() -> jinja2.Environment:
    """Returns the templates of pages, which escape every value."""
    # Here, because workers and `--help` do not need them.
    import jinja2

    from beam_pipelines.analysis.report.template_cache import TemplateCache

    loader = jinja2.PackageLoader("beam_pipelines.analysis.report", "")
    environment = jinja2.Environment(
        loader=loader,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        bytecode_cache=TemplateCache(),
    )
    environment.globals |= {"SPLIT_COLORS": SPLIT_COLORS, "LARGE_DRIFT": LARGE_DRIFT}
    environment.filters |= {
        "anchor": anchor,
        "bytes": show_bytes,
        "cell": _show_cell,
        "clipped": _clip,
        "commas": "{:,}".format,
        "css_text": _css_text,
        "details": _show_table,
        "g": "{:g}".format,
        "mask": mask,
        "number": show_number,
        "section": lambda title: title.lower().replace(" ", "-"),
        "share": show_share,
        "sizes": _show_sizes,
    }
    return environment


def page_file(environment: jinja2.Environment, name: str) -> str:
    """Returns a file of the pages, such as their style."""
    if environment.loader is None:
        raise ValueError("found an environment without templates, expected page_environment()")
    return environment.loader.get_source(environment, name)[0]


def anchor(name: str) -> str:
    """Returns the fragment of the page's address that leads to a feature."""
    return f"feature-{urllib.parse.quote(name, safe='')}"


def _clip(text: str, characters: int = 120) -> str:
    """Returns a text, cut with an ellipsis if it is too long."""
    return text if len(text) <= characters else text[: characters - 1] + "…"


def _show_table(table: DetailTable) -> Markup:
    """Returns a table as HTML, in a tenth of a macro's time."""
    from markupsafe import Markup

    heads = "".join(f"<th>{_escaped(head)}" for head in (table.title, *table.heads))
    lines = [f'<div class="part {table.style}"><table><thead><tr>{heads}<tbody>\n']
    for name, cells in table.lines:
        shown = _escaped(_clip(name)) if name.strip() else "<i class=soft>blank</i>"
        lines += [
            f"<tr><th>{shown}",
            *(f"<td>{_cell_text(cell)}\n" for cell in cells),
            "\n",
        ]
    return Markup("".join([*lines, "</table></div>"]))  # noqa: S704 - every value is escaped


def _show_cell(cell: Cell) -> Markup:
    """Returns a cell as HTML, see ``_show_table``."""
    from markupsafe import Markup

    return Markup(_cell_text(cell))  # noqa: S704 - every value is escaped


def _escaped(text: str) -> str:
    """Returns a text as HTML; ``escape`` takes five times as long."""
    if not _SPECIAL.search(text):
        return text
    from markupsafe import escape  # as Jinja

    return escape(text)


def _cell_text(cell: Cell) -> str:
    text = _escaped(cell.text)
    if cell.end:
        text = f"<span>{text}</span> – <span>{_escaped(cell.end)}</span>"
    elif cell.is_high:
        text = f"<b class=high>{text}</b>"
    return f"{text} <small>{_escaped(cell.small)}</small>" if cell.small else text


def _css_text(text: str) -> str:
    """Returns a text as a string of CSS, with escapes where needed."""
    return "".join(
        letter if letter.isascii() and letter.isalnum() else f"\\{ord(letter):x} "
        for letter in text
    ).join('""')


def _show_sizes(sizes: Sequence[int]) -> str:
    """Returns the sizes of the smallest and the largest shard."""
    if not sizes:
        return "–"
    low, high = show_bytes(min(sizes)), show_bytes(max(sizes))
    return low if low == high else f"{low} – {high}"


def _by_feature(anomalies: Iterable[Row]) -> list[tuple[Row, str]]:
    """Returns each distinct anomaly with its splits, grouped by feature."""
    splits: dict[Row, list[str]] = {}
    for row in anomalies:
        splits.setdefault(row._replace(split=""), []).append(row.split)
    order = {row.feature: number for number, row in reversed(list(enumerate(splits)))}
    return [
        (row, ", ".join(names))
        for row, names in sorted(splits.items(), key=lambda line: order[line[0].feature])
    ]
