"""Encodings that are registered from outside the package.

They work in recipe, shards and serving graph.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import beam_pipelines as bp
from beam_pipelines.encodings import ENCODING_FOR_KIND, register_encoding
from beam_pipelines.pipeline import convert
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.pipeline.planning.stages import make_plan

pytestmark = pytest.mark.end_to_end

MODULE = "tests.support.registered_encodings"
VALUES = [1.5, -2.0, 8.0, 0.25]
RECIPE = """
name: numbers
sources: {numbers: numbers.csv}
encode:
  squared: [{column: x}, square]
  x: largest
"""


@pytest.fixture(scope="module")
def registered() -> Iterator[ModuleType]:
    """The module of the encodings, which registers them while it is imported."""
    yield importlib.import_module(MODULE)
    for kind in ("square", "largest"):
        del ENCODING_FOR_KIND[kind]
    del sys.modules[MODULE]


def test_shards_and_serving_graph_have_the_same_values(registered, tmp_path):
    """The graph gives the encoded values of the shards for raw rows.

    A conversion with one worker writes the shards.
    """
    import tensorflow as tf
    import tensorflow_transform as tft

    lines = ["x", *map(str, VALUES)]
    (tmp_path / "numbers.csv").write_text("\n".join(lines) + "\n")
    recipe = parse_recipe(RECIPE, "recipe.yaml", str(tmp_path))
    out = tmp_path / "out"
    convert.convert(
        make_plan(recipe), str(out), beam_options=("--direct_num_workers=1",), quiet=True
    )

    written = {}
    (split,) = (out / "examples").iterdir()
    for record in tf.data.TFRecordDataset(sorted(map(str, split.iterdir())), "GZIP"):
        features = tf.train.Example.FromString(record.numpy()).features.feature
        written[features["squared"].float_list.value[0]] = features["x"].float_list.value[0]
    squares, shares = np.square(VALUES), np.array(VALUES) / max(VALUES)
    assert written == dict(
        zip(squares.astype(np.float32).tolist(), shares.astype(np.float32).tolist(), strict=True)
    )

    graph = tft.TFTransformOutput(str(Path(bp.make_graph(out)).parent))
    served = graph.transform_features_layer()({"x": tf.constant(VALUES, shape=(4, 1))})
    squares, shares = (served[name].numpy().ravel().tolist() for name in ("squared", "x"))
    assert dict(zip(squares, shares, strict=True)) == written


def test_a_taken_kind_is_refused(registered: ModuleType) -> None:
    """A kind stands for one encoding, whether built in or registered."""
    for kind in ("z_score", "square"):
        with pytest.raises(ValueError, match=f"encoding '{kind}': found .*, expected a new kind"):
            register_encoding(kind, registered.Square)


def test_an_encoding_of_the_main_script_is_refused(registered, monkeypatch):
    """Other processes cannot import ``__main__`` of the script that started them."""
    monkeypatch.setattr(registered.Square, "__module__", "__main__")
    with pytest.raises(ValueError, match="in the main script, expected it in a module"):
        register_encoding("cube", registered.Square)
    assert "cube" not in ENCODING_FOR_KIND
