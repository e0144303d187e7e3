"""The rows of each class: in splits, and as sampled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

# Classes in the manifest, those with the most rows.
_KEPT_CLASSES = 100


class ClassShares(NamedTuple):
    """The rows of each class in each split, before rows are sampled.

    Attributes:
      stratify: columns of the classes.
      shares: split -> share asked for.
      rows: class -> rows in each split.
    """

    stratify: tuple[str, ...]
    shares: Mapping[str, float]
    rows: Mapping[str, Sequence[int]]

    def to_json(self) -> dict[str, Any]:
        """Returns the entry of the manifest."""
        ordered = sorted(self.rows.items(), key=lambda item: (-sum(item[1]), item[0]))
        columns = zip(*self.rows.values(), strict=True)
        sums = [sum(own) for own in columns] or [0] * len(self.shares)
        return {
            "stratify": list(self.stratify),
            "classes": len(self.rows),
            "splits": {
                name: {"share": share, "achieved": own / max(1, sum(sums)), "rows": own}
                for (name, share), own in zip(self.shares.items(), sums, strict=True)
            },
            "rows": {
                name: dict(zip(self.shares, own, strict=True))
                for name, own in ordered[:_KEPT_CLASSES]
            },
        }


def lines_of(entry: Mapping[str, Any] | None) -> Iterator[str]:
    """Yields a line of the summary on the classes of a dataset."""
    if not entry or not entry["classes"]:
        return
    classes = entry["classes"]
    shares = ", ".join(
        f"{name} {split['achieved']:.2%}" for name, split in list(entry["splits"].items())[:10]
    )
    plural = "" if classes == 1 else "es"
    yield f"{classes:,} class{plural} of {', '.join(entry['stratify'])}: {shares}"


# Sampled classes in a line of the summary.
_SHOWN_CLASSES = 5


class SampledClass(NamedTuple):
    """The rows of one class that the recipe samples.

    Attributes:
      name: of the class.
      splits: where it is sampled.
      found, written: its rows there, before and after.
      weight: of each row that is written.
    """

    name: str
    splits: tuple[str, ...]
    found: int
    written: int
    weight: float


def sampled_entry_of(
    by: str, splits: tuple[str, ...], classes: list[SampledClass]
) -> dict[str, Any]:
    """Returns the entry of the manifest."""
    ordered = sorted(classes, key=lambda each: (-each.found, each.name, each.splits))
    return {
        "by": by,
        "splits": list(splits),
        "classes": [
            {
                "class": each.name,
                "splits": list(each.splits),
                "found": each.found,
                "written": each.written,
                "weight": each.weight,
            }
            for each in ordered[:_KEPT_CLASSES]
        ],
    }


def sampled_lines_of(entry: Mapping[str, Any] | None) -> Iterator[str]:
    """Yields a line of the summary on sampled classes."""
    if not entry or not entry["classes"]:
        return
    classes = entry["classes"]
    shown = "; ".join(
        f"{each['class']} in {', '.join(each['splits'])}: {each['found']:,} rows became "
        f"{each['written']:,}, weight {each['weight']:.4g}"
        for each in classes[:_SHOWN_CLASSES]
    )
    more = f"; and {len(classes) - _SHOWN_CLASSES} more" if len(classes) > _SHOWN_CLASSES else ""
    yield f"by {entry['by']}: {shown}{more}"
