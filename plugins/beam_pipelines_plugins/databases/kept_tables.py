"""Reads the databases of a plan before its run."""

from __future__ import annotations

import dataclasses
import tempfile

from beam_pipelines.pipeline.plan import Plan
from beam_pipelines.runners.progress import ProgressLog, show_progress
from beam_pipelines.storage import files
from beam_pipelines.transforms.join.plan import plan_join
from beam_pipelines_plugins.databases.conditions import with_condition
from beam_pipelines_plugins.databases.keep import keep_tables

# In the temporary folder of a run.
_FOLDER = "tables"


def has_tables(plan: Plan) -> bool:
    """Whether a source of a plan is in a database."""
    return any(source.source.url is not None for source in plan.sources.values())


def keep_plan(plan: Plan, temporary: str, quiet: bool) -> Plan:
    """Returns the plan with rows of databases in files, of one snapshot.

    Args:
      plan: of the conversion.
      temporary: the temporary folder of the run, which workers see.
      quiet: whether no progress is shown.

    Raises:
      DataError: as ``keep_tables`` raises it.
    """
    tables = {
        name: source for name, source in plan.sources.items() if source.source.url is not None
    }
    if not tables:
        return plan
    base, take = plan.recipe.base, plan.take
    if take and base in tables:
        # A part of the rows is taken before the filter.
        tables[base] = with_condition(tables[base], None, plan.recipe.rename)
    limits = {base: take.limit} if take and take.limit is not None and base in tables else {}
    with tempfile.TemporaryDirectory(prefix="beam-pipelines-") as progress:
        log = ProgressLog(progress)
        with show_progress(log, 0, quiet):
            kept = keep_tables(
                tables,
                limits,
                files.join(temporary, _FOLDER),
                lambda rows: log.add(rows, 0, "read"),
            )
    sources = {**plan.sources, **kept}
    # The strategies of joins followed from estimates.
    joins = plan_join(plan.recipe.join, sources[base], sources)
    return dataclasses.replace(plan, sources=sources, joins=joins)
