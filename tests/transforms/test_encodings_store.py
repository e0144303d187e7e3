"""transforms/encode.py stores fitted encodings exactly, as JSON and Arrow."""

from __future__ import annotations

import json
import math
import os
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.errors import DataError
from beam_pipelines.encodings.kinds.ids import FittedVocabulary
from beam_pipelines.encodings.kinds.numbers import FittedZScore
from beam_pipelines.transforms.encode import (
    FILE_NAME,
    cached_encodings,
    load_encodings,
    save_encodings,
)


@given(st.floats(), st.floats())
def test_floats_come_back_to_the_last_bit(
    tmp_path_factory: pytest.TempPathFactory, mean: float, deviation: float
) -> None:
    """Any float64 survives, NaN and infinities too."""
    folder = str(tmp_path_factory.mktemp("store"))
    save_encodings(folder, {(0, 0): ("z_score", FittedZScore(mean, deviation))})
    _, found = load_encodings(folder)[0, 0]
    assert isinstance(found, FittedZScore)
    assert np.array([mean, deviation]).tobytes() == np.array(
        [found.mean, found.deviation]
    ).tobytes() or math.isnan(mean + deviation)


def test_arrays_lie_beside_the_json(tmp_path: Any) -> None:
    """An array has its own file, next to the JSON.

    Bytes that are no UTF-8 survive.
    """
    tokens = pa.array([b"a", b"\xff", "é".encode()], pa.binary())
    save_encodings(str(tmp_path), {(2, 1): ("vocabulary", FittedVocabulary(tokens, 3))})
    kind, found = load_encodings(str(tmp_path))[2, 1]
    assert kind == "vocabulary"
    assert isinstance(found, FittedVocabulary)
    assert found.tokens.equals(tokens)
    assert found.num_oov == 3
    assert (tmp_path / "2-1-tokens.arrow").exists()


def test_a_folder_that_is_written_again_is_loaded_again(tmp_path: Any) -> None:
    """A second conversion of a process uses its own vocabulary.

    Both write to one output.
    """
    for number, token in enumerate(("old", "new")):
        tokens = pa.array([token])
        save_encodings(str(tmp_path), {(0, 0): ("vocabulary", FittedVocabulary(tokens, 0))})
        os.utime(tmp_path / FILE_NAME, (number, number))
        _, found = cached_encodings(str(tmp_path))[0, 0]
        assert isinstance(found, FittedVocabulary)
        assert found.tokens.equals(tokens)
        assert cached_encodings(str(tmp_path))[0, 0][1] is found


def test_same_encodings_give_the_same_bytes(tmp_path: Any) -> None:
    """Saved bytes do not depend on the order of the steps."""
    steps = {(0, 0): ("z_score", FittedZScore(1, 2)), (1, 0): ("z_score", FittedZScore(3, 4))}
    save_encodings(str(tmp_path / "a"), steps)
    save_encodings(str(tmp_path / "b"), dict(reversed(steps.items())))
    assert (tmp_path / "a" / FILE_NAME).read_bytes() == (tmp_path / "b" / FILE_NAME).read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 99}, "format version 99, expected 1"),
        (
            {
                "encodings": [
                    {"chain": 0, "step": 0, "kind": "z_score", "class": "pa", "values": {}}
                ]
            },
            "found no fitted encodings",
        ),
        (
            {"encodings": [{"chain": 0, "step": 0, "kind": "os", "class": "system", "values": {}}]},
            "found no fitted encodings",
        ),
        (
            {
                "encodings": [
                    {
                        "chain": 0,
                        "step": 0,
                        "kind": "z_score",
                        "class": "FittedZScore",
                        "values": {"x": 1},
                    }
                ]
            },
            "found no fitted",
        ),
        (
            {
                "encodings": [
                    {
                        "chain": 0,
                        "step": 0,
                        "kind": "vocabulary",
                        "class": "FittedVocabulary",
                        "values": {"tokens": {"arrow": "x"}},
                    }
                ]
            },
            "x: ",
        ),
        (
            {
                "encodings": [
                    {
                        "chain": 0,
                        "step": 0,
                        "kind": "vocabulary",
                        "class": "FittedVocabulary",
                        "values": {"tokens": {"arrow": "../x"}},
                    }
                ]
            },
            "'../x' is no name of a file",
        ),
        ({"encodings": None}, "found no fitted encodings"),
    ],
)
def test_damage_is_explained(tmp_path: Any, change: dict[str, Any], message: str) -> None:
    """A damaged encoding is an error with its file's name.

    The file has another version or class, or lacks its arrays. Nothing else is called.
    """
    save_encodings(str(tmp_path), {(0, 0): ("z_score", FittedZScore(1, 2))})
    path = tmp_path / FILE_NAME
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DataError, match=message):
        load_encodings(str(tmp_path))
