"""Pickles values once per process, however many steps hold them.

Beam pickles and unpickles each step by itself, three times before it runs; it pickles elements also
to estimate their sizes. Twenty steps hold a plan of 5,000 columns.
"""

from __future__ import annotations

import dataclasses
import pickle
import weakref
import zlib
from typing import Any

# Pickled form -> the value in this process, while it lives.
_known: weakref.WeakValueDictionary[bytes, Any] = weakref.WeakValueDictionary()


class PickledOnce:
    """Base of frozen dataclasses that are pickled once.

    All holders in a process share one unpickled value, which must not be changed. Fields must be
    importable: no lambdas, nothing from ``__main__``.

    The pickled form is compressed: Beam compresses steps several times, which is fast for small
    ones.
    """

    _packed: bytes | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        if self._packed is None:
            fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
            packed = zlib.compress(pickle.dumps((type(self), fields), pickle.HIGHEST_PROTOCOL))
            object.__setattr__(self, "_packed", packed)
            _known.setdefault(packed, self)
        return _unpickle, (self._packed,)


def _unpickle(packed: bytes) -> Any:
    value = _known.get(packed)
    if value is None:
        kind, fields = pickle.loads(zlib.decompress(packed))  # noqa: S301 - of a step of the job, which is code
        value = kind(**fields)
        object.__setattr__(value, "_packed", packed)
        value = _known.setdefault(packed, value)
    return value
