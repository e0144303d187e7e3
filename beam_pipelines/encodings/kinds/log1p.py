"""``log1p``: the logarithm of 1 + x.

It suits counts and amounts with a long tail.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from beam_pipelines.encodings.encoding import Fixed
from beam_pipelines.encodings.formula import Formula, Library


@dataclasses.dataclass(frozen=True)
class Log1p(Formula, Fixed):
    """Natural logarithm of 1 + x; null stays null.

    -1 becomes -inf, and smaller values NaN, as in numpy and TensorFlow.
    """

    elementwise = True
    keeps_apart = True

    def formula(self, x: Any, library: Library) -> Any:
        """Takes the logarithm."""
        return library.log1p(x)
