"""Finds the labels of ids and the files that list them.

Labels come from the source or from the label's vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping

from beam_pipelines.core.dataset_layout import LABELS, LABELS_FOLDER
from beam_pipelines.encodings.kinds.vocabulary import FittedVocabulary
from beam_pipelines.encodings.plan import Chain, EncodePlan

# A vocabulary of more tokens is no list of classes; its tokens stay in the vocabulary's own file.
MAX_LABELS = 100_000
# Encodings that keep ids, as a number or as the place of the one in a vector.
_KEEP_IDS = ("fill", "one_hot", "multi_hot")

Labels = Mapping[str, tuple[str, ...]]


def kept_labels(labels: Labels, plan: EncodePlan) -> dict[str, tuple[str, ...]]:
    """Returns labels of written features that keep a labelled column's ids.

    Args:
      labels: column -> labels by id, before encoding.
      plan: of the encodings.
    """
    known = dict(labels)
    for chain in plan.chains:
        own = (
            known.pop(chain.name, ())
            if chain.inputs == (chain.name,)
            else known.get(chain.inputs[0], ())
        )
        if own and len(chain.inputs) == 1 and all(step.kind in _KEEP_IDS for step in chain.steps):
            known[chain.name] = own
        else:
            known.pop(chain.name, None)
    return {name: known[name] for name in plan.written if name in known}


def vocabulary_labels(plan: EncodePlan, label: str | None) -> dict[str, tuple[str, ...]]:
    """Returns the tokens by id of a label that a vocabulary encodes.

    The key is the label feature. Without such a vocabulary the dictionary is empty.

    Args:
      plan: of the encodings, fitted.
      label: the label feature of the recipe.
    """
    for chain in plan.chains:
        if chain.name == label:
            tokens = _tokens(chain)
            return {chain.name: tokens} if 0 < len(tokens) <= MAX_LABELS else {}
    return {}


def _tokens(chain: Chain) -> tuple[str, ...]:
    """Returns a chain's vocabulary tokens if later steps keep its ids."""
    found: tuple[str, ...] = ()
    for step in chain.steps:
        if isinstance(step.encoding, FittedVocabulary) and len(step.encoding.tokens) <= MAX_LABELS:
            found = tuple(
                token.decode(errors="backslashreplace")
                for token in step.encoding.tokens.to_pylist()
            )
        elif step.kind not in _KEEP_IDS:
            found = ()
    return found


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
