"""``batches(as_="tf")`` gives the tensors that TensorFlow itself parses."""

from __future__ import annotations

import pathlib
import sys

import pytest
import tensorflow as tf

import beam_pipelines as bp
from beam_pipelines.core.layout.schema_features import feature_lists_of, has_one_value_a_step
from tests.reader import test_sequences, test_values
from tests.reader.datasets import write_records
from tests.support.web_server import served

ROWS = [test_values.row(number) for number in range(20)]
SEQUENCES = [
    test_sequences.sequence(
        number,
        {
            "tags": [b"t"] * (number % 3) if number % 4 else None,
            "clicks": list(range(number % 5)) if number % 4 else None,
            "prices": [1.5, None, 0.0][: number % 4],
            "words": [[b"a"] * n for n in range(number % 4)],
        },
    )
    for number in range(12)
]
RAGGED = test_values.SCHEMA + "represent_variable_length_as_ragged: true"


def dense(batch):
    """Returns a batch's tensors as lists."""
    return {
        name: (tf.sparse.to_dense(of).numpy() if isinstance(of, tf.SparseTensor) else of)
        for name, of in batch.items()
    }


def equal(left, right):
    if isinstance(left, tf.RaggedTensor):
        return left.to_list() == right.to_list()
    return bool(tf.reduce_all(tf.equal(left, right)))


def test_batches_of_a_web_server(tmp_path):
    """They are those of a copy; TensorFlow itself cannot read there."""
    folder = write_records(tmp_path / "data", RAGGED, ROWS)
    with served(pathlib.Path(folder)) as server:
        pairs = zip(
            bp.open(server.url).batches(batch_size=8, as_="tf", columns=["id"]),
            bp.open(folder).batches(batch_size=8, as_="tf", columns=["id"]),
            strict=True,
        )
        assert all(equal(one["id"], other["id"]) for one, other in pairs)


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize(
    ("schema", "records", "manifest", "options"),
    [
        (test_values.SCHEMA, ROWS, {}, {}),
        (RAGGED, ROWS, {}, {}),
        (
            test_sequences.SCHEMA,
            SEQUENCES,
            {"record": "sequence_example", "columns": test_sequences.COLUMNS},
            {},
        ),
        (
            test_sequences.SCHEMA,
            SEQUENCES,
            {"record": "sequence_example", "columns": test_sequences.COLUMNS},
            {"padding": -1},
        ),
    ],
    ids=["sparse", "ragged", "sequences", "padded"],
)
def test_tensors_are_those_that_tensorflow_parses(
    tmp_path, schema, records, manifest, options, drop
):
    """Specs, lengths and tensors equal those of ``tf.io.parse_example``."""
    folder = write_records(tmp_path, schema, records, **manifest)
    columns = ["id", "clicks", "prices", "words"] if options else None
    found = bp.open(folder).batches(
        "train",
        5,
        as_="tf",
        columns=columns,
        remainder="drop" if drop else "short",
        shuffle=False,
        **options,
    )
    expected = parsed(folder, columns, drop, **options)
    assert len(found) == len(records) // 5 + (0 if drop or not len(records) % 5 else 1)
    wanted = expected.element_spec
    assert {name: type(spec) for name, spec in found.element_spec.items()} == {
        name: type(spec) for name, spec in wanted.items()
    }
    for batch, own in zip(found, expected, strict=True):
        left, right = dense(batch), dense(own)
        assert left.keys() == right.keys()
        for name, value in left.items():
            assert value.dtype == right[name].dtype
            assert equal(value, right[name]), name
    assert found.element_spec == wanted


def parsed(folder, columns, drop, padding=None):
    """Returns the batches that TensorFlow reads and parses itself."""
    dataset = bp.open(folder)
    files = tf.data.TFRecordDataset(dataset.shards("train"))
    context, lists = dataset.feature_spec(), dataset.feature_spec(lists=True)
    several = {
        name
        for name, type_ in dataset.manifest["columns"].items()
        if type_.startswith("list<list<")
    }
    one = {
        feature.name
        for feature in feature_lists_of(dataset.schema)
        if has_one_value_a_step(feature) and feature.name not in several
    }

    def shaped(name, tensor):
        if padding is not None:
            filler = (
                tf.constant("") if tensor.dtype == tf.string else tf.cast(padding, tensor.dtype)
            )
            if name in several:
                return tensor.to_tensor(filler)
            return tf.squeeze(tensor.to_tensor(filler, shape=[None, None, 1]), 2)
        if name in one:
            return tf.RaggedTensor.from_row_splits(tensor.flat_values, tensor.row_splits)
        return tensor

    def parse(batch):
        if not lists:
            return tf.io.parse_example(batch, context)
        found, steps, _ = tf.io.parse_sequence_example(batch, context, lists)
        made = {**found, **{name: shaped(name, tensor) for name, tensor in steps.items()}}
        return made if columns is None else {name: made[name] for name in columns}

    return files.batch(5, drop_remainder=drop).map(parse)


def test_passes_are_epochs(tmp_path):
    """Each pass has the next epoch's order, also after an early end."""
    folder = write_records(tmp_path, test_values.SCHEMA, ROWS)
    options = {"batch_size": 4, "columns": ["id"]}
    found = bp.open(folder).batches("train", as_="tf", **options)
    epochs = bp.open(folder).batches("train", epochs=3, **options)
    whole = [batch["id"].tolist() for batch in epochs]

    def ids(batches):
        return [batch["id"].numpy()[:, 0].tolist() for batch in batches]

    assert ids(found) == whole[:5]
    assert ids(found.take(1)) == whole[5:6]
    assert ids(found) == whole[10:]


def test_filled_and_narrower(tmp_path):
    """A fill value makes a feature dense; types are those asked for."""
    folder = write_records(tmp_path, test_values.SCHEMA, ROWS)
    found = bp.open(folder).batches(
        "train", as_="tf", fill={"maybe": -1}, types={"id": "int32"}, columns=["id", "maybe"]
    )
    assert found.element_spec == {
        "id": tf.TensorSpec([None, 1], tf.int32),
        "maybe": tf.TensorSpec([None, 1], tf.int64),
    }
    (batch,) = found
    same = {row[0]: row[0] * 5 if row[0] % 3 else -1 for row in batch["id"].numpy().tolist()}
    assert list(same.values()) == batch["maybe"].numpy()[:, 0].tolist()


def test_missing_tensorflow(tmp_path, monkeypatch):
    """Without TensorFlow, asking for it says so."""
    folder = write_records(tmp_path, test_values.SCHEMA, ROWS)
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(ValueError, match=r"TensorFlow cannot be imported .* Install tensorflow"):
        bp.open(folder).batches("train", as_="tf")
