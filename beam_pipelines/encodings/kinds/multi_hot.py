"""``multi_hot``: ids of several categories as a vector of zeros and ones."""

from __future__ import annotations

import dataclasses

from beam_pipelines.core.columns import type_name
from beam_pipelines.encodings.feature import Feature
from beam_pipelines.encodings.kinds.one_hot import OneHot


@dataclasses.dataclass(frozen=True)
class MultiHot(OneHot):
    """A vector with a one at each id of a list.

    The other places are zero. Null and empty lists, and ids outside the range, set no one.
    """

    kind = "multi_hot"

    def _check_list(self, feature: Feature) -> None:
        if not feature.is_list:
            raise ValueError(
                f"found {type_name(feature.type)}, expected a list of ids a row. Take 'one_hot' "
                "for one id."
            )
