"""Similar texts: kernels against Python, and the formulas against all pairs."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_pipelines.core import _native
from beam_pipelines_plugins.near import shingles
from tests.support.kernels import without_kernels

TEXTS = st.lists(st.none() | st.text(max_size=30) | st.text("ab", max_size=12), max_size=12)


def sets_of(text: str | None) -> set[str]:
    return {text[place : place + 5] for place in range(max(1, len(text) - 4))} if text else set()


@settings(max_examples=50, deadline=None)
@given(TEXTS, TEXTS)
def test_similarity_against_sets(left: list[str | None], right: list[str | None]) -> None:
    """It is the Jaccard similarity of sets of five characters."""
    pairs = list(zip(left, right, strict=False))
    arrays = [pa.array([pair[place] for pair in pairs], pa.string()) for place in (0, 1)]
    found = _native.similarities(*arrays)
    for value, (one, other) in zip(found.tolist(), pairs, strict=True):
        union = sets_of(one) | sets_of(other)
        expected = len(sets_of(one) & sets_of(other)) / len(union) if one and other else 0
        assert value == pytest.approx(expected)


@settings(max_examples=40, deadline=None)
@given(TEXTS, st.integers(1, 6), st.integers(1, 6))
def test_kernels_against_numpy(texts: list[str | None], bands: int, rows: int) -> None:
    """With and without the extension, hashes and similarities are the same."""
    array = pa.array([None, *texts], pa.string()).slice(1)
    other = array.take(pa.array(np.arange(len(array))[::-1].copy()))
    found = _native.band_hashes(array, bands, rows), _native.similarities(array, other)
    with without_kernels():
        expected = _native.band_hashes(array, bands, rows), _native.similarities(array, other)
    for one, same in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, same)


@pytest.mark.parametrize("similarity", [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0])
def test_bands_find_pairs_of_a_similarity(similarity: float) -> None:
    """Of 100 pairs of this similarity 99 agree in a band."""
    generator = random.Random(5)
    letters = "abcdefghijklmnopqrstuvwxyz "
    pairs = []
    while len(pairs) < 1500:
        text = "".join(generator.choices(letters, k=generator.randrange(60, 140)))
        other = list(text)
        while other:
            change = generator.randrange(len(other))
            if similarity < 1:
                other[change] = generator.choice(letters)
            one, two = sets_of(text), sets_of("".join(other))
            share = len(one & two) / len(one | two)
            if share < similarity - 0.04:
                break
            if similarity <= share <= similarity + 0.03:
                pairs.append((text, "".join(other)))
                break
    plan = shingles.plan_bands(similarity)
    left, right = (
        _native.band_hashes(pa.array([pair[place] for pair in pairs]), *plan) for place in (0, 1)
    )
    agrees = (left[:, :-1] == right[:, :-1]).any(axis=1)
    assert agrees.mean() >= 0.99
    assert plan.bands * plan.rows <= 128


def test_values_that_never_change() -> None:
    """The hashes of a text are those of the definition."""
    (found,) = _native.band_hashes(pa.array(["near duplicates"]), 2, 2).tolist()
    assert found == [6890243255749623766, 12476455198148746180, 3129491416529255896]


def test_other_arrays_are_errors() -> None:
    """Numbers are no texts, and pairs have one length."""
    texts = pa.array(["a", "b"])
    with pytest.raises(TypeError):
        _native.band_hashes(pa.array([1]), 1, 1)
    with pytest.raises(ValueError, match="expected pairs"):
        _native.similarities(texts, texts.slice(1))
    with pytest.raises(ValueError, match="outside of 1 to 1024"):
        _native.band_hashes(texts, 0, 1)
