"""``Dataset.features`` says what a model needs to know."""

from __future__ import annotations

import pyarrow as pa
import pytest

import beam_pipelines as bp
from beam_pipelines.reader.columns import Ragged

pytestmark = pytest.mark.end_to_end

# Feature -> kind, dtype, shape, size, lowest, number of texts, whether it may be missing, role.
EXPECTED = {
    "id": ("number", "int64", (), None, 0, None, False, ""),
    "f": ("number", "float32", None, None, 0, None, True, ""),
    "f_filled": ("number", "float32", (), None, 0, None, False, ""),
    "f_bucket": ("id", "int64", None, 4, 0, None, True, ""),
    "g_missing": ("id", "int64", (), 2, 0, None, False, ""),
    "n_hot": ("vector", "float32", (3,), 3, 0, None, False, ""),
    "m_text": ("text", "bytes", (), None, 0, None, False, ""),
    "m_id": ("id", "int64", (), 7, 0, 5, False, ""),
    "t": ("id", "int64", None, 112, -1, 112, True, ""),
    "t_hash": ("id", "int64", None, 100, 0, None, True, ""),
    "t_tokens": ("ragged", "int64", None, 12, 0, 11, False, ""),
    "t_bag": ("vector", "float32", (5,), 5, 0, None, False, ""),
    "route": ("id", "int64", (), 1000, 0, None, False, ""),
    "u": ("vector", "float32", (7,), 7, 0, 7, False, ""),
    "b": ("bytes", "bytes", (), None, 0, None, False, ""),
    "raw": ("bytes", "bytes", (), None, 0, None, False, ""),
    "ts": ("number", "int64", (), None, 0, None, False, ""),
    "flag": ("number", "int64", None, None, 0, None, True, ""),
    "month": ("id", "int64", (), 13, 0, None, False, ""),
    "hour": ("vector", "float32", (2,), 2, 0, None, False, ""),
    "words": ("ragged", "int64", None, 8, 0, 5, True, ""),
    "many": ("vector", "float32", (5,), 5, 0, 5, False, ""),
    "v": ("vector", "float32", (3,), 3, 0, None, False, ""),
    "y": ("number", "int64", (), None, 0, None, False, "label"),
}


def facts(feature: bp.FeatureInfo) -> tuple:
    """What ``EXPECTED`` has of a feature."""
    texts = None if feature.vocabulary is None else len(feature.vocabulary)
    return (
        feature.kind,
        feature.dtype,
        feature.shape,
        feature.size,
        feature.lowest,
        texts,
        feature.may_be_missing,
        feature.role,
    )


def test_encodings_give_kinds_and_sizes(folder):
    """Each kind of encoding has its kind, size and vocabulary."""
    found = bp.open(folder).features
    assert {name: facts(found[name]) for name in EXPECTED} == EXPECTED
    assert sorted(found["words"].vocabulary) == sorted(["to", "be", "or", "not", "É"])
    assert found["many"].vocabulary == found["words"].vocabulary
    assert "vocabulary" not in repr(found["t"])


def test_batches_are_as_described(folder):
    """Batches have the shapes, types and ids that features state."""
    dataset = bp.open(folder)
    [batch] = dataset.batches("train", 10_000, shuffle=False)
    assert list(dataset.features) == list(batch)
    for name, feature in dataset.features.items():
        values = batch[name]
        assert isinstance(values, Ragged) == (feature.shape is None), name
        flat = values.values if isinstance(values, Ragged) else values
        if feature.dtype == "bytes":
            assert flat.type == pa.large_binary(), name
            continue
        if feature.shape is not None:
            assert values.shape[1:] == feature.shape, name
        assert flat.dtype == feature.dtype, name
        if feature.kind in ("id", "ragged") and feature.size is not None:
            assert feature.lowest <= flat.min(), name
            assert flat.max() < feature.size, name


def test_rows_of_a_model_are_those_of_the_vocabulary(folder):
    """The encoder takes the text of an id."""
    dataset = bp.open(folder)
    encode = dataset.encoder(["m_id"])
    for number, text in enumerate(dataset.features["m_id"].vocabulary):
        assert encode({"m": int(text)})["m_id"].tolist() == [number]
    assert encode({"m": 10**6})["m_id"] >= len(dataset.features["m_id"].vocabulary)


def test_sequences_raw_records_and_weights(tmp_path):
    """Feature lists are ragged; raw records have no features."""
    (tmp_path / "rows.csv").write_text(
        "user.id,page,w,kg,note\n"
        + "".join(f"{n % 3},p{n % 4},{n % 2 + 1},{n / 4},é{n}\n" for n in range(60))
    )
    head = "sources: {rows: rows.csv}\nsplit: {train: 1.0}\n"
    recipes = {
        "plain": "name: plain\nencode: {user.id: vocabulary}\nstatistics: {weight: w}\nlabel: kg\n",
        "steps": "name: steps\nsequence: {group_by: user.id, order_by: kg}\n"
        "encode: {page: {vocabulary: {num_oov: 1}}}\n",
        "raw": "name: raw\nkeep: note\noutput: {record: note}\n",
    }
    found = {}
    for name, text in recipes.items():
        (tmp_path / f"{name}.yaml").write_text(text + head)
        found[name] = bp.open(
            bp.convert(str(tmp_path / f"{name}.yaml"), str(tmp_path / name)).folder
        ).features
    assert found["raw"] == {}
    plain = found["plain"]
    assert facts(plain["user.id"]) == ("id", "int64", (), 3, -1, 3, False, "")
    assert {name: feature.role for name, feature in plain.items()} == {
        "user.id": "",
        "page": "",
        "w": "weight",
        "kg": "label",
        "note": "",
    }
    assert plain["note"].kind == "text"
    assert facts(found["steps"]["page"]) == ("ragged", "int64", None, 5, 0, 4, False, "")
    assert found["steps"]["user.id"].kind == "number"
