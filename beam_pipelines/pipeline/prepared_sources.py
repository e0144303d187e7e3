"""Reads sources before a run, such as databases, and keeps their rows."""

from __future__ import annotations

import dataclasses
import tempfile

from beam_pipelines.files.beam import files
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.runners.progress import ProgressLog, show_progress
from beam_pipelines.sources import format_of
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.source_format import Format
from beam_pipelines.transforms.join.plan import plan_join

# In the temporary folder of a run.
_FOLDER = "tables"


def has_tables(plan: Plan) -> bool:
    """Whether a source of a plan is read before the run."""
    return any(format_of(source).is_kept for source in plan.sources.values())


def keep_plan(plan: Plan, temporary: str, quiet: bool) -> Plan:
    """Returns the plan with such sources in files, of one snapshot.

    Args:
      plan: of the conversion.
      temporary: the temporary folder of the run, which workers see.
      quiet: whether no progress is shown.

    Raises:
      DataError: as ``Format.keep`` raises it.
    """
    tables = {name: one for name, one in plan.sources.items() if format_of(one).is_kept}
    if not tables:
        return plan
    base, take = plan.recipe.base, plan.take
    limits = {base: take.limit} if take and take.limit is not None and base in tables else {}
    kinds: dict[type[Format], dict[str, SourcePlan]] = {}
    for name, one in tables.items():
        kinds.setdefault(type(format_of(one)), {})[name] = one
    kept: dict[str, SourcePlan] = {}
    with tempfile.TemporaryDirectory(prefix="beam-pipelines-") as progress:
        log = ProgressLog(progress)
        with show_progress(log, 0, quiet):
            for own in kinds.values():
                kept |= format_of(next(iter(own.values()))).keep(
                    own,
                    limits,
                    files.join(temporary, _FOLDER),
                    lambda rows: log.add(rows, 0, "read"),
                )
    sources = {**plan.sources, **kept}
    # The strategies of joins followed from estimates.
    joins = plan_join(plan.recipe.join, sources[base], sources)
    return dataclasses.replace(plan, sources=sources, joins=joins)
