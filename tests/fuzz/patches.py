"""Inputs that are changes of a whole file, which stay small.

An input has the number of the file in a byte, and then changes: an offset of four bytes, the number
of new bytes in one, and these.
"""

from __future__ import annotations

import contextlib
import os
import random
import struct
from collections.abc import Callable, Iterator, Sequence

from tests.fuzz import mutations, scratch
from tests.fuzz.target import Target

_CHANGE = struct.Struct("<IB")
_EDGES = (0, 1, -1, 127, 255, 0x7FFF, 0xFFFF, 0x7FFFFFFF, (1 << 63) - 1)


def target(
    run: Callable[[bytes], None], files: Callable[[], Sequence[bytes]], tokens: Sequence[bytes]
) -> Target:
    """Returns the target of inputs that are changes of files."""
    return Target(
        run,
        lambda: [bytes([number]) for number in range(len(files()))],
        lambda data, chance: mutate(data, files(), tokens, chance),
    )


def written(
    folder: str, scripts: Sequence[str], write: Callable[[str, str], None]
) -> tuple[bytes, ...]:
    """Returns the files that scripts of a database make.

    Args:
      folder: of ``scratch``.
      scripts: one for each file.
      write: runs a script on a new file; gets its path first.
    """
    made = []
    path = os.path.join(scratch.folder(folder), "seed")
    for script in scripts:
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
        write(path, script)
        with open(path, "rb") as file:
            made.append(file.read())
    return tuple(made)


def patched(data: bytes, files: Sequence[bytes]) -> bytes:
    """Returns the file that an input stands for."""
    body = bytearray(files[data[0] % len(files)] if data else files[0])
    for offset, new in _changes(data):
        place = offset % (len(body) + 1)
        body[place : place + len(new)] = new
    return bytes(body)


def _changes(data: bytes) -> Iterator[tuple[int, bytes]]:
    place = 1
    while place + _CHANGE.size <= len(data):
        offset, length = _CHANGE.unpack_from(data, place)
        place += _CHANGE.size
        yield offset, data[place : place + length]
        place += length


def mutate(
    data: bytes, files: Sequence[bytes], tokens: Sequence[bytes], chance: random.Random
) -> bytes:
    """Adds some changes, near each other, or leaves all but some out."""
    changes = list(_changes(data))
    if changes and not chance.randrange(3):
        changes = chance.sample(changes, chance.randint(0, len(changes)))
    number = data[0] % len(files) if data else 0
    if not chance.randrange(5):
        number = chance.randrange(len(files))
    size = len(files[number])
    # Files have their most used bytes at the beginning of pages.
    place = min(chance.randrange(size), chance.randrange(size))
    for _ in range(chance.choice((1, 1, 2, 4))):
        width = chance.choice((1, 2, 4, 8))
        number_ = mutations.near(chance.choice(_EDGES), chance) % (1 << (8 * width))
        new = chance.choice((number_.to_bytes(width, chance.choice(("little", "big"))),
                             chance.choice(tokens), chance.randbytes(width)))  # fmt: skip
        changes.append((place, new))
        place += chance.randrange(64)
    return bytes([number]) + b"".join(
        _CHANGE.pack(offset, len(new)) + new for offset, new in changes
    )
