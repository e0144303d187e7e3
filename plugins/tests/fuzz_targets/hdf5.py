"""HDF5 files against h5py's own values, or an error.

Texts of unknown length are left out: the library reads some damaged ones without end. Input: a byte that chooses the size of ranges, and the file.
"""

from __future__ import annotations

import functools
import io
import random

import h5py
import numpy as np

from plugins.tests.support.whole_and_ranges import read_both
from tests.fuzz import mutations, scratch
from tests.fuzz.finding import require
from tests.fuzz.target import Target

HEAD = 1
_TOKENS = [b"\0", b"\1", b"\x08", b"\xff", b"\xff" * 8, b"\0" * 8, b"TREE", b"SNOD", b"HEAP", b"GCOL", b"\x10\0\0\0", b"x\0\0\0"]  # fmt: skip


def run(data: bytes) -> None:
    """Reads a file whole and in ranges; compares the rows."""
    size, body = 64 * (data[:HEAD].ljust(HEAD, b"\0")[0] + 1), data[HEAD:]
    path = scratch.write("hdf5", "a.h5", body)
    found = read_both(path, size)
    if found is None:
        return
    table, again, why = found
    require(again is not None, "hdf5: ranges are refused", why)
    require(again.num_rows == table.num_rows, "hdf5: other rows in ranges")
    with h5py.File(io.BytesIO(body), "r") as file:
        for name in table.column_names:
            if name in file and file[name].dtype.kind in "iu" and file[name].ndim == 1:
                own, ours = file[name][:].tolist(), table.column(name).to_pylist()
                require(own == ours, "hdf5: other values", f"{own} {ours}")


@functools.cache
def seeds() -> list[bytes]:
    """Files of several layouts."""
    made = []
    for options in ({}, {"chunks": (2,), "compression": "gzip"}):
        stream = io.BytesIO()
        with h5py.File(stream, "w", libver="latest" if options else "earliest") as file:
            file.create_dataset("x", data=np.arange(4), track_times=False, **options)
            if not options:
                file.create_dataset("t", data=np.array([b"a", b"b", b"c", b"d"]), track_times=False)
        made.append(b"\1" + stream.getvalue())
    return made


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Changes bytes in place, as offsets matter."""
    body = bytearray(data[HEAD:])
    for _ in range(chance.choice((1, 1, 2, 4))):
        token = chance.choice(_TOKENS)
        place = chance.randrange(max(1, min(len(body), 4_096)))
        body[place : place + len(token)] = token
    return mutations.keep_head(data, HEAD, bytes(body), chance)


TARGET = Target(run, seeds, mutate, max_bytes=16_384)
