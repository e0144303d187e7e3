"""Makes sources of recipes without YAML."""

from __future__ import annotations

import dataclasses
from typing import Any

from beam_pipelines.recipe.model import Planning, Source


def made_source(name: str, path: tuple[str, ...] = (), **keys: Any) -> Source:
    """Returns the source of keys, those of its format included."""
    own = {field.name for field in dataclasses.fields(Source)}
    planning = {key: keys.pop(key) for key in Planning._fields if key in keys}
    options = {key: keys.pop(key) for key in [*keys] if key not in own}
    return Source(name, path, **keys, options=options, planning=Planning(**planning))
