"""Runs a recipe's ``preprocessing_fn`` on encoded batches, by tensorflow-transform.

The function gets the encoded features, and its results are written::

    columns ──encodings──► features ──preprocessing_fn──► features that are written

tensorflow-transform analyzes it on the splits to fit on (``AnalyzePreprocessing``), and writers
apply it to the rows of each partition (``load_function``). The serving graph holds encodings and
function. This is the only code that a recipe can contain, and the only case in which workers load
TensorFlow: the functions below import it, the module does not.

*Dense or sparse.* A function is traced before any data are read, so the kind of its inputs cannot
depend on the data. A feature is a dense tensor [batch, k] if the recipe's ``schema`` or an encoding
promises k values in every row, and else sparse.

*Order.* tensorflow-transform adds floats in the order of batches. To give the same bytes for the
same input, the analysis gets all batches in order, in one bundle. It does not run on several
workers, and its batches are files.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import re
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.arrow.ipc import batches_to_bytes, bytes_to_batches
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.files.beam import files
from beam_pipelines.transforms.exchange import Message, Received
from beam_pipelines.transforms.meet import MeetByKey
from beam_pipelines.transforms.preprocessing.function import (
    FUNCTION,
    Preprocessing,
    start_tensorflow,
)

if TYPE_CHECKING:
    from tfx_bsl.tfxio.tensor_adapter import TensorAdapterConfig

# Folder of the analysis, among the fitted encodings.
ANALYZED = "preprocessing"
# Approximate Arrow bytes of a batch for tensorflow-transform. Pickled with its schema, it stays
# below ``exchange.MAX_ELEMENT_BYTES``.
BATCH_BYTES = 1 << 18
# tensorflow-transform's message for a failure of the graph (beam/impl.py), and lines of it that do
# not help a user.
_FAILURE = re.compile(
    r'An error occurred while trying to apply the transformation: "(.*?)"\.\n', re.DOTALL
)
_NOISE = ("Graph execution error", "Detected at node", "<stack traces unavailable>", "[[")


@dataclasses.dataclass
class AnalyzePreprocessing(beam.PTransform):
    """Analyzes the user function on the splits to fit on.

    Input: encoded ``Chunk`` elements of all splits. Output: one element, the folder of the analysis
    with ``transform_fn/`` and ``transformed_metadata/``, whose schema is that of the written
    features. It depends neither on the order of the chunks nor on the number of workers.

    Attributes:
      function: to analyze.
      splits: names of the splits to fit on.
      folder: temporary, shared by all workers, for batches.
      analyzed: folder to write into.
    """

    function: Preprocessing
    splits: tuple[str, ...]
    folder: str
    analyzed: str

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[str]:
        _start_tensorflow()
        import tensorflow_transform.beam as tft_beam

        config = tensor_config(self.function)
        batches = (
            chunks
            | "ToAnalyze"
            >> beam.Filter(
                lambda chunk, splits: chunk.split in splits and chunk.batch.num_rows, self.splits
            )
            | "InOrder"
            >> MeetByKey(
                functools.partial(_pack, function=self.function, splits=self.splits),
                _unpack,
                files.join(self.folder, "batches"),
            )
        )
        # Deep copies: a second phase of the analysis reads the files again. Otherwise the runner
        # would hold all batches.
        with tft_beam.Context(files.join(self.folder, "analysis"), use_deep_copy_optimization=True):
            with _explained(self.function):
                transform_fn = (batches, config) | "Analyze" >> tft_beam.AnalyzeDataset(
                    self.function
                )
            _check_outputs(self.function, transform_fn[1])
        done = transform_fn | "WriteTransformFn" >> tft_beam.WriteTransformFn(self.analyzed)
        return done | "Analyzed" >> beam.Map(lambda _, folder: folder, self.analyzed)


def _start_tensorflow() -> None:
    """Loads TensorFlow quietly, with one thread for each operation.

    So the order of float additions does not depend on the number of cores.
    """
    start_tensorflow()
    import tensorflow as tf

    # Parallel batches use the cores. RuntimeError: TensorFlow runs already, with other threads.
    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(1)
    logging.getLogger("absl").setLevel(logging.ERROR)


@contextlib.contextmanager
def _explained(function: Preprocessing) -> Iterator[None]:
    """Turns an error of the traced user function into a message.

    The message has the function's line.
    """
    try:
        yield
    except Exception as error:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == function.path
        ]
        where = f"{function.path}, line {lines[-1]}" if lines else function.path
        said = str(error).strip().splitlines() or [""]
        raise RecipeError(
            f"{where}: {FUNCTION} raised {type(error).__name__}: {said[0]}"
        ) from error


def explain_failure(text: str) -> DataError | None:
    """Returns the user function's error in a runner's error text, or ``None``."""
    found = _FAILURE.search(text)
    return None if found is None else _failed(found[1])


def _failed(text: str) -> DataError:
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line and not line.startswith(_NOISE)] or [
        "TensorFlow does not say why"
    ]
    return DataError(
        f"{FUNCTION} failed on a batch: {said[0]}. Mend the function, or leave the rows that it "
        "cannot take out with 'filter'."
    )


def _check_outputs(function: Preprocessing, metadata: Any) -> None:
    names = [feature.name for feature in metadata.dataset_metadata.schema.feature]
    if function.label is not None and function.label not in names:
        raise RecipeError(
            f"{FUNCTION}: {function.path}: found features {', '.join(names)}, expected the label "
            f"'{function.label}' among them. Return it as it came, or change 'label'."
        )


def tensor_config(function: Preprocessing) -> TensorAdapterConfig:
    """Returns how batches become the function's tensors."""
    from tfx_bsl.tfxio.tensor_adapter import TensorAdapterConfig

    representations = {}
    for name, length in function.inputs.items():
        representation = schema_pb2.TensorRepresentation()
        if length is None:
            representation.varlen_sparse_tensor.column_name = name
        else:
            representation.dense_tensor.column_name = name
            representation.dense_tensor.shape.dim.add(size=length)
        representations[name] = representation
    return TensorAdapterConfig(_input_schema(function), representations)


def _input_schema(function: Preprocessing) -> pa.Schema:
    return pa.schema({name: pa.large_list(_large(type_)) for name, type_ in function.types.items()})


def _large(value_type: pa.DataType) -> pa.DataType:
    is_text = pa.types.is_string(value_type) or pa.types.is_binary(value_type)
    return pa.large_binary() if is_text else value_type


def _to_input(batch: pa.RecordBatch, function: Preprocessing) -> pa.RecordBatch:
    """Returns a batch for tensorflow-transform, whose columns are lists."""
    schema = _input_schema(function)
    columns = [_to_lists(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _to_lists(array: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_list(array.type):
        return array.cast(type_)
    ends = pc.cumulative_sum(pc.cast(array.is_valid(), pa.int64()))
    offsets = pa.concat_arrays(
        [
            pa.array([0], pa.int64()),
            ends.combine_chunks() if isinstance(ends, pa.ChunkedArray) else ends,
        ]
    )
    mask = array.is_null() if array.null_count else None
    return pa.LargeListArray.from_arrays(
        offsets, array.drop_null().cast(type_.value_type), mask=mask
    )


def _pack(chunk: Chunk, function: Preprocessing, splits: tuple[str, ...]) -> Message:
    batch, rows = _to_input(chunk.batch, function), chunk.batch.num_rows
    size = max(1, min(rows, rows * BATCH_BYTES // max(1, chunk.batch.nbytes)))
    cut = [batch.slice(start, size) for start in range(0, rows, size)]
    order = (chunk.range_number, chunk.part, splits.index(chunk.split))
    return Message(order, {0: batches_to_bytes(cut, "lz4")})


def _unpack(received: Received) -> Iterator[pa.RecordBatch]:
    for payload in received.payloads():
        yield from bytes_to_batches(payload)


def load_function(
    function: Preprocessing, analyzed: str
) -> Callable[[pa.RecordBatch, str], pa.RecordBatch]:
    """Returns what applies the user function to encoded rows.

    It takes a batch with rows and their file, for messages. It returns the written features: lists
    of int64, float32 or binary values. It raises ``DataError`` if the function fails, or changes
    the number of rows.

    Args:
      function: to apply.
      analyzed: folder of ``AnalyzePreprocessing``.
    """
    _start_tensorflow()
    import tensorflow as tf
    import tensorflow_transform as tft
    from tensorflow_transform.impl_helper import make_tensor_to_arrow_converter
    from tensorflow_transform.saved.saved_transform_io_v2 import SavedModelLoader
    from tfx_bsl.tfxio.tensor_adapter import TensorAdapter

    output = tft.TFTransformOutput(analyzed)
    graph = SavedModelLoader(output.transform_savedmodel_dir)
    graph.finalize(set(function.inputs), set(graph.structured_outputs))
    adapter = TensorAdapter(tensor_config(function))
    converter = make_tensor_to_arrow_converter(output.transformed_metadata.schema)

    def apply(batch: pa.RecordBatch, where: str) -> pa.RecordBatch:
        tensors = adapter.ToBatchTensors(_to_input(batch, function), produce_eager_tensors=True)
        try:
            made = converter.convert(graph.apply_transform_model(tensors))
        except tf.errors.OpError as error:
            raise _failed(error.message) from error
        if made.num_rows != batch.num_rows:
            raise DataError(
                f"{where}: {FUNCTION} made {made.num_rows} rows of {batch.num_rows}, expected as "
                "many. Let it return tensors of the batch's size."
            )
        return pa.RecordBatch.from_arrays(list(map(_from_output, made.columns)), made.schema.names)

    return apply


def _from_output(array: pa.Array | pa.ChunkedArray) -> pa.ListArray:
    """Returns lists of int64, float32 or binary values.

    Args:
      array: of tensorflow-transform: large lists, nested for ragged tensors.
    """
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    while pa.types.is_large_list(array.type) and pa.types.is_large_list(array.type.value_type):
        inner = array.values
        offsets = inner.offsets.take(array.offsets)
        array = pa.LargeListArray.from_arrays(
            offsets, inner.values, mask=array.is_null() if array.null_count else None
        )
    value_type = array.type.value_type
    return array.cast(pa.list_(pa.binary() if pa.types.is_large_binary(value_type) else value_type))
