"""Turns columns into features with encodings.

One dictionary lists the kinds. ``encoding.py`` defines encodings, ``feature.py`` their inputs and
outputs, ``analyzers.py`` the analyses they are fitted to, and ``store.py`` their storage.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, MutableMapping

from beam_pipelines.core.process import plugins
from beam_pipelines.encodings.encoding import Encoding, Fitted
from beam_pipelines.encodings.feature import Feature, feature_type

__all__ = [
    "ENCODING_FOR_KIND",
    "Encoding",
    "Feature",
    "Fitted",
    "feature_type",
    "register_encoding",
]

_KINDS = {
    "bag_of_words": ("bag_of_words",),
    "cast": ("cast",),
    "column": ("column", "drop"),
    "date_parts": ("date_parts",),
    "fill": ("fill",),
    "ids": ("cross", "hash_bucket", "vocabulary"),
    "numbers": ("clip", "cyclic", "log1p", "min_max", "z_score"),
    "quantiles": ("boundaries", "bucketize", "quantile_normal"),
    "tokenize": ("tokenize",),
    "vectors": ("multi_hot", "one_hot", "vector"),
}
# Kind -> its module in ``kinds``.
_MODULES = {kind: module for module, kinds in _KINDS.items() for kind in kinds}


class _Encodings(MutableMapping[str, type[Encoding]]):
    """Encodings by kind; the first look at one imports its module.

    All of them take 30 ms, and most recipes name a few.
    """

    def __init__(self) -> None:
        self._found: dict[str, type[Encoding]] = {}

    def __getitem__(self, kind: str) -> type[Encoding]:
        if kind not in self._found and kind in _MODULES:
            module = importlib.import_module(f"{__name__}.kinds.{_MODULES[kind]}")
            self._found[kind] = getattr(module, "".join(map(str.capitalize, kind.split("_"))))
        elif kind not in self._found:
            self._found[kind] = plugins.load(plugins.ENCODINGS, kind)
        return self._found[kind]

    def __setitem__(self, kind: str, encoding: type[Encoding]) -> None:
        self._found[kind] = encoding

    def __delitem__(self, kind: str) -> None:
        del self._found[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*_MODULES, *self._found, *plugins.others(plugins.ENCODINGS))))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, kind: object) -> bool:
        return kind in {*_MODULES, *self._found} or plugins.has(plugins.ENCODINGS, str(kind))


ENCODING_FOR_KIND: MutableMapping[str, type[Encoding]] = _Encodings()


def register_encoding(kind: str, encoding: type[Encoding]) -> None:
    """Adds a kind of encoding that recipes can name.

    Call it at the end of the module that defines the encoding and its ``Fitted``. Worker processes
    and the process that builds the serving graph unpickle the encoding by reference: they import
    that module, and so register it too.

    Raises:
      ValueError: the kind is taken, or the class is in ``__main__``, which they cannot import.
    """
    if kind in ENCODING_FOR_KIND:
        raise ValueError(f"encoding '{kind}': found {ENCODING_FOR_KIND[kind]}, expected a new kind")
    if encoding.__module__ == "__main__":
        raise ValueError(
            f"encoding '{kind}': found {encoding} in the main script, expected it in a module that "
            "other processes can import"
        )
    ENCODING_FOR_KIND[kind] = encoding
