"""What ids are called: class names that sources know and encodings keep, tokens of the label's
vocabulary, and the files that list them.
"""

from __future__ import annotations

from collections.abc import Mapping

from beam_pipelines.encodings.kinds.vocabulary import FittedVocabulary
from beam_pipelines.encodings.plan import Chain, EncodePlan

LABELS = "labels.txt"
LABELS_FOLDER = "labels"
# A label of more tokens than this is no class, and its names stay in the vocabulary's own file.
MOST_NAMES = 100_000
# Encodings behind which an id is still the same id: a number, or the place of the one in a vector.
_KEEP_IDS = ("fill", "one_hot", "multi_hot")

ClassNames = Mapping[str, tuple[str, ...]]


def kept_names(named: ClassNames, plan: EncodePlan) -> dict[str, tuple[str, ...]]:
    """Returns written feature -> class names, by id, of features that still hold the ids of columns
    that have names.

    Args:
      named: column -> class names, before encoding.
      plan: of the encodings.
    """
    known = dict(named)
    for chain in plan.chains:
        names = (
            known.pop(chain.name, ())
            if chain.inputs == (chain.name,)
            else known.get(chain.inputs[0], ())
        )
        if names and len(chain.inputs) == 1 and all(step.kind in _KEEP_IDS for step in chain.steps):
            known[chain.name] = names
        else:
            known.pop(chain.name, None)
    return {name: known[name] for name in plan.written if name in known}


def label_names(plan: EncodePlan, label: str | None) -> dict[str, tuple[str, ...]]:
    """Returns label -> tokens, by id, if a vocabulary makes the label; else nothing.

    Args:
      plan: of the encodings, fitted.
      label: the recipe's.
    """
    for chain in plan.chains:
        if chain.name == label:
            tokens = _tokens(chain)
            return {chain.name: tokens} if 0 < len(tokens) <= MOST_NAMES else {}
    return {}


def _tokens(chain: Chain) -> tuple[str, ...]:
    """Returns the tokens of a chain's vocabulary, if what comes behind it keeps its ids."""
    found: tuple[str, ...] = ()
    for step in chain.steps:
        if isinstance(step.encoding, FittedVocabulary) and len(step.encoding.tokens) <= MOST_NAMES:
            found = tuple(
                token.decode(errors="backslashreplace")
                for token in step.encoding.tokens.to_pylist()
            )
        elif step.kind not in _KEEP_IDS:
            found = ()
    return found


def label_files(labels: ClassNames, label: str | None) -> dict[str, str]:
    """Returns path in the dataset -> text: ``0:cat``, one a line.

    The recipe's label, or of a recipe without one the first feature with names, stands in
    ``labels.txt``; others stand in files that are named after the feature, with ``-`` for each
    character that is no letter, digit, ``_`` or ``.``.
    """
    first = label or next(iter(labels), "")
    found: dict[str, str] = {}
    for name, names in labels.items():
        plain = "".join(letter if letter.isalnum() or letter in "_." else "-" for letter in name)
        path, number = LABELS if name == first else f"{LABELS_FOLDER}/{plain}.txt", 2
        while path in found:
            path, number = f"{LABELS_FOLDER}/{plain}-{number}.txt", number + 1
        found[path] = "".join(f"{number}:{text}\n" for number, text in enumerate(names))
    return found
