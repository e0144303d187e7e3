"""The rows of each class: in splits, and as sampled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# Classes in the manifest, those with the most rows.
_KEPT_CLASSES = 100


def entry_of(
    stratify: Sequence[str], shares: Mapping[str, float], rows: Mapping[str, Sequence[int]]
) -> dict[str, Any]:
    """Returns the manifest's entry of the classes before rows are sampled.

    Args:
      stratify: columns of the classes.
      shares: split -> share asked for.
      rows: class -> rows in each split.
    """
    ordered = sorted(rows.items(), key=lambda item: (-sum(item[1]), item[0]))
    sums = [sum(own) for own in zip(*rows.values(), strict=True)] or [0] * len(shares)
    return {
        "stratify": list(stratify),
        "classes": len(rows),
        "splits": {
            name: {"share": share, "achieved": own / max(1, sum(sums)), "rows": own}
            for (name, share), own in zip(shares.items(), sums, strict=True)
        },
        "rows": {
            name: dict(zip(shares, own, strict=True)) for name, own in ordered[:_KEPT_CLASSES]
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


def sampled_entry_of(by: str, splits: list[str], classes: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the manifest's entry of sampled classes.

    Args:
      by: column of the classes.
      splits: where they are sampled.
      classes: ``class``, its name; ``found`` and ``written``, its rows before and after; and
        ``weight`` of each row that is written.
    """
    ordered = sorted(classes, key=lambda each: (-each["found"], each["class"]))
    return {
        "by": by,
        "splits": splits,
        "classes": [{**each, "splits": splits} for each in ordered[:_KEPT_CLASSES]],
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
