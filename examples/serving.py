"""From a trained model to one for raw rows: a SavedModel that has the encodings of the dataset in
it and needs nothing but TensorFlow.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import keras
import tensorflow as tf

import beam_pipelines as bp

# From the features of a batch, by name, to the inputs of the model, by name.
Prepare: TypeAlias = Callable[[Mapping[str, Any]], dict[str, tf.Tensor]]


class Predictor(tf.Module):
    """From raw rows to probabilities: the serving graph of the dataset, and behind it the model.

    A dataset without encodings has no graph: its examples are the raw rows.

    Attributes:
      model: of encoded features.
      output: the name of its answers.
      prepare: makes the model's inputs of the features.
      info: of the dataset.
      encodings: the serving graph, or ``None``.
    """

    def __init__(self, model: keras.Model, output: str, prepare: Prepare, info: bp.Info) -> None:
        super().__init__()
        self.model, self.output, self.prepare, self.info = model, output, prepare, info
        self.encodings = None
        if info.encodings is not None:
            graph = os.path.join(info.folder, "transform_graph", "transform_fn")
            self.encodings = tf.saved_model.load(graph)

    def predict(self, features: Mapping[str, Any]) -> dict[str, tf.Tensor]:
        """Returns the probabilities, float32 [batch, 1], of the features as ``encode`` and the
        graph's signatures give them.
        """
        return {self.output: self.model(self.prepare(features), training=False)}

    def encode(self, examples: tf.Tensor) -> Mapping[str, Any]:
        """Returns the features of serialized raw tf.Examples [batch]."""
        if self.encodings is not None:
            return self.encodings.signatures["serving_default"](examples=examples)
        spec = self.info.feature_spec()
        del spec[self.info.label]  # A request has none.
        return tf.io.parse_example(examples, spec)

    def signatures(self) -> dict[str, Any]:
        """Returns functions of serialized raw tf.Examples [batch], and with encodings of one tensor
        for each raw column, as the graph has them.
        """

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
        def from_examples(examples: tf.Tensor) -> dict[str, tf.Tensor]:
            return self.predict(self.encode(examples))

        if self.encodings is None:
            return {"serving_default": from_examples}

        @tf.function
        def from_tensors(**columns: tf.Tensor) -> dict[str, tf.Tensor]:
            return self.predict(self.encodings.signatures["from_tensors"](**columns))

        columns = self.encodings.signatures["from_tensors"].structured_input_signature[1]
        return {
            "serving_default": from_examples,
            "from_tensors": from_tensors.get_concrete_function(**columns),
        }


def export(
    model: keras.Model, name: str, prepare: Prepare, info: bp.Info, output: pathlib.Path
) -> None:
    """Writes ``model.keras``, for encoded features, and ``serving/``, for raw rows.

    Args:
      model: trained.
      name: of the model's answers.
      prepare: makes the model's inputs of the features of a batch.
      info: of the dataset that it was trained on.
      output: folder of the two.
    """
    model.save(output / "model.keras")
    # Loaded again, its variables are on one device, whatever it was trained on.
    predictor = Predictor(keras.models.load_model(output / "model.keras"), name, prepare, info)
    tf.saved_model.save(predictor, str(output / "serving"), signatures=predictor.signatures())
