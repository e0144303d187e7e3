"""The rows of each class before and after they are sampled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

# Classes in the manifest, those with the most rows; and in a line of the summary.
_KEPT_CLASSES = 100
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


def entry_of(by: str, splits: tuple[str, ...], classes: list[SampledClass]) -> dict[str, Any]:
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


def lines_of(entry: Mapping[str, Any] | None) -> Iterator[str]:
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
