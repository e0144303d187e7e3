"""Cuts a traced graph to some outputs and their inputs.

The graph is that of a ``preprocessing_fn``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import tensorflow as tf

    AnyTensor: TypeAlias = tf.Tensor | tf.SparseTensor | tf.RaggedTensor


class Subgraph(NamedTuple):
    """A part of a graph.

    Attributes:
      inputs: names of the tensors that it needs.
      apply: tensors by name, with or without others -> outputs by name.
    """

    inputs: tuple[str, ...]
    apply: Callable[[Mapping[str, AnyTensor]], dict[str, AnyTensor]]


def cut(function: Any, leave_out: Collection[str]) -> Subgraph:
    """Cuts a graph to all outputs but some.

    Checks (``tf.debugging.Assert``) stay where ``tf.control_dependencies`` ties them to a value
    that stays. TensorFlow runs all checks of a graph in sequence: the check of a dropped output
    also stays if it was traced before one that stays.

    Args:
      function: a concrete function, traced or loaded, from a dict of tensors to a dict of tensors.
      leave_out: names of outputs; unknown ones are ignored.
    """
    import tensorflow as tf
    from tensorflow.python.eager import wrap_function
    from tensorflow_transform import graph_tools, tf2_utils

    graph = function.graph
    inputs = tf2_utils.get_structured_inputs_from_func_graph(graph)
    structure = tf.nest.pack_sequence_as(
        graph.structured_outputs, graph.outputs, expand_composites=True
    )
    outputs = {name: tensor for name, tensor in structure.items() if name not in leave_out}
    # Without the control dependencies of every output on all checks.
    fetches, _ = tf2_utils.strip_and_get_tensors_and_control_dependencies(
        tf.nest.flatten(outputs, expand_composites=True)
    )
    sources = graph_tools.retrieve_sources(
        [tensor.op for tensor in fetches], ignore_control_dependencies=False
    )
    needed = tuple(
        name
        for name, tensor in inputs.items()
        if any(part in sources for part in tf.nest.flatten(tensor, expand_composites=True))
    )
    feeds = tf.nest.flatten({name: inputs[name] for name in needed}, expand_composites=True)
    holder = wrap_function.VariableHolder(share_variables=True)
    part = wrap_function.WrappedFunction(graph, variable_holder=holder).prune(feeds, fetches)
    shapes = [tensor.shape for tensor in fetches]

    def apply(tensors: Mapping[str, AnyTensor]) -> dict[str, AnyTensor]:
        flat = part(
            *tf.nest.flatten({name: tensors[name] for name in needed}, expand_composites=True)
        )
        flat = list(flat) if isinstance(flat, list | tuple) else [flat]
        for tensor, shape in zip(flat, shapes, strict=True):
            tensor.set_shape(shape)
        packed: dict[str, AnyTensor] = tf.nest.pack_sequence_as(
            outputs, flat, expand_composites=True
        )
        return packed

    return Subgraph(needed, apply)
