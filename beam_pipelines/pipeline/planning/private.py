"""Private columns: those that the recipe allows personal data in."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import DataError, FindingsError, Problem, RecipeProblems
from beam_pipelines.core.private import HIDDEN, hide_found
from beam_pipelines.encodings.plan import Chain, EncodePlan, needs_fit
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.recipe.model import Recipe


@contextlib.contextmanager
def values_hidden(recipe: Recipe) -> Iterator[None]:
    """Raises errors of the body, without values of private columns.

    A worker or planner cannot tell whose value a message has.
    """
    try:
        yield
    except DataError as error:
        if not recipe.private or isinstance(error, FindingsError):
            raise
        raise DataError(hide_found(str(error))) from None
    except RecipeProblems as error:
        if not recipe.private:
            raise
        raise RecipeProblems([_without_value(each) for each in error.problems]) from None


def _without_value(problem: Problem) -> Problem:
    """Returns a problem of planning without values of the sampled rows."""
    source, option = problem.path[:1], problem.path[2:3]
    before, found, _ = problem.message.partition("found ")
    if source != ("sources",) or option in ((), ("path",)) or not found:
        return problem
    message = (
        f"{before}found {HIDDEN}, expected one that fits the others. Declare the column's type "
        "with 'types', or what means null with 'nulls'"
    )
    return problem._replace(message=message)


def private_features(recipe: Recipe, chains: Sequence[Chain]) -> set[str]:
    """Returns the private columns, and the features made of them."""
    private = set(recipe.hidden)
    for chain in chains:
        if private & set(chain.inputs):
            private.add(chain.name)
    return private


def private_problems(plan: Plan) -> Iterator[Problem]:
    """Yields what would store values of private columns outside the shards.

    These are encodings that are fitted on them, and keys whose values the manifest would have, as
    classes, times, or the least or largest in an expectation.
    """
    recipe = plan.recipe
    allowed = set(recipe.hidden)
    yield from _fitted(recipe, plan.encode)
    for check in plan.select.checks:
        yield from check.revealing(allowed)
    # Columns with values that the manifest has, by their keys.
    shown = {("split", "stratify"): recipe.split.stratify}
    if recipe.sample is not None:
        shown["sample", "by"] = tuple(filter(None, (recipe.sample.by or recipe.label,)))
    for path, names in shown.items():
        for name in allowed.intersection(names):
            message = f"found '{name}', whose values 'pii: {{allow: …}}' hides. 'protect' them"
            yield Problem(path, message)


def _fitted(recipe: Recipe, encode: EncodePlan) -> Iterator[Problem]:
    """Yields the encodings that are fitted on private columns."""
    private = private_features(recipe, encode.chains)
    for chain in encode.chains:
        for step in chain.steps:
            if needs_fit(step) and private & set(chain.inputs):
                message = (
                    f"found '{step.kind}' of a column that 'pii: {{allow: …}}' names: its values "
                    "would be stored with the encodings. Take 'hash_bucket', or 'protect' them"
                )
                yield Problem(("encode", chain.name), message)


def without_private(
    recipe: Recipe, encode: EncodePlan, raw: Sequence[Chunk], encoded: Sequence[Chunk]
) -> tuple[EncodePlan, Sequence[Chunk], Sequence[Chunk]]:
    """Returns encodings and sampled rows without private columns.

    Args:
      recipe: as it is.
      encode: the encodings.
      raw, encoded: sampled rows before and after encoding.
    """
    private = private_features(recipe, encode.chains)
    if not private:
        return encode, raw, encoded
    chains = tuple(chain for chain in encode.chains if chain.name not in private)
    return (
        dataclasses.replace(encode, chains=chains),
        [_without(chunk, private) for chunk in raw],
        [_without(chunk, private) for chunk in encoded],
    )


def _without(chunk: Chunk, names: set[str]) -> Chunk:
    left = [name for name in chunk.batch.schema.names if name not in names]
    return chunk._replace(batch=chunk.batch.select(left))
