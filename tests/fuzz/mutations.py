"""Changes to inputs that several targets have in common."""

from __future__ import annotations

import random
from collections.abc import Sequence


def splice(data: bytes, tokens: Sequence[bytes], chance: random.Random) -> bytes:
    """Returns changed bytes, several times over.

    A change puts a token in, or copies, moves or cuts out a chunk.
    """
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        start, end = sorted((chance.randint(0, len(data)), chance.randint(0, len(data))))
        end = min(end, start + 64)
        action = chance.randrange(6)
        if action <= 2:
            data = data[:start] + chance.choice(tokens) + data[start:]
        elif action == 3:
            data = data[:start] + chance.choice(tokens) + data[end:]
        elif action == 4:
            place = chance.randint(0, len(data))
            data = data[:place] + data[start:end] * chance.choice((1, 1, 2, 7)) + data[place:]
        else:
            data = data[:start] + data[end:]
    return data


def keep_head(data: bytes, length: int, changed: bytes, chance: random.Random) -> bytes:
    """Returns a changed body after its head of choices.

    Sometimes one byte of the head changes.
    """
    head = bytearray(data[:length].ljust(length, b"0"))
    if not chance.randrange(4):
        head[chance.randrange(length)] = chance.randrange(256)
    return bytes(head) + changed


def near(number: int, chance: random.Random) -> int:
    """Returns a number near another one, or near the limits of integers."""
    powers = [2**bits - less for bits in (0, 7, 8, 16, 31, 32, 63) for less in (0, 1)]
    edges = [-1, *powers, 2**64 - 1]
    return chance.choice(
        (
            number + 1,
            number - 1,
            number * 2,
            -number,
            number ^ 1 << chance.randrange(32),
            chance.choice(edges),
        )
    )
