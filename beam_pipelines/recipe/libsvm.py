"""The recipe's options of libsvm, libfm and libffm sources."""

from __future__ import annotations

import dataclasses

from beam_pipelines.recipe.keys import recipe_key
from beam_pipelines.recipe.values import read_flag, read_integer, read_name


@dataclasses.dataclass(frozen=True)
class Libsvm:
    """Options of ``libsvm``, ``libfm`` and ``libffm`` sources."""

    base: int | None = recipe_key(
        read_integer(0, 1), None, "1 of `libsvm`, else 0", "The first index in the files."
    )
    size: int | None = recipe_key(
        read_integer(1, 1 << 62), None, "from the data", "Number of indices; a larger one is bad."
    )
    fields: int | None = recipe_key(
        read_integer(1, 1 << 62), None, "from the data", "Number of fields of libffm; the same."
    )
    sort: bool = recipe_key(
        read_flag, False, "false", "Sorts the indices of each line; else they must ascend."
    )
    name: str = recipe_key(
        read_name, "features", "`features`", "Name of the sparse feature; prefix of its columns."
    )
