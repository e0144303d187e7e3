"""Exports a trained model as a SavedModel for raw rows.

The SavedModel contains the dataset's encodings. It needs only TensorFlow.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import keras
import tensorflow as tf

import beam_pipelines as bp

# Maps the features of a batch, by name, to the inputs of the model, by name.
Prepare: TypeAlias = Callable[[Mapping[str, Any]], dict[str, tf.Tensor]]


class Predictor(tf.Module):
    """Computes probabilities from raw rows, by the serving graph and the model.

    A dataset without encodings has no graph: its examples are the raw rows.

    Attributes:
      model: the model for encoded features.
      output: the name of its output.
      prepare: maps the features to the model's inputs.
      dataset: the dataset.
      encodings: the serving graph, or ``None``.
    """

    def __init__(
        self, model: keras.Model, output: str, prepare: Prepare, dataset: bp.Dataset
    ) -> None:
        super().__init__()
        self.model, self.output, self.prepare, self.dataset = model, output, prepare, dataset
        self.encodings = None
        if dataset.manifest.get("encodings") is not None:
            self.encodings = tf.saved_model.load(bp.make_graph(dataset.folder))

    def predict(self, features: Mapping[str, Any]) -> dict[str, tf.Tensor]:
        """Returns the probabilities, float32 [batch, 1], of encoded features.

        ``encode`` and the graph's signatures return such features.
        """
        return {self.output: self.model(self.prepare(features), training=False)}

    def encode(self, examples: tf.Tensor) -> Mapping[str, Any]:
        """Returns the features of serialized raw tf.Examples [batch]."""
        if self.encodings is not None:
            return self.encodings.signatures["serving_default"](examples=examples)
        spec = self.dataset.feature_spec()
        del spec[self.dataset.label]  # A request has no label.
        return tf.io.parse_example(examples, spec)

    def signatures(self) -> dict[str, Any]:
        """Returns the signatures of the SavedModel.

        ``serving_default`` takes serialized raw tf.Examples [batch]. With encodings,
        ``from_tensors`` takes the tensors of each raw column, like the graph.
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
    model: keras.Model, name: str, prepare: Prepare, dataset: bp.Dataset, output: pathlib.Path
) -> None:
    """Writes ``model.keras``, for encoded features, and ``serving/``, for raw rows.

    Args:
      model: the trained model.
      name: the name of the model's output.
      prepare: maps the features of a batch to the model's inputs.
      dataset: the dataset that it was trained on.
      output: the folder to write into.
    """
    model.save(output / "model.keras")
    # A loaded model has its variables on one device, whatever devices it was trained on.
    predictor = Predictor(keras.models.load_model(output / "model.keras"), name, prepare, dataset)
    tf.saved_model.save(predictor, str(output / "serving"), signatures=predictor.signatures())
