"""Finds the labels of ids and the files that list them.

Labels come from the source or from vocabularies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from beam_pipelines.core.formatting import shorten
from beam_pipelines.core.layout.dataset_layout import LABELS, LABELS_FOLDER
from beam_pipelines.encodings.kinds.fill import Missing
from beam_pipelines.encodings.kinds.ids import FittedVocabulary
from beam_pipelines.encodings.plan import EncodePlan

# How much of a text, and of a list, is shown.
LONGEST_TEXT, LONGEST_LIST = 61, 8
# A vocabulary of more tokens is no list of classes; its tokens stay in the vocabulary's own file.
MAX_LABELS = 100_000
# Encodings that keep ids, as a number or as the place of the one in a vector.
_KEEP_IDS = ("fill", "one_hot", "multi_hot")

Labels = Mapping[str, tuple[str, ...]]


def labels_of_features(
    plan: EncodePlan, labels: Labels | None = None
) -> dict[str, tuple[str, ...]]:
    """Returns the texts by id of written features whose values are ids.

    Args:
      plan: of the encodings; the tokens of vocabularies are known once it is fitted.
      labels: column -> labels by id, before encoding.
    """
    known = dict(labels or {})
    for chain in plan.chains:
        texts = known.get(chain.inputs[0], ()) if len(chain.inputs) == 1 else ()
        for step in chain.steps:
            if isinstance(step.encoding, FittedVocabulary):
                texts = _texts(step.encoding.tokens)
            elif step.kind not in _KEEP_IDS or isinstance(step.encoding, Missing):
                texts = ()
        known[chain.name] = texts
    return {name: known[name] for name in plan.written if known.get(name)}


def _texts(tokens: pa.Array) -> tuple[str, ...]:
    if len(tokens) > MAX_LABELS:
        return ()
    return tuple(token.decode(errors="backslashreplace") for token in tokens.to_pylist())


def label_files(labels: Labels, label: str | None) -> dict[str, str]:
    """Returns the texts of label files by their path.

    Paths are in the dataset. A text has one line ``0:cat`` per id. ``labels.txt`` has the labels of
    the recipe's label, or without one of the first feature with labels. Other files are named after
    their feature, with ``-`` for each character that is no letter, digit, ``_`` or ``.``.
    """
    first = label or next(iter(labels), "")
    found: dict[str, str] = {}
    for name, texts in labels.items():
        plain = "".join(letter if letter.isalnum() or letter in "_." else "-" for letter in name)
        path, number = LABELS if name == first else f"{LABELS_FOLDER}/{plain}.txt", 2
        while path in found:
            path, number = f"{LABELS_FOLDER}/{plain}-{number}.txt", number + 1
        found[path] = "".join(f"{number}:{text}\n" for number, text in enumerate(texts))
    return found


def labels_behind(values: Sequence[Any] | None, names: Sequence[str]) -> str:
    """Returns the labels of a feature's values in brackets, or nothing."""
    found = label_texts(values or (), names)[:LONGEST_LIST] if names else []
    return f" ({', '.join(shorten(text, LONGEST_TEXT) for text in found)})" if found else ""


def label_texts(values: Sequence[Any], names: Sequence[str]) -> list[str]:
    """Returns the labels of a feature's values, where there are any.

    Values are ids, which are integers, or a vector of floats with ones at the places of ids.
    """
    ids = [value for value in values if isinstance(value, int)]
    if not ids and all(value in (0, 1) for value in values):
        ids = [place for place, value in enumerate(values) if value]
    return [names[number] for number in ids if 0 <= number < len(names)]
