"""Relations of sampled rows, which two callers ask for."""

from __future__ import annotations

import gc

import numpy as np
import pyarrow as pa

from beam_pipelines.checks.check import SampledSplits
from beam_pipelines.encodings.plan import EncodePlan
from beam_pipelines_plugins.labels import relations as sampled
from beam_pipelines_plugins.labels.card import describe_label
from beam_pipelines_plugins.labels.leaking import leaking_features
from beam_pipelines_plugins.labels.relations import Label, relations


def sample_of(label="y"):
    """Returns rows in which one column tells the label."""
    numbers = np.random.default_rng(3)
    y = numbers.integers(0, 2, 2_000)
    rows = pa.record_batch({"y": y, "told": y * 3 + 1, "other": numbers.normal(size=len(y))})
    return SampledSplits(rows, rows, EncodePlan(rows.schema, (), tuple(rows.schema.names)), label)


def test_relations_are_measured_once(monkeypatch):
    """The report and ``leaks`` share the relations, which equal those alone."""
    calls = []
    monkeypatch.setattr(sampled, "relations", lambda *a: calls.append(1) or relations(*a))
    sample = sample_of()
    card, leaks = describe_label(sample), list(leaking_features(sample, 0.99))
    alone = dict(relations(sample.raw, Label("y", sample.raw["y"]), ["told", "other"], None))
    assert (calls, card.order) == ([1], {name: one.bits for name, one in alone.items()})
    assert [data["column"] for _, data in leaks] == ["told"]
    describe_label(sample_of())
    assert calls == [1, 1]


def test_rows_are_not_kept():
    """Relations go with their sample; without a label there are none."""
    gc.collect()
    before = len(sampled._FOUND)
    sample = sample_of()
    assert sampled.relations_of(sample).of
    assert sampled.relations_of(sample_of(None)) is None
    assert len(sampled._FOUND) == before + 1
    del sample
    gc.collect()
    assert len(sampled._FOUND) == before
