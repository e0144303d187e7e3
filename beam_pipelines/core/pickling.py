"""Values that many steps of a job hold or pass on: pickled once where they are made, and unpickled
once in a process that gets them.

Beam pickles each step by itself, three times before it runs, and unpickles it as often; what passes
between steps it pickles also to estimate its size. A plan of 5,000 columns hangs on twenty steps,
and their statistics were pickled nine times.
"""

from __future__ import annotations

import dataclasses
import pickle
import weakref
import zlib
from typing import Any, ClassVar

# What the values of this process look like pickled, as long as they live.
_known: weakref.WeakValueDictionary[bytes, Any] = weakref.WeakValueDictionary()


class PickledOnce:
    """Base of frozen dataclasses that are pickled once. What is unpickled is one value for all who
    hold it, so it must not be changed.

    Their parts have to be importable: lambdas and what stands in ``__main__`` cannot be pickled so.

    Attributes:
      compresses: whether what is pickled is compressed: Beam compresses steps, again and again,
        which is quick of little.
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
