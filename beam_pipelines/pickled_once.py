"""Values that many steps of a job hold: pickled once where the job is made, and unpickled once in a process that runs it.

Beam pickles each step by itself, three times before it runs, and unpickles it as often. A plan of 5,000 columns hangs on thirty steps.
"""

from __future__ import annotations

import dataclasses
import pickle
import weakref
import zlib
from typing import Any

# What the values of this process look like pickled, as long as they live.
_known: weakref.WeakValueDictionary[bytes, Any] = weakref.WeakValueDictionary()


class PickledOnce:
    """Base of frozen dataclasses that are pickled once. What is unpickled is one value for all who hold it, so it must not be changed.

    Their parts have to be importable: lambdas and what stands in ``__main__`` cannot be pickled so.
    """

    _packed: bytes | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        if self._packed is None:
            fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
            # Beam compresses what it pickles, again and again: that is quick of little.
            packed = zlib.compress(pickle.dumps((type(self), fields), pickle.HIGHEST_PROTOCOL), 6)
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
