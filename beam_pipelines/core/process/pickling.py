"""Pickles values once per process, however many steps hold them.

Beam pickles and unpickles each step by itself, three times before it runs; it pickles elements also
to estimate their sizes. Twenty steps hold a plan of 5,000 columns, and its statistics were pickled
nine times.
"""

from __future__ import annotations

import dataclasses
import pickle
import weakref
import zlib
from typing import Any, ClassVar

# Pickled form -> the value in this process, while it lives.
_known: weakref.WeakValueDictionary[bytes, Any] = weakref.WeakValueDictionary()


class PickledOnce:
    """Base of frozen dataclasses that are pickled once.

    All holders in a process share one unpickled value, which must not be changed. Fields must be
    importable: no lambdas, nothing from ``__main__``.

    Attributes:
      compresses: whether the pickled form is compressed. Beam compresses steps several times, which
        is fast for small ones.
    """

    compresses: ClassVar[bool] = True
    _packed: bytes | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        if self._packed is None:
            fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
            packed = pickle.dumps((type(self), fields), pickle.HIGHEST_PROTOCOL)
            packed = zlib.compress(packed) if self.compresses else packed
            object.__setattr__(self, "_packed", packed)
            _known.setdefault(packed, self)
        return _unpickle, (self._packed, self.compresses)


def _unpickle(packed: bytes, is_compressed: bool) -> Any:
    value = _known.get(packed)
    if value is None:
        data = zlib.decompress(packed) if is_compressed else packed
        kind, fields = pickle.loads(data)  # noqa: S301 - of a step of the job, which is code
        value = kind(**fields)
        object.__setattr__(value, "_packed", packed)
        value = _known.setdefault(packed, value)
    return value
