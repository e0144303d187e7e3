"""Drafts a recipe for a folder of images."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.files.beam import files, listing
from beam_pipelines.recipe.joins import Join
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.sources.images.folder import CLASS, LABEL
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines_plugins.first_recipe.column_profile import ColumnProfile
from beam_pipelines_plugins.first_recipe.draft import FEW_ROWS, Draft, DraftedJoin, sample_source
from beam_pipelines_plugins.first_recipe.draft_sources import LeftOut
from beam_pipelines_plugins.first_recipe.encodings import Proposal, propose_encodings
from beam_pipelines_plugins.first_recipe.joins import JoinProposal, Side
from beam_pipelines_plugins.first_recipe.labels import Candidate, label_candidates
from beam_pipelines_plugins.first_recipe.splits import SplitProposal, propose_splits

_SIZE = ("image/height", "image/width")


def draft_of_images(recipe: Recipe, plans: Sequence[SourcePlan]) -> Draft:
    """Reads a sample of images and their table, and drafts their recipe.

    Args:
      recipe: for the folder, as ``image_folder`` makes it.
      plans: of its sources; the first one is of the images.

    Raises:
      DataError: a file cannot be read.
    """
    images, *tables = [sample_source(plan) for plan in plans]
    pairs = list(zip(recipe.join, tables, strict=True))
    own = [
        column
        for join, table in pairs
        for column in table.columns.values()
        if column.name not in {right for _, right in join.on}
    ]
    if recipe.label and own:
        labels = [Candidate(recipe.label, "the only other column of the table", True)]
    elif recipe.label:
        labels = [Candidate(LABEL, "the folder of each image", True)]
    else:
        labels = label_candidates(own)
    certain = next((found.name for found in labels if found.is_certain), None)
    splits, is_split = _splits(recipe, images, next((c for c in own if c.name == certain), None))
    encodings = list(propose_encodings(own, certain))
    if certain == LABEL and CLASS in images.columns:
        [of_classes] = propose_encodings([images.columns[CLASS]], CLASS)
        encodings.append(Proposal(LABEL, "", of_classes.reason))
    return Draft(
        tuple(_join(join, images, table) for join, table in pairs),
        tuple(labels),
        splits,
        is_split,
        tuple(encodings),
        tuple(column.name for column in own if column.name == certain and column.nulls),
        tuple(side.unread for side in (images, *tables) if side.unread[0]),
        choices=tuple(_sizes(images.rows)),
    )


def _join(join: Join, images: Side, table: Side) -> DraftedJoin:
    [(left, right)] = join.on
    names, keys = images.rows.column(left), table.rows.column(right)
    found = pc.sum(pc.is_in(names, value_set=keys.combine_chunks())).as_py() or 0
    missing = len(keys) - (pc.sum(pc.is_in(keys, value_set=names.combine_chunks())).as_py() or 0)
    reason = f"{found:,} of {len(names):,} images are in {join.source}.{right}"
    if missing and images.is_whole:
        reason += f"; {missing:,} of its {len(keys):,} rows have no image"
    if found < len(names):
        reason += ". 'how: left' keeps the other images"
    return DraftedJoin(
        join.source,
        JoinProposal(join.on, found / max(1, len(names)), reason),
        join.prefix,
        is_key=True,
        how=join.how,
    )


def _splits(
    recipe: Recipe, images: Side, label: ColumnProfile | None
) -> tuple[tuple[SplitProposal, ...], bool]:
    """Returns the splits, and whether there are images enough for one."""
    if recipe.label == LABEL and LABEL in images.columns:
        label = dataclasses.replace(images.columns[LABEL], is_key=True)
    splits = tuple(propose_splits([], (), images.is_whole, label))
    if not recipe.split.files:
        return splits, images.rows.num_rows >= FEW_ROWS or not images.is_whole
    patterns = tuple(recipe.split.files.items())
    return (SplitProposal("", "", "the folders are the splits", files=patterns), *splits), True


def others_in(folder: str, plans: Sequence[SourcePlan]) -> Iterator[LeftOut]:
    """Yields files that nothing reads, those of a suffix together."""
    known = {os.path.normpath(file.path) for plan in plans for file in plan.files}
    others: dict[str, list[str]] = {}
    for file in listing.list_files(files.join(folder, "**")):
        if os.path.normpath(file.path) not in known:
            others.setdefault(os.path.splitext(file.path)[1], []).append(file.path)
    for suffix, paths in others.items():
        more = f", nor {len(paths) - 1:,} more files of {suffix}" if len(paths) > 1 else ""
        yield LeftOut(paths[0], f"no table names it{more}")


def _sizes(images: pa.Table) -> Iterator[str]:
    """Yields the decision on images of several sizes."""
    if not set(_SIZE) <= set(images.column_names) or not images.num_rows:
        return
    ends = [pc.min_max(images.column(name)) for name in _SIZE]
    if any(end["min"] != end["max"] for end in ends):
        least, most = (f"{ends[0][end]} x {ends[1][end]}" for end in ("min", "max"))
        yield (
            f"images have {least} to {most} pixels. A batch needs one size: "
            "'image: {resize: [224, 224]}' of the source, or the trainer resizes them"
        )
