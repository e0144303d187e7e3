"""The flights example from the command line to a trainer's tensors.

The oracle is a computation in pandas that shares no code with ours.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from beam_pipelines.dataset.verify import verify_dataset
from tests.support import flights_oracle

pytestmark = pytest.mark.end_to_end

DAY = ["year", "month", "day"]


class Converted(NamedTuple):
    """The dataset that the command wrote.

    Attributes:
      manifest: its ``dataset.json``.
      splits: split name -> its examples as a table, read back by TensorFlow; nulls are missing
        values.
    """

    manifest: dict
    splits: dict[str, pd.DataFrame]

    @property
    def examples(self) -> pd.DataFrame:
        return pd.concat(self.splits.values()).sort_values(
            flights_oracle.IDENTITY, ignore_index=True
        )


@pytest.fixture(scope="module")
def expected(flights_data):
    return flights_oracle.compute(flights_data)


@pytest.fixture(scope="module")
def converted(repository, flights_data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("flights") / "dataset"
    command = pathlib.Path(sys.executable).with_name("beam-pipelines")
    recipe = repository / "examples" / "flights" / "recipe.yaml"
    run = subprocess.run(
        [command, "convert", recipe, "--output", folder],
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    verify_dataset(str(folder))
    manifest = json.loads((folder / "dataset.json").read_text())
    return Converted(
        manifest, {split: read_split(folder, manifest, split) for split in manifest["splits"]}
    )


def read_split(folder: pathlib.Path, manifest: dict, split: str) -> pd.DataFrame:
    """Reads all shards of a split like a trainer.

    tfx-bsl derives the feature spec from our schema.
    """
    import tensorflow as tf
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tfx_bsl.tfxio import tensor_representation_util as representations

    schema = text_format.Parse((folder / manifest["schema"]).read_text(), schema_pb2.Schema())
    kinds = {feature.name: feature.type for feature in schema.feature}
    spec = {
        name: representations.CreateTfExampleParserConfig(representation, kinds[name])
        for name, representation in representations.InferTensorRepresentationsFromMixedSchema(
            schema
        ).items()
    }
    pattern = str(folder / "examples" / f"Split-{split}" / "*")
    shards = tf.data.Dataset.list_files(pattern, shuffle=False)
    batches = tf.data.TFRecordDataset(shards, compression_type="GZIP").batch(8192)
    tables = [
        pd.DataFrame(
            {name: as_column(tensor) for name, tensor in tf.io.parse_example(batch, spec).items()}
        )
        for batch in batches
    ]
    return pd.concat(tables, ignore_index=True)


def as_column(tensor) -> pd.Series:
    """Returns one value a row, and null for a row without one."""
    import tensorflow as tf

    if isinstance(tensor, tf.sparse.SparseTensor):
        rows, count = tensor.indices.numpy()[:, 0], int(tensor.dense_shape[0])
        values = tensor.values.numpy()
    else:
        values = tensor.numpy().reshape(len(tensor), -1)
        assert values.shape[1] == 1, f"{values.shape[1]} values a row"
        values, count = values[:, 0], len(values)
        rows = np.arange(count)
    assert len(np.unique(rows)) == len(rows), "more than one value in a row"
    if values.dtype == object:
        values = [value.decode() for value in values]
    dtype = {"i": "Int64", "f": "Float32"}.get(np.asarray(values).dtype.kind, "string")
    return pd.Series(values, index=rows, dtype=dtype).reindex(range(count))


def test_every_value_of_every_example_is_the_oracles(converted, expected):
    """All columns of all 327,346 rows equal those of pandas, nulls included."""
    found = converted.examples
    assert sorted(found.columns) == sorted(expected.examples.columns)
    assert len(found) == len(expected.examples)
    differing = {
        name: count
        for name in found.columns
        if (count := differences(found[name], expected.examples[name]))
    }
    assert differing == {}


def differences(found: pd.Series, wanted: pd.Series) -> int:
    """Returns the number of rows in which two columns differ.

    A null on one side differs; floats are compared as float32. It uses numpy, because
    ``pandas.testing.assert_series_equal(check_exact=True)`` of pandas 3.1 lets unequal Float32
    columns pass.
    """
    assert (found.dtype.kind, found.dtype == "string") == (
        wanted.dtype.kind,
        wanted.dtype == "string",
    ), found.name
    both = (found.notna() & wanted.notna()).to_numpy()
    kind = {"i": np.int64, "f": np.float32}.get(found.dtype.kind, object)
    values = [column[both].to_numpy(dtype=kind) for column in (found, wanted)]
    return int((found.notna() != wanted.notna()).sum()) + int((values[0] != values[1]).sum())


def test_every_row_is_accounted_for(converted, expected):
    """The manifest's row counts equal the oracle's.

    They are the rows read, filtered, unmatched and written.
    """
    manifest = converted.manifest
    assert {
        name: source["read"] for name, source in manifest["sources"].items()
    } == expected.rows_read
    assert [(join["source"], join["unmatched"]) for join in manifest["joins"]] == expected.unmatched
    assert manifest["counts"] == {
        "read": expected.rows_read["flights"],
        "rejected": 0,
        "added": 0,
        "dropped": 0,
        "merged": 0,
        "filtered": expected.filtered,
        "filtered_first": expected.filtered,
        "written": len(expected.examples),
    }


def test_no_day_is_in_two_splits(converted, expected):
    """Each of the 365 days is in one split only.

    The split is by day, and eval gets about a fifth of them.
    """
    days = {
        split: set(map(tuple, table[DAY].drop_duplicates().to_numpy()))
        for split, table in converted.splits.items()
    }
    assert list(days) == ["train", "eval"]
    assert not days["train"] & days["eval"]
    assert len(days["train"] | days["eval"]) == len(expected.examples[DAY].drop_duplicates()) == 365
    assert 45 <= len(days["eval"]) <= 101  # 73 expected, four standard deviations of 365 draws


@pytest.mark.parametrize(
    ("dtype", "wanted", "found"),
    [
        ("Int64", 2**53, 2**53 + 1),
        ("Float32", 33.08, 33.0801),
        ("string", "JFK", "JFk"),
        ("Float32", 0.0, pd.NA),
    ],
)
def test_the_comparison_sees_one_wrong_value(dtype, wanted, found):
    """The module's comparison counts one changed or missing value of any type."""
    column = pd.Series([wanted, wanted, pd.NA], dtype=dtype)
    changed = pd.Series([wanted, found, pd.NA], dtype=dtype)
    assert differences(column, column) == 0
    assert differences(changed, column) == 1
