"""Reads pickles of texts, numbers, lists and arrays; runs no code.

CIFAR's batches are pickles. ``pickle.load`` would call whatever a file names, and numpy's
constructors allocate what it claims. So Python's machine gets three names here, which are texts and
stand for arrays. Each of its instructions may make an object of some 64 bytes, so their
number is bound: a batch has a few for each row of 3,072 bytes.
"""

from __future__ import annotations

import io
import math
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np

# Python's methods that make objects, or sets, which take more memory than lists.
_LEFT_OUT = re.compile("_empty_set|frozenset|_ext|obj|_inst|persid")
_NAMES = {
    "numpy.core.multiarray._reconstruct": "reconstruct",
    "numpy.dtype": "dtype",
    "numpy.ndarray": "ndarray",
}
_LEAST, _BYTES_PER_INSTRUCTION = 100_000, 128
_SCALARS = {type(None), bool, int, bytes, str}
_TYPE_CODES = frozenset(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8))


class UnsafePickleError(ValueError):
    """A pickle that is damaged, or holds more than data."""


class _Name(str):
    """A name that a pickle has, of three."""

    __slots__ = ()


class _Instructions(io.BytesIO):
    """A pickle whose instructions are counted, by the reads."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._left = _LEAST + len(data) // _BYTES_PER_INSTRUCTION

    def read(self, size: int | None = -1) -> bytes:
        """Reads bytes."""
        self._left -= 1
        if self._left < 0:
            raise UnsafePickleError("far more objects than a batch of images has")
        return super().read(size)


class _Array:
    """An array, or the type of one; its state comes later."""

    value: Any = None


def loads(data: bytes) -> Any:
    """Returns the value of a pickle.

    Python 2's texts are bytes. Arrays share their memory with the result.

    Raises:
        UnsafePickleError: It is damaged or holds anything else, or lists in lists.
    """
    try:
        found = _Unpickler(data).load()
    except UnsafePickleError:
        raise
    except Exception as error:  # damaged pickles raise all kinds, by Python's documentation
        raise UnsafePickleError(
            f"damaged data ({type(error).__name__}: {str(error)[:200]})"
        ) from error
    if type(found) is not dict:
        return _checked(found)
    if not set(map(type, found)) <= {str, bytes}:
        raise UnsafePickleError("a key that is no text")
    return {key: _checked(value) for key, value in found.items()}


def _checked(value: Any) -> Any:
    """Returns a value without its stand-in; lists must be flat."""
    if type(value) is _Array and isinstance(value.value, np.ndarray):
        return value.value
    types = set(map(type, value if type(value) in (list, tuple) else (value,)))
    for name in sorted(type_.__name__.strip("_").lower() for type_ in types - _SCALARS):
        raise UnsafePickleError(f"a {name} in the place of a number or a text")
    return value


# That in C allocates by the numbers of its memo.
_Machine: Any = pickle._Unpickler  # noqa: SLF001


class _Unpickler(_Machine):
    """Python's machine, which calls nothing."""

    def __init__(self, data: bytes) -> None:
        super().__init__(_Instructions(data), encoding="bytes")

    def find_class(self, module: str, name: str) -> _Name:
        """Returns a name of pickled arrays; refuses others."""
        found = f"{module}.{name}"
        known = _NAMES.get(found.replace("numpy._core.", "numpy.core."))  # numpy 2 moved its core
        if known is None:
            raise UnsafePickleError(
                f"the name '{found[:200]}', which stands for code and not for data"
            )
        return _Name(known)

    def _read_bytes(self) -> None:
        """Reads bytes; Python's own method allocates what the pickle claims."""
        self.append(self.read(int.from_bytes(self.read(8), "little")))

    def _call(self) -> None:
        """Makes what a name and its arguments stand for."""
        arguments, name = self.stack.pop(), self.stack.pop()
        made: Any = _Array()
        match name if type(name) is _Name else "", arguments:
            case "reconstruct", (_Name("ndarray"), 0 | (0,), b"b" | "b"):
                pass
            case "dtype", (bytes() | str() as code, 0, 1):
                code = code if isinstance(code, str) else code.decode("ascii")
                if code not in _TYPE_CODES:
                    raise UnsafePickleError(f"an array of type '{code[:20]}', expected integers")
                made.value = np.dtype(code)
            case _:
                raise UnsafePickleError("a call that no pickled array has")
        self.append(made)

    def _build(self) -> None:
        """Gives a type its byte order, or an array its values."""
        state, made = self.stack.pop(), self.stack[-1]
        match made if type(made) is _Array else None, state:
            case _Array(value=np.dtype()), (_, order, None, None, None, *_):
                order = order.decode("ascii") if type(order) is bytes else order
                made.value = made.value.newbyteorder({"<": "<", ">": ">", "|": "|"}[order])
            case _Array(value=None), (_, shape, type_, 0 | 1 as is_fortran, raw):
                size = math.prod(shape) * type_.value.itemsize
                if size != len(raw) or min(shape, default=0) < 0:
                    raise UnsafePickleError(f"an array of {size:,} bytes, made of {len(raw):,}")
                # It shares the bytes.
                array = np.frombuffer(raw, type_.value)
                made.value = array.reshape(shape, order="F" if is_fortran else "C")
            case _:
                raise UnsafePickleError("a state that no pickled array has")


def _shallow(load: Callable[[Any], None]) -> Callable[[Any], None]:
    """Returns what makes a tuple of few levels: hashing recurs in C."""

    def load_tuple(unpickler: Any) -> None:
        load(unpickler)
        inner = [item for item in unpickler.stack[-1] if type(item) is tuple]
        if any(type(item) is tuple for own in inner for item in own):
            raise UnsafePickleError("tuples in tuples of tuples")

    return load_tuple


_Unpickler.dispatch = {
    code: _shallow(load) if "tuple" in load.__name__ else load
    for code, load in _Machine.dispatch.items()
    if not _LEFT_OUT.search(load.__name__)
} | {
    b"R"[0]: _Unpickler._call,  # noqa: SLF001
    b"b"[0]: _Unpickler._build,  # noqa: SLF001
    b"\x96"[0]: _Unpickler._read_bytes,  # noqa: SLF001
    b"\x95"[0]: lambda unpickler: unpickler.read(8),  # a frame is read as its instructions are
}
