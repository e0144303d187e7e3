"""Splits by shares, a column or files, and their reader."""

from __future__ import annotations

import dataclasses
import datetime
import fractions
import math
import re
from collections.abc import Mapping

from beam_pipelines.core.errors import nearest_word
from beam_pipelines.recipe import keys, values

_UTC = datetime.timezone.utc
MOST_FOLDS = 100


def iso_moment(text: str) -> datetime.datetime:
    """Parses an ISO 8601 date or time; without an offset in UTC.

    Raises:
      ValueError: it is none.
    """
    is_utc = text.endswith(("Z", "z"))
    moment = datetime.datetime.fromisoformat(f"{text[:-1]}+00:00" if is_utc else text)
    return moment if moment.tzinfo is None else moment.astimezone(_UTC).replace(tzinfo=None)


@dataclasses.dataclass(frozen=True)
class TimeSplit:
    """A split by a column.

    Its rows have ``after <= column < before``, or one of the values. Bounds are ISO 8601 texts.
    They and the values are compared as the column's own type.
    """

    name: str
    after: str | None = keys.recipe_key(values.read_text, None, "unbounded", "Inclusive bound.")
    before: str | None = keys.recipe_key(values.read_text, None, "unbounded", "Exclusive bound.")
    values: tuple[str, ...] = keys.plain_key(
        values.read_texts, (), "The column's values, instead of bounds.", omitted=True
    )


@dataclasses.dataclass(frozen=True)
class FileSplit:
    """A split by files."""

    files: str = keys.needed_key(values.read_text, "Pattern of the files' paths.", "'*2012*'")


@dataclasses.dataclass(frozen=True)
class Split:
    """How rows are divided: by shares, a column or files.

    Attributes:
      fractions: split name -> share; shares add up to 1.
      times: splits by a column. A row in none of them, or with a null, is an error.
      files: split name -> pattern, matched (fnmatch) against the path of the ``from`` source's
        file.
      folds: ``fractions`` has a split of equal share for each of them, the last ones.
    """

    fractions: Mapping[str, float] = dataclasses.field(default_factory=lambda: {"train": 1.0})
    by: tuple[str, ...] = keys.recipe_key(
        values.read_texts, (), "the whole row", "With shares: columns whose hash decides."
    )
    stratify: tuple[str, ...] = keys.plain_key(
        values.read_texts,
        (),
        "With shares: columns, each combination of whose values is divided by the shares.",
        omitted=True,
    )
    folds: int | None = keys.plain_key(
        values.read_integer(2, MOST_FOLDS),
        None,
        "Divides what the shares leave into this number of equal splits.",
        omitted=True,
    )
    seed: int = keys.plain_key(
        values.read_integer(0, (1 << 63) - 1),
        0,
        "With shares: another seed, other rows.",
        omitted=True,
    )
    time_column: str | None = keys.recipe_key(
        values.read_text, None, "none", "The column of bounds or values.", name="column"
    )
    times: tuple[TimeSplit, ...] = ()
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Split names in the recipe's order."""
        return tuple(self.files) or tuple(time.name for time in self.times) or tuple(self.fractions)

    @property
    def shares(self) -> dict[str, float]:
        """Split name -> expected share; empty by time and by files."""
        return dict(self.fractions)


# Key of a split -> its kind.
_KINDS = {"files": "files", "values": "values", "after": "bounds", "before": "bounds"}
READ_PART = values.read_share(
    "a share above 0 and at most 1, as 0.8 or 80%", lambda share: 0 < share <= 1
)
# TFX's rule for the names of splits.
SPLIT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def read_split(value: values.Value) -> Split | None:
    """Reads the splits; their values tell the kind."""
    if not isinstance(value.tree, dict):
        value.expected("a mapping such as {train: 0.8, eval: 0.2}")
        return None
    known = {declared.name: declared for declared in keys.keys_of(Split).values()}
    given = {name: known[name].read(item) for name, item in value.items() if name in known}
    parts = [(name, item) for name, item in value.items() if name not in known]
    if not parts and "folds" not in given:
        value.wrong("found no splits, expected at least one, as {train: 0.8, eval: 0.2}.")
        return None
    for name, item in parts:
        meant = nearest_word(name, known.keys() - given.keys())
        is_near = meant is not None and len({*name} ^ {*meant}) < 3
        # A share other than 1 has a point or a percent sign.
        if is_near and item.shown.startswith("'") and not {*".%"} & {*item.shown}:
            item.wrong_key(f"found an unknown key '{name}'. Did you mean '{meant}'?", meant)
            parts = [one for one in parts if one[0] != name]
        elif not SPLIT_NAME.fullmatch(name):
            item.wrong(
                f"found the split name '{name}', expected letters, digits, '_' and '-' (TFX's "
                "rule)."
            )
    kinds = {kind for _, item in parts if (kind := _split_kind(item))} or {"bounds"}
    kinds = kinds if parts else {"share"}
    if len(kinds) > 1:
        value.wrong(
            "found several kinds of split, expected all by share, all by bounds, all by values or "
            "all by files."
        )
        return None
    kind = kinds.pop()
    _check_split_keys(value, kind)
    if kind == "share":
        given.pop("column", None)
        own = {name: read for name, read in given.items() if read is not None}
        return Split(fractions=_fractions(value, parts, own.get("folds")), **own)
    if kind == "files":
        read = {name: keys.read_keys(FileSplit, item, "a mapping") for name, item in parts}
        files = {name: own["files"] for name, own in read.items() if "files" in own}
        return Split(fractions={}, files=files)
    return Split(fractions={}, time_column=given.get("column"), times=_times(parts))


def _check_split_keys(value: values.Value, kind: str) -> None:
    """Notes keys that the kind of split lacks or does not take."""
    given = value.keys
    for key in ("by", "stratify", "folds", "seed"):
        if key in given and kind != "share":
            value.wrong(
                f"found '{key}' with a split that is not by shares, expected it with shares only.",
                key,
            )
    is_by_column = kind in ("bounds", "values")
    if "column" in given and not is_by_column:
        value.wrong(
            "found 'column' without bounds or values, expected {column: date, train: {before: "
            "2013-11-01}, …} or {column: set, train: {values: train}, …}.",
            "column",
        )
    if "column" not in given and is_by_column:
        value.wrong(f"found {kind} without 'column', expected the column that is compared.")


def _split_kind(value: values.Value) -> str:
    if not isinstance(value.tree, dict):
        return "share"
    near = {nearest_word(key, _KINDS) for key in value.tree}
    return next((kind for key, kind in _KINDS.items() if key in near), "")


def _fractions(
    value: values.Value, parts: list[tuple[str, values.Value]], folds: int | None = None
) -> dict[str, float]:
    shares = {name: share for name, item in parts if (share := READ_PART(item)) is not None}
    total = math.fsum(shares.values())
    if folds is not None:
        return shares | _fold_shares(value, shares, folds)
    if len(shares) == len(parts) and abs(total - 1) > 1e-9:
        value.wrong(f"found shares that add up to {total:.10g}, expected 1.")
    return shares


def _fold_shares(value: values.Value, shares: dict[str, float], folds: int) -> dict[str, float]:
    """Returns the splits of folds, which divide what the shares leave."""
    rest = 1 - sum((fractions.Fraction(repr(share)) for share in shares.values()), start=0)
    if rest <= 0:
        value.wrong(
            "found shares that leave no rows to the folds, expected less than 1 in all, as "
            "{test: 0.2, folds: 5}.",
            "folds",
        )
        return {}
    names = [f"fold_{number}" for number in range(folds)]
    for name in shares.keys() & set(names):
        value.wrong(f"found '{name}' with 'folds', which makes a split of this name.", name)
    return dict.fromkeys(names, float(rest / folds))


def _times(parts: list[tuple[str, values.Value]]) -> tuple[TimeSplit, ...]:
    times = []
    for name, item in parts:
        expected = "a mapping such as {before: 2013-11-01}"
        times.append(TimeSplit(name, **keys.read_keys(TimeSplit, item, expected)))
        if ("values" in item.keys) == bool({"after", "before"} & item.keys):
            item.wrong("found no rule or two, expected 'before', 'after' or both; or 'values'.")
    return tuple(times)
