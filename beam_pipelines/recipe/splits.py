"""The splits of a recipe, as frozen values; ``recipe/read_split.py`` reads them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from beam_pipelines.recipe.keys import recipe_key
from beam_pipelines.recipe.values import read_bound, read_integer, read_text, read_texts

MOST_FOLDS = 100


@dataclasses.dataclass(frozen=True)
class TimeSplit:
    """A split by time: rows with ``after <= column < before``.

    Bounds are ISO 8601 texts, compared as the column's own type: date, timestamp, or number.
    """

    name: str
    after: str | None = recipe_key(read_bound, None, "unbounded", "Inclusive bound.")
    before: str | None = recipe_key(read_bound, None, "unbounded", "Exclusive bound.")


@dataclasses.dataclass(frozen=True)
class Split:
    """How rows are divided: by shares, TFX's hash buckets, time or files.

    Attributes:
      fractions: split name -> share; shares add up to 1.
      times: splits by time. A row in none of them, or with a null, is an error.
      files: split name -> pattern, matched (fnmatch) against the path of the ``from`` source's
        file.
      buckets: split name -> number of TFX's hash buckets, in TFX's order.
      folds: ``fractions`` has a split of equal share for each of them, the last ones.
    """

    fractions: Mapping[str, float] = dataclasses.field(default_factory=lambda: {"train": 1.0})
    by: tuple[str, ...] = recipe_key(
        read_texts, (), "the whole row", "With shares or buckets: columns whose hash decides."
    )
    stratify: tuple[str, ...] = recipe_key(
        read_texts,
        (),
        "none",
        "With shares: columns, each combination of whose values is divided by the shares.",
        omitted=True,
    )
    folds: int | None = recipe_key(
        read_integer(2, MOST_FOLDS),
        None,
        "none",
        "Divides what the shares leave into this number of equal splits.",
        omitted=True,
    )
    seed: int = recipe_key(
        read_integer(0, (1 << 63) - 1),
        0,
        "0",
        "With shares: another seed, other rows.",
        omitted=True,
    )
    time_column: str | None = recipe_key(
        read_text, None, "none", "With bounds: the column that is compared.", name="column"
    )
    times: tuple[TimeSplit, ...] = ()
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    buckets: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Split names in the recipe's order."""
        return (
            tuple(self.files)
            or tuple(time.name for time in self.times)
            or tuple(self.buckets)
            or tuple(self.fractions)
        )

    @property
    def shares(self) -> dict[str, float]:
        """Split name -> expected share; empty by time and by files."""
        total = sum(self.buckets.values())
        return {name: number / total for name, number in self.buckets.items()} or dict(
            self.fractions
        )
