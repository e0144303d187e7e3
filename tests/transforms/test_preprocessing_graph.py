"""A graph of a stranger computes, and reads its assets only."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tensorflow as tf
import tensorflow_transform as tft
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import op_def_registry
from tensorflow_transform import impl_helper

from beam_pipelines.core.errors import DataError
from beam_pipelines.transforms.preprocessing import graph
from beam_pipelines.transforms.preprocessing.graph import check_graph

OPERATIONS = [name for name in dir(tf.raw_ops) if op_def_registry.get(name) is not None]
# Modules of TensorFlow whose operations act on the world.
ACTING = "io script debug summary audio collective rpc tpu xla encode_proto decode_proto sync"


class Node(NamedTuple):
    """A node of a function, and the function that it names."""

    name: str
    op: str
    inputs: tuple[str, ...] = ()
    function: str = ""


Functions = Mapping[str, tuple[tuple[str, ...], tuple[Node, ...]]]
READ = Node("read", "InitializeTableFromTextFileV2", ("table", "path"))


def saved(
    folder: Path,
    functions: Functions,
    bound: Mapping[str, tuple[str, ...]] | None = None,
    main: tuple[Node, ...] = (),
    change: Callable[[Any], None] = lambda _: None,
) -> str:
    """Writes a SavedModel, and returns its folder.

    Args:
      folder: to write into.
      functions: name -> names of arguments, nodes.
      bound: name of a function that objects call -> kinds of the objects bound to its arguments.
      main: nodes of the main graph.
      change: changes the message before it is written.
    """
    model = saved_model_pb2.SavedModel()
    made = model.meta_graphs.add()
    made.object_graph_def.nodes.add().user_object.identifier = "_generic_user_object"
    made.asset_file_def.add(filename="words")
    for name, (arguments, nodes) in functions.items():
        function = made.graph_def.library.function.add()
        function.signature.name = name
        for argument in arguments:
            function.signature.input_arg.add(name=argument)
        _add(function.node_def, nodes)
    _add(made.graph_def.node, main)
    for name, kinds in (bound or {}).items():
        entry = made.object_graph_def.concrete_functions[name]
        for kind in kinds:
            entry.bound_inputs.append(len(made.object_graph_def.nodes))
            getattr(made.object_graph_def.nodes.add(), kind).SetInParent()
    change(model)
    (folder / "saved_model.pb").write_bytes(model.SerializeToString())
    return str(folder)


def _add(to: Any, nodes: tuple[Node, ...]) -> None:
    for node in nodes:
        made = to.add(name=node.name, op=node.op, input=node.inputs)
        if node.function:
            made.attr["f"].func.name = node.function


def test_operations_that_are_not_listed(tmp_path: Path) -> None:
    """Each other operation is refused, in the main graph and in functions."""
    others = sorted({*OPERATIONS, "NotRegistered"} - graph._COMPUTE)
    assert len(others) > 700
    for name in others:
        node = Node("one", name)
        inner = {"outer": ((), (Node("call", "PartitionedCall", (), "inner"),))}
        for functions, main in ((inner | {"inner": ((), (node,))}, ()), ({}, (node,))):
            if main and name in graph._SAVE:
                continue
            with pytest.raises(DataError, match=f"found the operation {name} "):
                check_graph(saved(tmp_path, functions, {"outer": ()} if functions else {}, main))


def test_listed_operations_only_compute() -> None:
    """The list has operations of TensorFlow, and none of those that act."""
    listed = graph._COMPUTE
    assert {name for name in listed if op_def_registry.get(name) is None} == set()
    acting = set(dir(importlib.import_module("tensorflow.python.ops.gen_io_ops")))
    for module in ACTING.split():
        try:
            acting |= set(dir(importlib.import_module(f"tensorflow.python.ops.gen_{module}_ops")))
        except ImportError:
            continue
    assert {"ReadFile", "WriteFile", "PyFunc", "DebugIdentity"} < acting
    assert listed & {name for name in acting if op_def_registry.get(name)} == set()
    for name in ("ImmutableConst", "PrintV2", "Abort", "RemoteCall", "TensorDataset", "IteratorV2"):
        assert name not in listed, name


def test_saving_is_for_the_main_graph(tmp_path: Path) -> None:
    """Only a function that no other calls may save variables."""
    save: Functions = {"save": ((), (Node("save", "SaveV2"),))}
    main = (Node("call", "StatefulPartitionedCall", (), "save"),)
    check_graph(saved(tmp_path, save, {}, main))
    calls = {"other": ((), (Node("call", "PartitionedCall", (), "save"),))}
    for functions, bound in ((save | calls, {}), (save, {"save": ()})):
        with pytest.raises(DataError, match="the operation SaveV2 "):
            check_graph(saved(tmp_path, functions, bound, main))


TAKES: Functions = {"init": (("path", "table"), (READ,))}


def through(*nodes: Node) -> Functions:
    """Returns a function that reads behind some nodes."""
    return {
        "init": (("given", "table"), (*nodes, READ._replace(inputs=("table", "last:output:0"))))
    }


def calling(op: str, inputs: tuple[str, ...] = ("given", "table")) -> Functions:
    """Returns a function that reads, and one that calls it."""
    return TAKES | {"outer": (("given", "table"), (Node("call", op, inputs, "init"),))}


@pytest.mark.parametrize(
    ("functions", "bound"),
    [
        (TAKES, {"init": ("asset", "resource")}),
        (through(Node("last", "Identity", ("given",))), {"init": ("asset", "resource")}),
        (calling("PartitionedCall"), {"outer": ("asset", "resource")}),
        (calling("FlatMapDataset"), {"outer": ("asset", "resource")}),
        # Recursion ends.
        (
            {"init": (("path", "table"), (READ, Node("c", "PartitionedCall", ("path",), "init")))},
            {"init": ("asset", "resource")},
        ),
    ],
)
def test_assets_are_read(tmp_path, functions, bound):
    """A table may be read from an asset, which functions pass on."""
    check_graph(saved(tmp_path, functions, bound))


@pytest.mark.parametrize(
    ("functions", "bound"),
    [
        (TAKES, {"init": ("constant", "resource")}),
        (TAKES, {"init": ("variable", "resource")}),
        (TAKES, {"init": ("resource",)}),
        # the first argument is the caller's
        (through(Node("last", "Const")), {"init": ("asset", "resource")}),
        (through(Node("last", "StringJoin", ("given", "given"))), {"init": ("asset", "resource")}),
        (through(Node("last", "Identity", ("nothing",))), {"init": ("asset", "resource")}),
        (calling("PartitionedCall"), {"outer": ("constant", "resource")}),
        (calling("PartitionedCall", ("table", "given")), {"outer": ("asset", "resource")}),
        (calling("PartitionedCall"), {"outer": ("asset", "resource"), "init": ("constant",) * 2}),
        (calling("StatelessIf"), {"outer": ("asset", "resource")}),
        ({"init": (("table", "path"), (READ,))} | {"outer": (("a", "b"), (Node("call", "FlatMapDataset", ("a", "b"), "init"),))},
         {"outer": ("resource", "asset")}),
        ({"init": (("path",), (Node("read", "TFRecordDataset", ("path",)),))}, {"init": ("constant",)}),
    ],
)  # fmt: skip
def test_other_files_are_not_read(tmp_path, functions, bound):
    """A path that is made otherwise is refused, wherever it comes from."""
    with pytest.raises(DataError, match=r"'read' of init\), which reads a file that is no asset"):
        check_graph(saved(tmp_path, functions, bound))


def _is_constant(model: Any) -> None:
    model.meta_graphs[0].object_graph_def.nodes[1].registered_name = "tf.TrackableConstant"


def _is_list(model: Any) -> None:
    function = model.meta_graphs[0].graph_def.library.function[0]
    function.signature.input_arg[1].number_attr = "N"


def _named(name: str) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        model.meta_graphs[0].asset_file_def[0].filename = name

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_is_constant, "which reads a file that is no asset"),
        (_is_list, "which reads a file that is no asset"),
        (lambda model: model.meta_graphs.add(), "another form of a SavedModel"),
        (lambda model: model.meta_graphs[0].ClearField("object_graph_def"), "another form of a SavedModel"),
        (lambda model: model.meta_graphs[0].signature_def["transform_signature"].SetInParent(), "found 'transform_signature'"),
        (lambda model: model.meta_graphs[0].collection_def["pyfuncs"].SetInParent(), "found 'pyfuncs'"),
        (lambda model: model.meta_graphs[0].graph_def.library.function.add(signature={"name": "init"}), "two functions of a name"),
        (lambda model: (model.meta_graphs[0].graph_def.library.function[0].node_def.add(name="read", op="NoOp")), "two nodes of a name"),
        (lambda model: model.meta_graphs[0].object_graph_def.ClearField("nodes"), "found no SavedModel"),
        *((_named(name), f"asset named '{name}'") for name in ("../a", "/etc/a", "a/b", "..", "")),
    ],
)  # fmt: skip
def test_other_ways_out_of_a_graph(tmp_path, change, message):
    """Pickles, assets elsewhere, and objects in disguise are refused."""
    with pytest.raises(DataError, match=message):
        check_graph(saved(tmp_path, TAKES, {"init": ("asset", "resource")}, change=change))


@pytest.mark.parametrize("name", ["saved_model.pbtxt", "saved_model.cpb"])
def test_second_models(tmp_path: Path, name: str) -> None:
    """A second form of the model, which might be loaded, is refused."""
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(DataError, match=f"found '{name}'"):
        check_graph(saved(tmp_path, TAKES, {"init": ("asset", "resource")}))


def test_damaged_models(tmp_path: Path) -> None:
    """A file that is no SavedModel is an error with its path."""
    (tmp_path / "saved_model.pb").write_bytes(b"\xff\xff")
    with pytest.raises(DataError, match=r"saved_model.pb: found no SavedModel"):
        check_graph(str(tmp_path))


def test_saved_functions_of_tensorflow(tmp_path: Path) -> None:
    """A saved object is refused if loading or calling it would act."""
    writes, reads = tf.Module(), tf.Module()
    signature = [tf.TensorSpec([None], tf.string)]

    @tf.function(input_signature=signature)
    def write(text: Any) -> Any:
        tf.io.write_file(str(tmp_path / "written"), text[0])
        return text

    class Table(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            names = tf.lookup.TextFileInitializer(str(words), tf.string, 0, tf.int64, -1)
            self.table = tf.lookup.StaticHashTable(names, -1)

        @tf.function(input_signature=signature)
        def transform_fn(self, text: Any) -> Any:
            return self.table.lookup(text)

    words = tmp_path / "words"
    words.write_text("a\nb\n")
    writes.transform_fn = write
    reads.transform_fn = tf.function(
        lambda text: text + tf.io.read_file("/etc/hostname"), input_signature=signature
    )
    tf.saved_model.save(Table(), str(tmp_path / "table"))
    check_graph(str(tmp_path / "table"))
    for module, name in ((writes, "WriteFile"), (reads, "ReadFile")):
        tf.saved_model.save(module, str(tmp_path / name))
        with pytest.raises(DataError, match=f"found the operation {name} "):
            check_graph(str(tmp_path / name))
    assert not (tmp_path / "written").exists()


def mapped(inputs: dict[str, Any]) -> dict[str, Any]:
    """Uses the functions of tensorflow-transform, and what features are made of."""
    x, words, number = inputs["x"], inputs["words"], inputs["number"]
    row, text = tf.reshape(x, [-1]), tf.reshape(words, [-1])
    parts = tf.compat.v1.string_split(text, " ")
    pair = tf.concat([x, x * x], 1)
    ids = tft.compute_and_apply_vocabulary(parts, num_oov_buckets=1, vocab_filename="parts")
    weights = tft.tfidf(ids, 20)
    by_year = tf.strings.to_number(tf.strings.substr(words, 0, 4), tf.int64) % 7
    return {
        "z": tft.scale_to_z_score(x),
        "z of keys": tft.scale_to_z_score_per_key(row, text),
        "z of a file": tft.scale_to_z_score_per_key(row, text, key_vocabulary_filename="keys"),
        "range": tft.scale_by_min_max(x) + tft.scale_to_0_1(x),
        "range of keys": tft.scale_to_0_1_per_key(row, text),
        "gauss": tft.scale_to_gaussian(x),
        "buckets": tft.bucketize(x, 4),
        "buckets of keys": tft.bucketize_per_key(row, text, 4),
        "between": tft.apply_buckets_with_interpolation(x, tft.quantiles(x, 3, 0.1)),
        "ids": ids,
        "first": weights[0],
        "second": weights[1],
        "records": tft.compute_and_apply_vocabulary(words, file_format="tfrecord_gzip"),
        "numbers": tft.compute_and_apply_vocabulary(number, top_k=3, vocab_filename="numbers"),
        "hash": tft.hash_strings(words, 9) + tft.hash_strings(words, 9, key=[1, 2]),
        "grams": tft.ngrams(parts, (1, 2), " "),
        "bag": tft.bag_of_words(parts, (1, 2), " "),
        "count": tft.word_count(parts),
        "distinct": tft.deduplicate_tensor_per_row(number),
        "density": tft.estimated_probability_density(x),
        "sums": x - tft.mean(x) + tft.sum(x) + tft.max(x) + tft.min(x) + tft.var(x),
        "axes": tf.matmul(pair, tft.pca(pair, 1, tf.float32)),
        "dense": tft.sparse_tensor_to_dense_with_shape(parts, [None, 5], ""),
        "clean": tf.strings.regex_replace(tf.strings.lower(tf.strings.strip(words)), "a+", "b"),
        "is": tf.strings.regex_full_match(words, "a.*"),
        "year": by_year,
        "day": tf.math.floormod(number // 86400 + 4, 7),
        "ragged": tf.map_fn(tf.size, tf.strings.split(text), fn_output_signature=tf.int32),
        "unicode": tf.strings.unicode_decode(text, "UTF-8").row_lengths(),
        "if": tf.cond(tf.reduce_sum(x) > 0, lambda: x, lambda: -x),
        "loop": tf.scan(lambda left, right: left + right, x),
        "one": tf.one_hot(number % 3, 3),
        "cross": tf.sparse.cross_hashed([parts, parts], 10),
        "chance": x + tf.random.uniform([1]) + tf.random.stateless_uniform([1], [1, 2]),
        "checked": tf.debugging.check_numerics(x, "x"),
        "layer": tf.keras.layers.Hashing(5)(words),
    }


@pytest.mark.end_to_end
def test_functions_of_tensorflow_transform(tmp_path: Path) -> None:
    """Graphs of tensorflow-transform's functions are accepted."""
    specs = {
        "x": tf.TensorSpec([None, 1], tf.float32),
        "words": tf.TensorSpec([None, 1], tf.string),
        "number": tf.TensorSpec([None, 1], tf.int64),
    }
    impl_helper._trace_and_write_transform_fn(
        str(tmp_path / "graph"), mapped, specs, str(tmp_path / "temporary"), None, None, None
    )
    model = saved_model_pb2.SavedModel.FromString((tmp_path / "graph/saved_model.pb").read_bytes())
    library = model.meta_graphs[0].graph_def.library.function
    operations = {node.op for function in library for node in function.node_def}
    assert {"TFRecordDataset", "InitializeTableFromTextFileV2", "StatelessWhile"} < operations
    check_graph(str(tmp_path / "graph"))
