"""Renders the page from its templates."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beam_pipelines.analysis.anomalies import Row
from beam_pipelines.analysis.drift import LARGE_DRIFT
from beam_pipelines.analysis.report import markup
from beam_pipelines.analysis.report.details import show_table
from beam_pipelines.analysis.report.diagram import draw_pipeline
from beam_pipelines.analysis.report.features import describe_slices, show_features
from beam_pipelines.analysis.report.values import PAGE, Report
from beam_pipelines.core.errors import mask
from beam_pipelines.core.formatting import shorten, show_bytes, show_number, show_share
from beam_pipelines.core.version import __version__

if TYPE_CHECKING:
    import jinja2


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
        features=show_features(report),
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
    environment.globals |= {
        "SPLIT_COLORS": markup.SPLIT_COLORS,
        "LARGE_DRIFT": LARGE_DRIFT,
        "PAGE": PAGE,
    }
    environment.filters |= {
        "anchor": markup.anchor,
        "bytes": show_bytes,
        "clipped": shorten,
        "commas": "{:,}".format,
        "css_text": _css_text,
        "details": show_table,
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
