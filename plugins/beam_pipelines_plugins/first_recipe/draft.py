"""Drafts a recipe from sampled rows of its sources."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.analysis.epochs import OR_ZERO
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.row_chain import RowChain
from beam_pipelines.recipe.settings import Setting
from beam_pipelines.recipe.text.yaml import Scalar, Tree, parse_value
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.transforms import read
from beam_pipelines.transforms.row_positions import RowPositions
from beam_pipelines_plugins.first_recipe.column_profile import (
    ColumnProfile,
    Role,
    note_below,
    profile_columns,
)
from beam_pipelines_plugins.first_recipe.draft_sources import FoundTables, choose_base
from beam_pipelines_plugins.first_recipe.encodings import Proposal, propose_encodings
from beam_pipelines_plugins.first_recipe.joins import JoinProposal, Side, near_join, propose_join
from beam_pipelines_plugins.first_recipe.labels import Candidate, label_candidates
from beam_pipelines_plugins.first_recipe.splits import SplitProposal, propose_splits
from beam_pipelines_plugins.first_recipe.times import DerivedTime, with_times

# A sample: all ranges of a small source; else the beginnings of some files, spread over all.
_RANGES = 8
_ROWS, _BYTES = 500_000, 128 << 20
# Errors that a recipe shows.
_KINDS = 4
# With fewer rows a split may be empty.
FEW_ROWS = 50


@dataclasses.dataclass(frozen=True)
class DraftedJoin:
    """A join of the base source with another one.

    Attributes:
      source: the other one.
      found: by which columns; ``None``: no columns fit.
      prefix: of the columns that it adds.
      is_key: whether the right columns are known to be unique, by all rows.
      how: ``left`` or ``inner``.
      near: if no columns fit, the join by derived keys.
    """

    source: str
    found: JoinProposal | None
    prefix: str
    is_key: bool = False
    how: str = "left"
    near: JoinProposal | None = None


@dataclasses.dataclass(frozen=True)
class Draft:
    """The parts of a recipe beyond its sources.

    Attributes:
      joins: one for each source but the base.
      labels: candidates, the best first; at most the first one is certain.
      splits: possible ones, the best first.
      is_split: whether there are rows enough for a split.
      encodings: of the joined rows' columns.
      not_null: columns that rows must have a value of: the label, and the time of the split.
      unread: for each source with rows that could not be read, their number and some errors.
      times: of columns of numbers, whose place they take.
      choices: other decisions that are open.
    """

    joins: tuple[DraftedJoin, ...]
    labels: tuple[Candidate, ...]
    splits: tuple[SplitProposal, ...]
    is_split: bool
    encodings: tuple[Proposal, ...]
    not_null: tuple[str, ...]
    unread: tuple[tuple[int, tuple[str, ...]], ...] = ()
    times: tuple[DerivedTime, ...] = ()
    choices: tuple[str, ...] = ()

    @property
    def label(self) -> str | None:
        """The label, if it is certain."""
        return next((found.name for found in self.labels if found.is_certain), None)


def make_draft(tables: FoundTables) -> Draft:
    """Reads samples of sources, and drafts their recipe.

    Args:
      tables: the sources; the first one is the base.

    Raises:
      DataError: a file cannot be read.
    """
    draft = draft_of([sample_source(plan) for plan in tables.plans], tables.plans, tables.label)
    if not tables.splits:
        return draft
    of_files = SplitProposal("", "", "the files are the splits", files=tables.splits)
    return dataclasses.replace(draft, splits=(of_files, *draft.splits), is_split=True)


def with_base_first(plans: Sequence[SourcePlan]) -> FoundTables:
    """Returns the sources with the base first."""

    def joins_of(sides: Sequence[Side]) -> int:
        return sum(bool(join.found) for _, join in _drafted_joins(sides))

    return choose_base(plans, sample_source, joins_of)


def encode_settings(plan: Plan) -> list[Setting]:
    """Returns the encodings of a plan without some, as ``--encode`` sets them.

    Times that are numbers are derived first.

    Args:
      plan: of a bare file, perhaps with a label and derived columns, which are not encoded.

    Raises:
      DataError: the file cannot be read.
    """
    recipe, kept, side = plan.recipe, {*plan.encode.written}, sample_source(plan.base)
    new = {name: recipe.rename.get(name, name) for name in side.columns}
    columns = {
        new[name]: dataclasses.replace(column, name=new[name])
        for name, column in side.columns.items()
        if new[name] in kept
    }
    side = side._replace(columns=columns, rows=side.rows.rename_columns([*new.values()]))
    side, times = (side, []) if recipe.keep else with_times(side)
    sparse = {name for part in plan.sparse for name in part.columns}
    encodings = {
        proposal.name: parse_value(proposal.encoding, "--encode")[0]
        for proposal in _encodings([*side.columns.values()], recipe.label, sparse)
        if proposal.encoding
    }
    settings = [Setting(("encode",), encodings, "--encode")]
    if times:
        dropped: list[Tree] = [Scalar(name, name) for name in recipe.drop]
        dropped += [Scalar(time.number, time.number) for time in times]
        settings.append(Setting(("drop",), dropped, "--encode"))
    return settings + [
        Setting(("derive", time.name), Scalar(time.sql, time.sql), "--encode") for time in times
    ]


def joined_encodings(plan: Plan) -> tuple[Proposal, ...]:
    """Returns encodings for joined columns of a recipe that have none.

    Private columns stay as they are: a reason or a scale would show their values.

    Raises:
      DataError: a file cannot be read, or there are no rows.
    """
    firsts = [byte_range for byte_range in plan.base.ranges if byte_range.number_in_file == 0]
    chosen = firsts[:: -(-len(firsts) // _RANGES)]
    rows = RowChain(plan, reject=True, skips_large=True)
    batches = [chunk.batch for byte_range in chosen for chunk in rows.select(byte_range)]
    if not any(batch.num_rows for batch in batches):
        raise DataError(
            f"{plan.base.source.name}: found no row after 'filter' and joins in the rows that init "
            "has read, expected some to propose encodings by."
        )
    encoded = {name for chain in plan.encode.chains for name in (chain.name, *chain.inputs)}
    wanted = [
        name
        for name in batches[0].schema.names
        if name in plan.encode.written and name not in encoded
    ]
    own = {*plan.base.schema.names}
    columns = [
        dataclasses.replace(column, is_joined=column.name not in own)
        for column in profile_columns(pa.Table.from_batches(batches).select(wanted)).values()
    ]
    sparse = {name for part in plan.sparse for name in part.columns}
    proposals = _encodings(columns, plan.recipe.label, sparse, time=plan.recipe.split.time_column)
    private = {*plan.recipe.private}
    return tuple(
        Proposal(found.name, "", "its values are private") if found.name in private else found
        for found in proposals
    )


def sample_source(plan: SourcePlan) -> Side:
    """Reads the beginnings of some files of a source.

    Rows that cannot be read are left out.

    Raises:
      DataError: none can be read.
    """
    is_whole = len(plan.ranges) <= _RANGES
    chosen = list(plan.ranges)
    if not is_whole:
        firsts = [byte_range for byte_range in plan.ranges if byte_range.number_in_file == 0]
        chosen = firsts[:: -(-len(firsts) // _RANGES)]
    positions, batches = RowPositions(plan), []
    rejected: list[Rejected] = []
    for byte_range in chosen:
        rows = size = 0
        states = positions.quote_states(byte_range)
        for chunk in read.read_range(plan, byte_range, states, reject=True):
            batch = chunk.batch.select(plan.schema.names)
            batches.append(batch)
            rejected += chunk.rejected
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= _ROWS // len(chosen) or size >= _BYTES // len(chosen):
                is_whole = False
                break
    table = pa.Table.from_batches(batches, plan.schema)
    if rejected and not len(table):
        raise DataError(rejected[0].describe())
    return Side(plan.source.name, profile_columns(table), table, is_whole, _unread(rejected))


def _unread(rejected: Sequence[Rejected]) -> tuple[int, tuple[str, ...]]:
    """Returns the number of unread rows, and errors of some kinds."""
    kinds = {re.sub(r"\d+", "", row.reason): row for row in reversed(rejected)}
    return len(rejected), tuple(row.describe() for row in [*kinds.values()][: -_KINDS - 1 : -1])


def draft_of(
    sides: Sequence[Side], plans: Sequence[SourcePlan], label: Candidate | None = None
) -> Draft:
    """Returns the draft of sampled sources; the first one is the base."""
    base, drafted = sides[0], _drafted_joins(sides)
    joins = tuple(
        join if join.found else dataclasses.replace(join, near=near_join(base, side))
        for side, join in drafted
    )
    keys = {a for join in joins if join.found for a, _ in join.found.on}
    base, times = with_times(base)
    own = [
        dataclasses.replace(column, is_key=column.name in keys) for column in base.columns.values()
    ]
    joined = list[ColumnProfile]()
    for side, join in drafted:
        if join.found:
            columns, more = _joined(side, join)
            joined, times = [*joined, *columns], [*times, *more]
    sparse = {name for plan in plans for part in plan.sparse for name in part.columns}
    labels = (label,) if label else tuple(label_candidates(own, keys, plans[0].labels))
    chosen = next((found.name for found in labels if found.is_certain), None)
    known = next((column for column in own if column.name == chosen), None)
    # A time that is 0 in some rows is null there, and a split needs one of every row.
    with_zeros = {time.name for time in times if time.unit.endswith(OR_ZERO)}
    times_of_all = [column for column in own if column.name not in with_zeros]
    splits = tuple(propose_splits(times_of_all, keys, base.is_whole, known))
    if not any(split.before for split in splits):  # the other table may have the time
        of_joined = propose_splits(joined, (), base.is_whole)
        splits = (*splits, *(split for split in of_joined if split.before))
    if splits and splits[0].before and not _can_fit(base.rows, splits[0]):
        splits = (*splits[1:], splits[0])
    is_split = base.rows.num_rows >= FEW_ROWS or not base.is_whole
    time = splits[0].column if is_split and splits[0].before else None
    grouped = splits[0].column if is_split and not splits[0].before else ""
    numbers = {one.name: one.number for one in times}
    needed = [numbers.get(name, name) for name in (chosen, time) if name is not None]
    whole = sides[0].columns
    return Draft(
        joins,
        labels,
        splits,
        is_split,
        _encodings([*own, *joined], chosen, sparse, grouped, time),
        tuple(
            name
            for name in dict.fromkeys(needed)
            if name in whole and (whole[name].nulls or not base.is_whole)
        ),
        tuple(side.unread for side in sides if side.unread[0]),
        tuple(times),
        tuple(choice for side in sides for choice in note_below(side.rows)),
    )


def _drafted_joins(sides: Sequence[Side]) -> list[tuple[Side, DraftedJoin]]:
    """Returns the joins, those first that others need.

    A source that the base does not name is looked for in the columns of joined sources.
    """
    base, joined = sides[0], list[tuple[Side, DraftedJoin]]()
    taken = set(base.columns)
    prefixes = {}
    for side in sides[1:]:
        prefix = f"{side.name}_"
        while any(prefix + name in taken for name in side.columns):
            prefix += "_"
        taken |= {prefix + name for name in side.columns}
        prefixes[side.name] = prefix
    rest = list(sides[1:])
    lefts = [(base, "")]
    for left, left_prefix in lefts:  # grows
        for side in tuple(rest):
            if found := propose_join(left, side):
                prefix = prefixes[side.name]
                on = tuple((left_prefix + a, b) for a, b in found.on)
                drafted = DraftedJoin(side.name, found._replace(on=on), prefix, side.is_whole)
                joined.append((side, drafted))
                lefts.append((side, prefix))
                rest.remove(side)
    return [*joined, *((side, DraftedJoin(side.name, None, prefixes[side.name])) for side in rest)]


def _joined(side: Side, join: DraftedJoin) -> tuple[list[ColumnProfile], list[DerivedTime]]:
    """Returns the columns that a join adds, and their times."""
    keys = {right for _, right in join.found.on} if join.found else set()
    added = {name: column for name, column in side.columns.items() if name not in keys}
    side, times = with_times(side._replace(columns=added), join.prefix)
    columns = side.columns.values()
    return [
        dataclasses.replace(column, name=join.prefix + column.name, is_joined=True)
        for column in columns
    ], times


def _encodings(
    columns: Sequence[ColumnProfile],
    label: str | None,
    sparse: set[str],
    grouped: str = "",
    time: str | None = None,
) -> tuple[Proposal, ...]:
    """Returns the encodings; a table of nothing but names keeps them."""
    proposals = propose_encodings(columns, label, sparse, grouped, time)
    if all(proposal.encoding == "drop" for proposal in proposals) and not sparse:
        names = {column.name for column in columns}
        kept = {column.name for column in columns if column.role is Role.IDENTIFIER} or names
        proposals = [one._replace(encoding="") if one.name in kept else one for one in proposals]
    return tuple(proposals)


def _can_fit(rows: pa.Table, split: SplitProposal) -> bool:
    """Whether every column has a value in the rows to fit on."""
    moments = rows.column(split.column)
    kind = moments.type  # a moment is written without its zone, in UTC
    written = pa.timestamp(kind.unit) if pa.types.is_timestamp(kind) else kind
    before = pa.scalar(split.before).cast(written).cast(kind)
    train = rows.filter(pc.less(moments, before))
    return train.num_rows > 0 and all(
        len(column.drop_null()) or not len(rows.column(name).drop_null())
        for name, column in zip(train.column_names, train.columns, strict=True)
    )
