"""Reads pickles of texts, numbers, lists and arrays; runs no code.

Python's own ``pickle.Unpickler`` reads them. A pickle runs code by calling the names that it
imports, so ``find_class`` hands out stand-ins for the few names that pickled arrays have, and
refuses all others. Stand-ins make arrays as views of the pickle's bytes; numpy is not called.

Memory is at most about four times the pickle's size, and 64 bytes for each of ``MAX_INSTRUCTIONS``,
whatever the pickle claims.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

# The largest real one, CIFAR-100's training batch, has some 400,000. One byte of instruction makes
# up to 64 bytes of memory.
MAX_INSTRUCTIONS = 4_000_000
# A key is hashed by recursion in C. An array has three tuples besides the arguments of its calls.
_MAX_TUPLES = 1000
_TUPLES = frozenset(["TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"])
_PUTS = frozenset(["PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"])
# No sets (216 bytes an instruction), floats, copies, classes, or names past ``find_class``.
_ALLOWED = frozenset(
    """PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 STRING
    SHORT_BINSTRING BINSTRING UNICODE SHORT_BINUNICODE BINUNICODE SHORT_BINBYTES BINBYTES BYTEARRAY8
    EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 LIST EMPTY_LIST APPEND APPENDS DICT EMPTY_DICT SETITEM
    SETITEMS PUT BINPUT LONG_BINPUT MEMOIZE GET BINGET LONG_BINGET GLOBAL STACK_GLOBAL REDUCE
    BUILD""".split()  # noqa: SIM905 (a list takes a line for each)
)
_SCALARS = {type(None), bool, int, bytes, str}
_TYPE_CODES = frozenset(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8))


class UnsafePickleError(ValueError):
    """A pickle that is damaged, or holds more than data."""


def loads(data: bytes) -> Any:
    """Returns the value of a pickle.

    Byte strings of Python 2 stay bytes.

    Returns:
      None, bool, int, bytes, str, a numpy array of integers, a list or tuple of the first five, or
      a dict of texts or bytes to any of these.

    Raises:
      UnsafePickleError: it holds anything else, or is damaged.
    """
    try:
        _check_instructions(data)
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


def _check_instructions(data: bytes) -> None:
    """Refuses pickles that exhaust memory or the stack of ``pickle.Unpickler``.

    It allocates the bytes that BYTEARRAY8 claims before it reads them (``genops`` checks lengths),
    and a list as long as the largest memo index. It hashes a tuple that is a key by recursion in C,
    so tuples are counted. Arguments of a call are not: a stand-in refuses nested ones.
    """
    tuples, previous = 0, ""
    for number, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        name = opcode.name
        if number >= MAX_INSTRUCTIONS:
            raise UnsafePickleError(f"more than {MAX_INSTRUCTIONS:,} instructions")
        if name not in _ALLOWED:
            raise UnsafePickleError(f"the instruction {name}, which no batch needs")
        if name in _PUTS:
            if int(argument or 0) > number:
                raise UnsafePickleError(f"damaged data (memo index {argument:,})")
            continue
        tuples += (name in _TUPLES) - (name == "REDUCE" and previous in _TUPLES)
        previous = name
        if tuples > _MAX_TUPLES:
            raise UnsafePickleError(f"more than {_MAX_TUPLES:,} tuples, which may be nested")


def _checked(value: Any) -> Any:
    """Returns a value without its stand-in; lists must be flat."""
    if type(value) is _Array:
        if value.values is None:
            raise UnsafePickleError("an array without values")
        return value.values
    types = set(map(type, value if type(value) in (list, tuple) else (value,)))
    for name in sorted(type_.__name__.strip("_").lower() for type_ in types - _SCALARS):
        raise UnsafePickleError(f"a {name} in the place of a number or a text")
    return value


class _Unpickler(pickle.Unpickler):
    """Python's machine, with stand-ins for the names that pickled arrays have."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="bytes")
        # Encoding one text again and again would make more bytes than the pickle has.
        self._left_to_encode = len(data)

    def find_class(self, module: str, name: str) -> _Name:
        """Returns the stand-in for a name; refuses names unknown to pickled arrays."""
        found = f"{module}.{name}"
        makers: dict[str, Callable[..., Any]] = {
            "numpy.core.multiarray._reconstruct": _reconstruct,
            "numpy.core.numeric._frombuffer": lambda *arguments: _Array().filled(*arguments),
            "numpy.dtype": _Type,
            "numpy.ndarray": _refuse,
            "_codecs.encode": self._encode,
            "__builtin__.bytes": lambda: b"",
        }
        maker = makers.get(found.replace("numpy._core.", "numpy.core."))  # numpy 2 moved its core
        if maker is None:
            raise UnsafePickleError(
                f"the name '{found[:200]}', which stands for code and not for data"
            )
        return _Name(maker)

    def _encode(self, text: Any, encoding: Any) -> bytes:
        """Encodes as Latin-1, as Python 3 writes bytes for Python 2."""
        if type(text) is not str or encoding != "latin1":
            raise UnsafePickleError(
                "a call of _codecs.encode with other arguments than a text and 'latin1'"
            )
        self._left_to_encode -= len(text)
        if self._left_to_encode < 0:
            raise UnsafePickleError("a text that is encoded again and again")
        return text.encode("latin-1")


def _refuse(*_: Any) -> Any:
    raise UnsafePickleError("a call, a state or a type that no pickled array has")


class _Name:
    """The stand-in for a name: can be called, has no state."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., Any]) -> None:
        self._make = make

    def __call__(self, *arguments: Any) -> Any:
        return self._make(*arguments)

    __setstate__ = _refuse


class _Type:
    """A numpy type of integers; its byte order comes as its state."""

    __slots__ = ("dtype",)

    def __init__(self, code: Any = None, *flags: Any) -> None:
        # The flags are whether to align and to copy, as Python 3 and Python 2 write them.
        if list(map(type, flags)) not in ([bool, bool], [int, int]) or flags != (False, True):
            _refuse()
        name = code.decode("ascii") if type(code) is bytes else code
        if type(name) is not str or name not in _TYPE_CODES:
            shown = f"'{name[:20]}'" if type(name) is str else "something else than text"
            raise UnsafePickleError(f"an array of type {shown}, expected integers")
        self.dtype: np.dtype[Any] = np.dtype(name)

    def __setstate__(self, state: Any) -> None:
        """Takes ``(version, order, subtype, names, fields, size, alignment, …)``."""
        order: Any = state[1].decode("ascii") if type(state[1]) is bytes else state[1]
        if type(state) is not tuple or order not in ("<", ">", "|") or set(state[2:5]) != {None}:
            _refuse()
        self.dtype = self.dtype.newbyteorder(cast("Any", order))


class _Array:
    """An array of integers: empty until the pickle gives its values."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: npt.NDArray[Any] | None = None

    def filled(self, raw: Any, type_: Any, shape: Any, order: Any) -> _Array:
        """Shares bytes, whose number must fit."""
        if (
            type(raw) not in (bytes, bytearray)
            or type(type_) is not _Type
            or type(shape) is not tuple
            or len(shape) > 8
            or not all(type(size) is int and size >= 0 for size in shape)
            or order not in ("C", "F")
        ):
            raise UnsafePickleError("an array whose bytes, type, shape or order is none")
        if math.prod(shape) * type_.dtype.itemsize != len(raw):
            raise UnsafePickleError(
                f"an array of {math.prod(shape):,} values of {type_.dtype.itemsize} bytes, made of "
                f"{len(raw):,} bytes"
            )
        self.values = np.frombuffer(raw, type_.dtype).reshape(shape, order=order)
        return self

    def __setstate__(self, state: Any) -> None:
        """Takes ``(version, shape, type, whether it is Fortran's order, bytes)``."""
        if type(state) is not tuple:
            _refuse()
        _, shape, type_, is_fortran, raw = state
        self.filled(raw, type_, shape, {0: "C", 1: "F"}.get(is_fortran))


def _reconstruct(kind: Any, shape: Any, code: Any) -> _Array:
    if type(kind) is not _Name or shape not in (0, (0,)) or code not in (b"b", "b"):
        _refuse()
    return _Array()
