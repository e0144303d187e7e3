"""Joins of two sources, by the overlap of their values."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.recipe.text.yaml_text import yaml_text
from beam_pipelines.sql.database import identifier
from beam_pipelines.sql.expressions import evaluate, parse_expression
from beam_pipelines_plugins.first_recipe.column_profile import ColumnProfile

# Share of a left column's values that the right one must have, by all rows and by a sample.
_OVERLAP, _OVERLAP_OF_SAMPLE = 0.8, 0.3
_KEY_COLUMNS = 4
# By these the values of two columns may be equal: numbers of texts, texts without case and blanks,
# days of times.
_FORMS = ("TRY_CAST({} AS BIGINT)", "lower(trim({}::VARCHAR))", "{}::DATE")


class Side(NamedTuple):
    """A source's side of a join.

    Attributes:
      name: of the source.
      columns: column -> profile.
      rows: sampled.
      is_whole: whether these are all rows.
      unread: number of rows that could not be read, and errors of some.
    """

    name: str
    columns: dict[str, ColumnProfile]
    rows: pa.Table
    is_whole: bool
    unread: tuple[int, tuple[str, ...]] = (0, ())


class JoinProposal(NamedTuple):
    """A join of a base source with another one.

    Attributes:
      on: pairs of left and right key column.
      overlap: share of the left values that have a partner; of several columns, the least.
      reason: one line.
    """

    on: tuple[tuple[str, str], ...]
    overlap: float
    reason: str


def propose_join(left: Side, right: Side) -> JoinProposal | None:
    """Returns the join by which left rows find one row at most.

    The right columns of the key are unique together. Whole numbers overlap by chance, so their
    columns must have related names: ``user`` and ``users.id``.
    """
    most = _OVERLAP if right.is_whole else _OVERLAP_OF_SAMPLE
    pairs = [
        (overlap, is_named, a, b)
        for a, b in itertools.product(left.columns.values(), right.columns.values())
        if _can_match(a, b)
        and ((is_named := are_related(a.name, b.name, right.name)) or _tells(a, b))
        and (overlap := overlap_of(a, b)) >= most
    ]
    single = [pair for pair in pairs if pair[3].is_unique]
    if single:
        overlap, _, a, b = max(
            single, key=lambda pair: (pair[1], pair[0], pair[2].name == pair[3].name)
        )
        return JoinProposal(
            ((a.name, b.name),),
            overlap,
            f"{overlap:.0%} of the {a.distinct:,} values of {left.name}.{a.name} are in "
            f"{right.name}.{b.name}, where each occurs once",
        )
    same = [(overlap, a, b) for overlap, _, a, b in pairs if a.name == b.name]
    for chosen in _unique_together(right.rows, [b.name for _, _, b in same]):
        overlap = min(overlap for overlap, a, _ in same if a.name in chosen)
        names = ", ".join(chosen)
        return JoinProposal(
            tuple((name, name) for name in chosen),
            overlap,
            f"{names} are unique together in {right.name}, and {left.name} has their values",
        )
    return None


def near_join(left: Side, right: Side) -> JoinProposal | None:
    """Returns the join of keys that one expression makes equal."""
    most = _OVERLAP if right.is_whole else _OVERLAP_OF_SAMPLE
    for a, b in itertools.product(left.columns.values(), right.columns.values()):
        are_times = all(map(pa.types.is_temporal, (a.type, b.type)))
        are_texts = pa.string() in (a.type, b.type) and are_related(a.name, b.name, right.name)
        if not b.is_unique or not a.distinct or not (are_times or are_texts):
            continue
        for form in _FORMS[2:] if are_times else _FORMS[:2]:
            ours, theirs = _formed(a, form), _formed(b, form)
            overlap = len(ours.filter(pc.is_in(ours, value_set=theirs))) / a.distinct
            if overlap >= most and len(theirs.unique()) == b.distinct:
                names, lines = [], []
                for side, one in ((left, a), (right, b)):
                    names.append(_key_name(side, one))
                    sql = yaml_text(form.format(identifier(one.name)))
                    lines.append(f"'derive: {{{yaml_text(names[-1])}: {sql}}}' to {side.name}")
                return JoinProposal(
                    ((names[0], names[1]),),
                    overlap,
                    f"{overlap:.0%} of the {a.distinct:,} values of {left.name}.{a.name} are in "
                    f"{right.name}.{b.name} by an expression. Add {' and '.join(lines)}; the join "
                    "is:",
                )
    return None


def _formed(column: ColumnProfile, form: str) -> pa.Array:
    """Returns a column's values by an expression, without nulls."""
    sql = form.format(identifier(column.name))
    batch = pa.record_batch({column.name: column.values})
    return evaluate(batch, parse_expression("key", sql, [column.name])).drop_null()


def _key_name(side: Side, column: ColumnProfile) -> str:
    """Returns a name that no column of a side has."""
    name = f"{column.name}_key"
    while name in side.columns:
        name += "_"
    return name


def overlap_of(left: ColumnProfile, right: ColumnProfile) -> float:
    """Returns the share of the left values that the right column has."""
    if not left.distinct or not right.distinct:
        return 0.0
    found = pc.sum(pc.is_in(left.values, value_set=right.values)).as_py()
    return int(found or 0) / left.distinct


def _can_match(left: ColumnProfile, right: ColumnProfile) -> bool:
    """Whether two columns have one type, and it can be a key's."""
    is_key = not (
        pa.types.is_floating(left.type)
        or pa.types.is_nested(left.type)
        or pa.types.is_boolean(left.type)
    )
    return is_key and left.type == right.type and left.distinct > 0


def _tells(left: ColumnProfile, right: ColumnProfile) -> bool:
    """Whether equal values are no chance: texts, and several of them."""
    return left.is_text and left.distinct > 1 and right.distinct > 1


def are_related(left: str, right: str, source: str) -> bool:
    """Whether the names say that one column refers to the other.

    They do if they are equal, or if the left one is the right source's name, with or without the
    right column's: ``user``, ``user_id``, ``users`` for ``users.id``.
    """
    first, second = words_of(left), words_of(right)
    if first == second:
        return True
    owner = [_singular(word) for word in words_of(source) if not word.isdigit()]
    singular = [_singular(word) for word in first]
    return any(singular in (name, [*name, *second]) for name in (owner, owner[-1:]) if name)


def words_of(name: str) -> list[str]:
    """Returns the words of a name in lower case: ``userId`` has two."""
    parted = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return [word for word in re.split(r"[^a-z0-9]+", parted.lower()) if word]


def _singular(word: str) -> str:
    for ending, single in (("ies", "y"), ("sses", "ss"), ("s", "")):
        if word.endswith(ending) and len(word) > len(ending) + 1:
            return word[: -len(ending)] + single
    return word


def _unique_together(rows: pa.Table, names: Sequence[str]) -> Iterable[tuple[str, ...]]:
    """Yields the smallest sets of columns whose values no two rows share."""
    for size in range(2, min(len(names), _KEY_COLUMNS + 1) + 1):
        for chosen in itertools.combinations(names, size):
            if rows.num_rows and _are_unique(rows, chosen):
                yield chosen
    if len(names) > _KEY_COLUMNS + 1 and _are_unique(rows, names):
        yield tuple(names)


def _are_unique(rows: pa.Table, names: Sequence[str]) -> bool:
    found = rows.select(list(names))
    if any(column.null_count for column in found.columns):
        return False
    # Arrow reads a name such as "." as a path.
    numbers = [str(number) for number in range(len(names))]
    groups = found.rename_columns(numbers).group_by(numbers).aggregate([])
    return bool(groups.num_rows == rows.num_rows)
