"""Relations of sampled rows with their label, for the report and ``leaks``."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import NamedTuple

from beam_pipelines.checks.check import Sample
from beam_pipelines.encodings.values import to_float64
from beam_pipelines_plugins.labels.relations import Label, Relation, can_be_label, relations


class LabelRelations(NamedTuple):
    """The label, and the relation of each other column with it."""

    label: Label
    of: Mapping[str, Relation]


# The report and ``leaks`` ask for the same rows, one after the other.
_FOUND: weakref.WeakKeyDictionary[Sample, LabelRelations] = weakref.WeakKeyDictionary()


def relations_of(sample: Sample) -> LabelRelations | None:
    """Returns the relations of all columns, measured once for a sample.

    ``None`` if no column before encoding is a label.
    """
    batch, name = sample.raw, sample.label
    names = batch.schema.names
    if name is None or name not in names or not can_be_label(batch.column(name).type):
        return None
    if sample not in _FOUND:
        label = Label(name, batch.column(name), sample.classes)
        others = [other for other in names if other not in (name, sample.weight)]
        weights = to_float64(batch.column(sample.weight)) if sample.weight in names else None
        known = dict(relations(batch, label, others, weights)) if label.is_useful else {}
        _FOUND[sample] = LabelRelations(label, known)
    return _FOUND[sample]
