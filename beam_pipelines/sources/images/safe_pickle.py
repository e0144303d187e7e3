"""Reads pickles of arrays, numbers, texts, lists and mappings; runs no code.

Python's own ``pickle.Unpickler`` reads them. A pickle runs code by calling the names that it
imports, so ``find_class`` hands out stand-ins for the few names that pickled arrays have, and
refuses all others. Stand-ins make arrays as views of the pickle's bytes; numpy is not called.

Memory is at most about four times the pickle's size, and 64 bytes for each of ``MAX_INSTRUCTIONS``,
whatever the pickle claims.
"""

from __future__ import annotations

import io
import itertools
import math
import pickle
import pickletools
from collections.abc import Callable
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from beam_pipelines.core.limits import Limits, exceeded

# The largest real one, CIFAR-100's training batch, has some 400,000. One byte of instruction makes
# up to 64 bytes of memory.
MAX_INSTRUCTIONS = 4_000_000
_TYPE_CODES = frozenset(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8))
# After the code of a type: whether to align it and whether to copy it, as Python 3 and Python 2
# write them.
_FLAG_TYPES = ((bool, bool), (int, int))
_CONTAINERS = (list, tuple, dict)
_VALUES = (type(None), bool, int, bytes, str, *_CONTAINERS)
# Extensions may come from copyreg's cache, past ``find_class``; an empty set takes 216 bytes.
_REFUSED = frozenset(["EXT1", "EXT2", "EXT4", "EMPTY_SET", "ADDITEMS", "FROZENSET"])
_TUPLES = frozenset(["TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"])
_PUTS = frozenset(["PUT", "BINPUT", "LONG_BINPUT"])


class UnsafePickleError(ValueError):
    """A pickle that is damaged, or holds more than data."""


class TooDeepError(ValueError):
    """A pickle with values nested too deeply."""


def loads(data: bytes, limits: Limits = Limits()) -> Any:  # noqa: B008 (it is frozen)
    """Returns the value of a pickle.

    Byte strings of Python 2 stay bytes.

    Returns:
      None, bool, int, bytes, str, list, tuple, dict, or a numpy array of integers, which is the
      whole or a value of the whole, if that is a dict.

    Raises:
      UnsafePickleError: it holds anything else, or is damaged.
      TooDeepError: its values are nested deeper than the limit.
    """
    try:
        _check_instructions(data, limits)
        found = _Unpickler(data).load()
    except (UnsafePickleError, TooDeepError):
        raise
    except Exception as error:  # damaged pickles raise all kinds, by Python's documentation
        raise UnsafePickleError(
            f"damaged data ({type(error).__name__}: {str(error)[:200]})"
        ) from error
    if type(found) is dict:
        found = {key: _values_of(item) for key, item in found.items()}
        _check_values([item for item in found.values() if type(item) is not np.ndarray], limits)
        _check_keys(found)
        return found
    found = _values_of(found)
    if type(found) is not np.ndarray:
        _check_values([found], limits)
    return found


def _check_instructions(data: bytes, limits: Limits) -> None:
    """Refuses pickles that exhaust memory or the stack of ``pickle.Unpickler``.

    It allocates the bytes that BINBYTES8 claims before it reads them (``genops`` checks lengths),
    and a list as long as the largest memo index. It hashes a tuple that is a key by recursion in C,
    so tuples are counted. Arguments of a call are not: a stand-in refuses nested ones.
    """
    tuples, is_fresh = 0, False
    for number, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        name = opcode.name
        if number >= MAX_INSTRUCTIONS:
            raise UnsafePickleError(f"more than {MAX_INSTRUCTIONS:,} instructions")
        if name in _REFUSED:
            raise UnsafePickleError(f"the instruction {name}, which no data needs")
        if name in _PUTS and cast("int", argument) > number:
            raise UnsafePickleError(f"damaged data (memo index {argument:,})")
        if name in _TUPLES:
            tuples += 1
        elif name == "REDUCE" and is_fresh:
            tuples -= 1
        is_fresh = name in _TUPLES or (is_fresh and (name in _PUTS or name == "MEMOIZE"))
        if tuples > limits.nesting_depth:
            found = f"more than {limits.nesting_depth:,} tuples, which may be nested"
            raise TooDeepError(exceeded(limits, "nesting_depth", found))


class _Unpickler(pickle.Unpickler):
    """Python's machine, with stand-ins for the names that pickled arrays have."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="bytes")
        # Encoding one text again and again would make more bytes than the pickle has.
        self._left_to_encode = len(data)

    def find_class(self, module: str, name: str) -> _Call:
        """Returns the stand-in for a name; refuses names unknown to pickled arrays."""
        found = f"{module}.{name}"
        makers: dict[str, Callable[..., Any]] = {
            "numpy.core.multiarray._reconstruct": _Array,
            "numpy.core.numeric._frombuffer": _from_buffer,
            "numpy.dtype": _Type,
            "numpy.ndarray": _refuse_call,
            "_codecs.encode": self._encode,
            "__builtin__.bytes": bytes,
        }
        maker = makers.get(found.replace("numpy._core.", "numpy.core."))  # numpy 2 moved its core
        if maker is None:
            raise UnsafePickleError(
                f"the name '{found[:200]}', which stands for code and not for data"
            )
        return _Call(maker, most=0 if maker is bytes else 4)

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


class _Call:
    """The stand-in for a name: can be called, has no state."""

    __slots__ = ("_make", "_most")

    def __init__(self, make: Callable[..., Any], most: int) -> None:
        self._make, self._most = make, most

    def __call__(self, *arguments: Any) -> Any:
        # Python 3 writes empty bytes for Python 2 as a call of ``bytes`` without arguments; with a
        # number it would make as many bytes.
        if len(arguments) > self._most:
            raise UnsafePickleError("a call with arguments that no pickled array has")
        return self._make(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise UnsafePickleError("a state for something that is no array")


def _refuse_call(*_: Any) -> None:
    raise UnsafePickleError("a call of numpy.ndarray, which no pickled array makes")


class _Array:
    """An array: empty until the pickle gives its state."""

    __slots__ = ("values",)

    def __init__(self, kind: Any, shape: Any, code: Any) -> None:
        if type(kind) is not _Call or shape not in (0, (0,)) or code not in (b"b", "b"):
            raise UnsafePickleError("a call with arguments that no pickled array has")
        self.values: npt.NDArray[Any] | None = None

    def __setstate__(self, state: Any) -> None:
        if type(state) is not tuple:
            raise UnsafePickleError("a state that no pickled array has")
        _, shape, type_, is_fortran, raw = state
        if type(is_fortran) not in (bool, int):
            raise UnsafePickleError("an array in an order that is neither C's nor Fortran's")
        self.values = _view(raw, type_, shape, "F" if is_fortran else "C")


class _Type:
    """A numpy type of integers; its byte order comes as its state."""

    __slots__ = ("dtype",)

    def __init__(self, *arguments: Any) -> None:
        if (
            len(arguments) != 3
            or tuple(map(type, arguments[1:])) not in _FLAG_TYPES
            or arguments[1:] != (False, True)
        ):
            raise UnsafePickleError("an array of a type that no pickled array has")
        code = arguments[0].decode("ascii") if type(arguments[0]) is bytes else arguments[0]
        if type(code) is not str or code not in _TYPE_CODES:
            shown = f"'{code[:20]}'" if type(code) is str else "something else than text"
            raise UnsafePickleError(f"an array of type {shown}, expected integers")
        self.dtype: np.dtype[Any] = np.dtype(code)

    def __setstate__(self, state: Any) -> None:
        """Takes ``(version, order, subtype, names, fields, size, alignment, …)``."""
        if type(state) is not tuple:
            raise UnsafePickleError("a state that no pickled array has")
        order = state[1].decode("ascii") if type(state[1]) is bytes else state[1]
        if order not in ("<", ">", "|") or any(part is not None for part in state[2:5]):
            raise UnsafePickleError("an array of a type with parts, expected integers")
        self.dtype = self.dtype.newbyteorder(cast("Literal['<', '>', '|']", order))


def _from_buffer(raw: Any, type_: Any, shape: Any, order: Any) -> _Array:
    array = _Array.__new__(_Array)
    array.values = _view(raw, type_, shape, order)
    return array


def _view(raw: Any, type_: Any, shape: Any, order: Any) -> npt.NDArray[Any]:
    """Returns an array that shares its bytes; their number must fit."""
    if (
        type(raw) not in (bytes, bytearray)
        or type(type_) is not _Type
        or type(shape) is not tuple
        or len(shape) > 8
    ):
        raise UnsafePickleError("a state that no pickled array of integers has")
    if not all(type(size) is int and size >= 0 for size in shape) or order not in ("C", "F"):
        raise UnsafePickleError("an array of no shape")
    if math.prod(shape) * type_.dtype.itemsize != len(raw):
        raise UnsafePickleError(
            f"an array of {math.prod(shape):,} values of {type_.dtype.itemsize} bytes, made of "
            f"{len(raw):,} bytes"
        )
    return np.frombuffer(raw, type_.dtype).reshape(shape, order=order)


def _values_of(value: Any) -> Any:
    if type(value) is not _Array:
        return value
    if value.values is None:
        raise UnsafePickleError("an array without values")
    return value.values


def _check_values(level: list[Any], limits: Limits) -> None:
    """Checks types and depth, level by level, without recursion.

    A value that occurs several times on a level is entered once.

    Raises:
      UnsafePickleError: a value, or a key, of another type than data has.
      TooDeepError: values are nested deeper than the limit.
    """
    for _ in range(limits.nesting_depth + 1):
        for item in level:
            if type(item) not in _VALUES:
                raise UnsafePickleError(f"a value that is {type(item).__name__.strip('_').lower()}")
            if type(item) is dict:
                _check_keys(item)
        containers = {id(item): item for item in level if type(item) in _CONTAINERS}.values()
        if not containers:
            return
        level = list(
            itertools.chain.from_iterable(
                item.values() if type(item) is dict else item for item in containers
            )
        )
    found = f"values nested more than {limits.nesting_depth:,} levels deep"
    raise TooDeepError(exceeded(limits, "nesting_depth", found))


def _check_keys(mapping: dict[Any, Any]) -> None:
    if not all(type(key) in (str, bytes, int) for key in mapping):
        raise UnsafePickleError("a key that is neither text nor number")
