"""Reads pickles that hold data and nothing else, without pickle: no opcode here calls, imports or
looks up anything.

A pickle is a program for a small stack machine. Python's own machine has instructions that call
whatever the pickle names, so that reading a stranger's pickle runs a stranger's code. This one
knows the instructions that build numbers, texts, lists and mappings. Where a pickle names numpy's
constructors, the names are matched as text, and the array is made here, as a view of the pickle's
bytes.

What is read takes no more memory than about four times the pickle's size, and 64 bytes for each of
``MAX_INSTRUCTIONS``, whatever the pickle claims. Source of the format: Python's ``pickletools``,
which parses the instructions (and executes none).
"""

from __future__ import annotations

import itertools
import math
import pickletools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from beam_pipelines.core.limits import Limits, exceeded


class UnsafePickleError(ValueError):
    """A pickle that is damaged, or wants more than data. The message says what it wants."""


class TooDeepError(ValueError):
    """A pickle with values nested too deeply. The message says what was found and expected, and
    what to do.
    """


class _Name(NamedTuple):
    """Something that a pickle refers to by name. It stays a name."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class _Type:
    """A numpy type: its kind and size first, its byte order later."""

    def __init__(self, code: str) -> None:
        self.dtype = np.dtype(code)


class _Array:
    """An array: empty until the pickle gives its state."""

    values: npt.NDArray[Any] | None = None


# The largest real one, CIFAR-100's training batch, has some 400,000. One byte of instruction makes
# up to 64 bytes of memory.
MAX_INSTRUCTIONS = 4_000_000
_RECONSTRUCT = "_reconstruct"
_FROM_BUFFER = "_frombuffer"
# numpy 2 moved its core.
_DTYPE = _Name("numpy", "dtype")
_ENCODE = _Name("_codecs", "encode")
# How Python 3 writes empty bytes for Python 2: a call without arguments.
_BYTES = _Name("__builtin__", "bytes")
_ALLOWED = frozenset(
    [_ENCODE, _BYTES, _Name("numpy", "ndarray"), _DTYPE]
    + [_Name(f"numpy.{core}.multiarray", _RECONSTRUCT) for core in ("core", "_core")]
    + [_Name(f"numpy.{core}.numeric", _FROM_BUFFER) for core in ("core", "_core")]
)
_TYPE_CODES = frozenset(f"{kind}{size}" for kind in "iu" for size in (1, 2, 4, 8))
# Behind the code of a type stand whether to align it and whether to copy it, as Python 3 and Python
# 2 write them.
_FLAG_TYPES = ((bool, bool), (int, int))
_MARK = object()
_CONTAINERS = (list, tuple, dict)


def loads(data: bytes, limits: Limits = Limits()) -> Any:  # noqa: B008 (it is frozen)
    """Returns what a pickle of protocol 2 or later holds.

    Byte strings of Python 2 stay bytes.

    Returns:
      None, bool, int, bytes, str, list, tuple, dict, or a numpy array of integers, which is the
      whole or a value of the whole, if that is a dict.

    Raises:
      UnsafePickleError: it holds anything else, or is damaged.
      TooDeepError: its values are nested deeper than the limit.
    """
    machine = _Machine(len(data))
    try:
        for opcode, argument, _ in itertools.islice(pickletools.genops(data), MAX_INSTRUCTIONS):
            if opcode.name == "STOP":
                found = machine.pop()
                _check_depth(found, limits)
                return _finished(found)
            machine.run(opcode.name, argument)
    except (UnsafePickleError, TooDeepError):
        raise
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, UnicodeError) as error:
        raise UnsafePickleError(
            f"damaged data ({type(error).__name__}: {str(error)[:200]})"
        ) from error
    raise UnsafePickleError(f"more than {MAX_INSTRUCTIONS:,} instructions")


class _Machine:
    """The stack, the memo, and what each instruction does to them."""

    def __init__(self, size_bytes: int) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        # Of all instructions, only a text that is encoded again and again could make more bytes
        # than the pickle has.
        self._left_to_encode = size_bytes

    def run(self, name: str, argument: Any) -> None:
        """Executes one instruction."""
        if name in _IGNORED:
            return
        if name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name](argument))
        elif name in _BUILDERS:
            _BUILDERS[name](self)
        elif name in _TUPLES:
            items = [self.pop() for _ in range(_TUPLES[name])]
            self._stack.append(tuple(reversed(items)))
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self._memo[argument] = self._stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            self._stack.append(self._memo[argument])
        elif name == "GLOBAL":
            self._name(*argument.split(" ", 1))
        else:
            raise UnsafePickleError(f"the instruction {name}, which no data needs")

    def pop(self) -> Any:
        """Takes the topmost value, which must not be a mark."""
        value = self._stack.pop()
        if value is _MARK:
            raise UnsafePickleError("damaged data (a mark where a value belongs)")
        return value

    def _items(self) -> list[Any]:
        """Takes all values above the topmost mark, and the mark."""
        items = list(itertools.takewhile(lambda value: value is not _MARK, reversed(self._stack)))
        if len(items) == len(self._stack):
            raise UnsafePickleError("damaged data (no mark where values begin)")
        del self._stack[len(self._stack) - len(items) - 1 :]
        return items[::-1]

    def mark(self) -> None:
        self._stack.append(_MARK)

    def memoize(self) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def make_tuple(self) -> None:
        self._stack.append(tuple(self._items()))

    def make_list(self) -> None:
        self._stack.append(self._items())

    def make_dict(self) -> None:
        self._stack.append(_pairs(self._items()))

    def append(self) -> None:
        item = self.pop()
        self._container(list).append(item)

    def appends(self) -> None:
        items = self._items()
        self._container(list).extend(items)

    def set_item(self) -> None:
        value, key = self.pop(), self.pop()
        self._container(dict).update(_pairs([key, value]))

    def set_items(self) -> None:
        items = self._items()
        self._container(dict).update(_pairs(items))

    def _container(self, kind: type) -> Any:
        if type(self._stack[-1]) is not kind:
            raise UnsafePickleError(
                f"damaged data (items for something that is no {kind.__name__})"
            )
        return self._stack[-1]

    def stack_global(self) -> None:
        name, module = self.pop(), self.pop()
        self._name(module, name)

    def _name(self, module: Any, name: Any) -> None:
        if type(module) is not str or type(name) is not str:
            raise UnsafePickleError("damaged data (a name that is no text)")
        found = _Name(module, name)
        if found not in _ALLOWED:
            raise UnsafePickleError(
                f"the name '{str(found)[:200]}', which stands for code and not for data"
            )
        self._stack.append(found)

    def reduce(self) -> None:
        """Makes what the few allowed names would have made of their arguments."""
        arguments, name = self.pop(), self.pop()
        if type(name) is not _Name or type(arguments) is not tuple:
            raise UnsafePickleError("a call of something that is no name")
        if name.name == _RECONSTRUCT:
            self._stack.append(_Array())
        elif name == _DTYPE:
            self._stack.append(_Type(_type_code(arguments)))
        elif name.name == _FROM_BUFFER:
            array = _Array()
            array.values = _view(*arguments)
            self._stack.append(array)
        elif name == _ENCODE:
            self._stack.append(self._encode(*arguments))
        elif name == _BYTES and not arguments:
            self._stack.append(b"")
        else:
            raise UnsafePickleError(f"a call of {name}, which no pickled array makes")

    def _encode(self, text: Any, encoding: Any) -> bytes:
        """Encodes as Latin-1, the way in which Python 3 writes bytes for Python 2."""
        if type(text) is not str or encoding != "latin1":
            raise UnsafePickleError(
                "a call of _codecs.encode with other arguments than a text and 'latin1'"
            )
        self._left_to_encode -= len(text)
        if self._left_to_encode < 0:
            raise UnsafePickleError("a text that is encoded again and again")
        return text.encode("latin-1")

    def build(self) -> None:
        """Gives an array its values, or a type its byte order."""
        state = self.pop()
        target = self._stack[-1]
        if type(state) is not tuple:
            raise UnsafePickleError("a state that no pickled array has")
        if type(target) is _Array:
            _, shape, type_, is_fortran, raw = state
            if type(is_fortran) not in (bool, int):
                raise UnsafePickleError("an array in an order that is neither C's nor Fortran's")
            target.values = _view(raw, type_, shape, "F" if is_fortran else "C")
        elif type(target) is _Type:
            target.dtype = target.dtype.newbyteorder(_byte_order(state))
        else:
            raise UnsafePickleError("a state for something that is no array")


def _pairs(items: list[Any]) -> dict[Any, Any]:
    keys, values = items[::2], items[1::2]
    if not all(type(key) in (str, bytes, int) for key in keys):
        raise UnsafePickleError("a key that is neither text nor number")
    return dict(zip(keys, values, strict=True))


def _type_code(arguments: tuple[Any, ...]) -> str:
    """Returns the code of an integer type, ``u1``, of the arguments of ``numpy.dtype``."""
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
    return code


def _byte_order(state: tuple[Any, ...]) -> Literal["<", ">", "|"]:
    """Returns the byte order of a type's state:
    ``(version, order, subtype, names, fields, size, alignment, …)``.
    """
    order = state[1].decode("ascii") if type(state[1]) is bytes else state[1]
    if order not in ("<", ">", "|") or any(part is not None for part in state[2:5]):
        raise UnsafePickleError("an array of a type with parts, expected integers")
    return cast("Literal['<', '>', '|']", order)


def _view(raw: Any, type_: Any, shape: Any, order: Any) -> npt.NDArray[Any]:
    """Returns an array that shares the bytes it is made of. What they are too few or too many for
    is refused.
    """
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


def _check_depth(value: Any, limits: Limits) -> None:
    """Raises ``TooDeepError`` if values are nested deeper than the limit. Goes level by level, and
    into a value once on each.
    """
    level = [value] if type(value) in _CONTAINERS else []
    for _ in range(limits.nesting_depth):
        inside = itertools.chain.from_iterable(
            item.values() if type(item) is dict else item for item in level
        )
        level = list({id(item): item for item in inside if type(item) in _CONTAINERS}.values())
        if not level:
            return
    raise TooDeepError(
        exceeded(
            limits, "nesting_depth", f"values nested more than {limits.nesting_depth:,} levels deep"
        )
    )


def _finished(value: Any) -> Any:
    if type(value) is dict:
        return {key: _values_of(item) for key, item in value.items()}
    return _values_of(value)


def _values_of(value: Any) -> Any:
    if type(value) is not _Array:
        return value
    if value.values is None:
        raise UnsafePickleError("an array without values")
    return value.values


def _as_it_is(value: Any) -> Any:
    return value


def _octets(text: str) -> bytes:
    """``pickletools`` shows Python 2's byte strings as Latin-1."""
    return text.encode("latin-1")


_IGNORED = frozenset(["PROTO", "FRAME"])
_CONSTANTS: dict[str, Callable[[Any], Any]] = {
    "NONE": lambda _: None,
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    "EMPTY_LIST": lambda _: [],
    "EMPTY_TUPLE": lambda _: (),
    "EMPTY_DICT": lambda _: {},
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1", "LONG4"), _as_it_is),
    **dict.fromkeys(("BINSTRING", "SHORT_BINSTRING"), _octets),
    **dict.fromkeys(("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"), _as_it_is),
    **dict.fromkeys(("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"), _as_it_is),
}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_BUILDERS: dict[str, Callable[[_Machine], None]] = {
    "MARK": _Machine.mark,
    "MEMOIZE": _Machine.memoize,
    "TUPLE": _Machine.make_tuple,
    "LIST": _Machine.make_list,
    "DICT": _Machine.make_dict,
    "APPEND": _Machine.append,
    "APPENDS": _Machine.appends,
    "SETITEM": _Machine.set_item,
    "SETITEMS": _Machine.set_items,
    "STACK_GLOBAL": _Machine.stack_global,
    "REDUCE": _Machine.reduce,
    "BUILD": _Machine.build,
}
