"""Mixes the rows of several datasets."""

from __future__ import annotations

import math
from collections.abc import Mapping

from beam_pipelines.reader.reader import Reader

# Weights are whole shares of this many.
_SHARES = 1 << 20


def mix(readers: Mapping[Reader, float]) -> Reader:
    """Returns a reader of batches with rows of several datasets.

    The rows of each dataset come in the order of its reader, epoch after epoch, each row once an
    epoch. Every global batch has the rows' shares, to a row or two. A pass has as many rows as the
    datasets together, times ``epochs``; a dataset with a larger weight than its share of them
    begins its next epoch sooner.

    Args:
      readers: reader, not read from yet -> weight. They have the same features and options, other
        than ``seed`` and ``shuffle``.

    Raises:
      ValueError: there are no readers, a weight is no positive number, a reader is itself a
        mixture, or readers have other features or options.
    """
    if not readers:
        raise ValueError("mix: found no readers, expected a mapping of reader -> weight.")
    for weight in readers.values():
        if isinstance(weight, bool) or not (weight > 0 and math.isfinite(weight)):
            raise ValueError(f"mix: found the weight {weight!r}, expected a positive number.")
    first, *others = readers
    for number, reader in enumerate(readers):
        if len(reader.streams) != 1:
            raise ValueError(
                f"mix: reader {number} is a mixture, expected one that batches() returned."
            )
    for number, other in enumerate(others, 1):
        _check_equal(number, other, first)
    total = sum(readers.values())
    weights = [max(1, round(weight / total * _SHARES)) for weight in readers.values()]
    streams = [stream for reader in readers for stream in reader.streams]
    return Reader(streams, weights, first.features, first.options)


def _check_equal(number: int, found: Reader, expected: Reader) -> None:
    """Checks that two readers have the same options and features."""
    pairs = [
        *zip(expected.options._fields, found.options, expected.options, strict=True),
        ("columns", [one.name for one in found.features], [one.name for one in expected.features]),
        # Their numbers differ only if their names do.
        *(
            (one.name, one, other)
            for one, other in zip(found.features, expected.features, strict=False)
        ),
    ]
    for what, own, wanted in pairs:
        if own != wanted:
            raise ValueError(
                f"mix: found {what} {own} in reader {number}, expected {wanted} as in reader 0. "
                "Give batches() the same arguments, and features that may be missing a 'fill'."
            )
