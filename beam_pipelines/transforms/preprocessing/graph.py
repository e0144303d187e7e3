"""Checks a graph of a ``preprocessing_fn`` before TensorFlow loads it.

The graph comes with a dataset, and TensorFlow gives it the rights of the user: operations read and
write files, and call Python. So only operations that compute are allowed, by name: that TensorFlow
calls one stateless says nothing, as ``ReadFile`` and ``ImmutableConst`` are. Two operations read
files, for vocabularies. They may get the graph's own assets only, whatever functions the path
passes on its way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from beam_pipelines.core.errors import DataError
from beam_pipelines.storage import files

if TYPE_CHECKING:
    from tensorflow.core.framework.function_pb2 import FunctionDef
    from tensorflow.core.framework.node_def_pb2 import NodeDef
    from tensorflow.core.protobuf.meta_graph_pb2 import MetaGraphDef
    from tensorflow.core.protobuf.saved_object_graph_pb2 import SavedObjectGraph

_MODEL = "saved_model.pb"
# Operations that read a file -> the input that is its path.
_READ = {"InitializeTableFromTextFileV2": 1, "TFRecordDataset": 0}
# Operations that pass their first input on, and those that call a function with their inputs.
_PASS = ("ExpandDims", "Identity", "Reshape", "TensorSliceDataset")
_CALL = ("FlatMapDataset", "PartitionedCall", "StatefulPartitionedCall")
# What a SavedModel saves itself by; only its main graph, which is not loaded, calls these.
_SAVE = frozenset({"MergeV2Checkpoints", "RestoreV2", "SaveV2", "ShardedFilename"})
# Parts of graphs for TensorFlow 1, whose functions tensorflow-transform unpickles.
_PICKLED = ("pyfuncs", "transform_signature")
_NAMES = """
Abs Acos Acosh Add AddN AddV2 AdjustContrastv2 AdjustHue AdjustSaturation All Angle
ApproximateEqual ArgMax ArgMin AsString Asin Asinh Assert AssignVariableOp Atan Atan2 Atanh
BatchMatMul BatchMatMulV2 BatchMatMulV3 Betainc BiasAdd Bincount Bitcast BitwiseAnd BitwiseOr
BitwiseXor BroadcastArgs BroadcastTo Bucketize Case Cast Ceil CheckNumerics CheckNumericsV2
Cholesky ClipByValue Complex ComplexAbs ConcatOffset ConcatV2 Conj ConjugateTranspose Const Cos
Cosh Cross Cumprod Cumsum DecodeBase64 DecodeBmp DecodeCSV DecodeCompressed DecodeGif
DecodeImage DecodeJpeg DecodePaddedRaw DecodePng DecodeRaw DenseBincount
DenseToDenseSetOperation DenseToSparseSetOperation Diag DiagPart Digamma DisableCopyOnRead Div
DivNoNan DynamicPartition DynamicStitch EditDistance Eig Einsum Elu EmptyTensorList EncodeBase64
EnsureShape Equal Erf Erfc Erfinv EuclideanNorm Exp ExpandDims Expm1 ExtractImagePatches
ExtractJpegShape FFT FFT2D FFT3D FFTND Fill Fingerprint FlatMapDataset Floor FloorDiv FloorMod
Gather GatherNd GatherV2 Greater GreaterEqual HSVToRGB HashTableV2 HistogramFixedWidth IFFT
IFFT2D IFFT3D IFFTND IRFFT IRFFT2D IRFFT3D IRFFTND Identity IdentityN If Igamma Igammac Imag
InitializeTableFromDataset InitializeTableFromTextFileV2 InitializeTableV2 Invert
InvertPermutation IsFinite IsInf IsNan L2Loss LeakyRelu LeftShift Less LessEqual Lgamma ListDiff
Log Log1p LogMatrixDeterminant LogSoftmax LogicalAnd LogicalNot LogicalOr LookupTableExportV2
LookupTableFindV2 LookupTableImportV2 LookupTableSizeV2 LowerBound Lu MapDataset MatMul
MatrixBandPart MatrixDeterminant MatrixDiag MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3
MatrixDiagV2 MatrixDiagV3 MatrixExponential MatrixInverse MatrixLogarithm MatrixSetDiag
MatrixSetDiagV2 MatrixSetDiagV3 MatrixSolve MatrixSolveLs MatrixSquareRoot MatrixTriangularSolve
Max Maximum Mean Min Minimum MirrorPad Mod Mul MulNoNan Ndtri Neg NextAfter NoOp NotEqual OneHot
OnesLike Pack Pad PadV2 PartitionedCall Placeholder PlaceholderV2 PlaceholderWithDefault
Polygamma PopulationCount Pow PreventGradient Prod Qr RFFT RFFT2D RFFT3D RFFTND RGBToHSV
RaggedBincount RaggedCross RaggedFillEmptyRows RaggedGather RaggedRange RaggedTensorFromVariant
RaggedTensorToSparse RaggedTensorToTensor RaggedTensorToVariant RandomGamma RandomPoisson
RandomPoissonV2 RandomShuffle RandomStandardNormal RandomUniform RandomUniformInt Range
RangeDataset Rank ReadVariableOp Real RealDiv Reciprocal ReduceJoin RegexFullMatch RegexReplace
Relu Relu6 Reshape ResizeArea ResizeBicubic ResizeBilinear ResizeNearestNeighbor ResourceGather
Reverse ReverseSequence ReverseV2 RightShift Rint Roll Round Rsqrt ScatterNd
ScatterNdNonAliasingAdd SegmentMax SegmentMaxV2 SegmentMean SegmentMin SegmentMinV2 SegmentProd
SegmentProdV2 SegmentSum SegmentSumV2 Select SelectV2 SelfAdjointEig SelfAdjointEigV2 Selu
SetSize Shape ShapeN Sigmoid Sign Sin Sinh Size Slice Softmax SoftmaxCrossEntropyWithLogits
Softplus Softsign SparseAdd SparseBincount SparseConcat SparseCross SparseCrossHashed
SparseCrossV2 SparseDenseCwiseAdd SparseDenseCwiseDiv SparseDenseCwiseMul SparseFillEmptyRows
SparseReduceMax SparseReduceMaxSparse SparseReduceSum SparseReduceSumSparse SparseReorder
SparseReshape SparseSegmentMean SparseSegmentMeanWithNumSegments SparseSegmentSqrtN
SparseSegmentSqrtNWithNumSegments SparseSegmentSum SparseSegmentSumWithNumSegments SparseSlice
SparseSoftmax SparseSoftmaxCrossEntropyWithLogits SparseSparseMaximum SparseSparseMinimum
SparseSplit SparseTensorDenseAdd SparseTensorDenseMatMul SparseToDense
SparseToSparseSetOperation Split SplitV Sqrt Square SquaredDifference Squeeze
StatefulPartitionedCall StatelessCase StatelessIf StatelessRandomBinomial StatelessRandomGammaV2
StatelessRandomGetAlg StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg
StatelessRandomNormal StatelessRandomNormalV2 StatelessRandomPoisson StatelessRandomUniform
StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2 StatelessRandomUniformInt
StatelessRandomUniformIntV2 StatelessRandomUniformV2 StatelessTruncatedNormal
StatelessTruncatedNormalV2 StatelessWhile StaticRegexFullMatch StaticRegexReplace StopGradient
StridedSlice StringFormat StringJoin StringLength StringLower StringNGrams StringSplit
StringSplitV2 StringStrip StringToHashBucket StringToHashBucketFast StringToHashBucketStrong
StringToNumber StringUpper Sub Substr Sum Svd TFRecordDataset Tan Tanh TensorListConcat
TensorListConcatV2 TensorListElementShape TensorListFromTensor TensorListGather
TensorListGetItem TensorListLength TensorListPopBack TensorListPushBack TensorListPushBackBatch
TensorListReserve TensorListResize TensorListSetItem TensorListStack TensorScatterAdd
TensorScatterMax TensorScatterMin TensorScatterSub TensorScatterUpdate TensorSliceDataset
TensorStridedSliceUpdate Tile ToBool TopKV2 Transpose TruncateDiv TruncateMod TruncatedNormal
UnicodeDecode UnicodeDecodeWithOffsets UnicodeEncode UnicodeScript UnicodeTranscode Unique
UniqueV2 UniqueWithCounts UniqueWithCountsV2 Unpack UnsortedSegmentJoin UnsortedSegmentMax
UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum UpperBound VarHandleOp
VarIsInitializedOp VariableShape Where While Xdivy Xlog1py Xlogy ZerosLike Zeta ZipDataset
"""
_COMPUTE = frozenset(_NAMES.split())


def check_graph(folder: str) -> None:
    """Checks that a graph computes, and reads no file but its assets.

    Args:
      folder: of the SavedModel.

    Raises:
      DataError: it may do something else.
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    path = files.within(folder, _MODEL)
    others = [files.name_of(file.path) for file in files.list_files(files.join(folder, "*"))]
    try:
        model = saved_model_pb2.SavedModel.FromString(files.read_bytes(path))
        wrong = next(_wrong(list(model.meta_graphs), others), "")
    except (DecodeError, IndexError) as error:
        wrong = f"found no SavedModel ({error})"
    if wrong:
        raise DataError(
            f"{path}: {wrong}, expected a graph that computes, and no more: it is part of the "
            "dataset, and would run with your rights. If the preprocessing_fn is yours, write it "
            "without, and convert again with --overwrite."
        )


def _wrong(graphs: list[MetaGraphDef], others: list[str]) -> Iterator[str]:
    """Yields what is wrong with a SavedModel.

    Args:
      graphs: of the model.
      others: names of its files.
    """
    if len(graphs) != 1 or not graphs[0].HasField("object_graph_def"):
        yield "found another form of a SavedModel than TensorFlow 2 writes"
        return
    (graph,) = graphs
    for name in (*graph.collection_def, *graph.signature_def, *others):
        if name in _PICKLED or (name.startswith("saved_model.") and name != _MODEL):
            yield f"found '{name}'"
    for asset in graph.asset_file_def:
        if files.name_of(asset.filename) != asset.filename or asset.filename in ("", ".", ".."):
            yield f"found an asset named '{asset.filename}'"
    yield from _wrong_functions(graph)


def _wrong_functions(graph: MetaGraphDef) -> Iterator[str]:
    functions = {each.signature.name: each for each in graph.graph_def.library.function}
    if len(functions) < len(graph.graph_def.library.function):
        yield "found two functions of a name"
    callers = defaultdict(list)
    for name, function in functions.items():
        for node in function.node_def:
            for called in _functions_of(node):
                callers[called].append((name, node))
    objects = graph.object_graph_def
    yield from _other_operations("", graph.graph_def.node, (_COMPUTE - _READ.keys()) | _SAVE)
    for name, function in functions.items():
        is_called = name in callers or name in objects.concrete_functions
        yield from _other_operations(
            name, function.node_def, _COMPUTE if is_called else _COMPUTE | _SAVE
        )
    yield from _other_files(functions, callers, objects)


def _other_operations(
    function: str, nodes: Collection[NodeDef], allowed: frozenset[str]
) -> Iterator[str]:
    if len({node.name for node in nodes}) < len(nodes):
        yield "found two nodes of a name"
    yield from (_found(node, function) for node in nodes if node.op not in allowed)


def _found(node: NodeDef, function: str) -> str:
    return f"found the operation {node.op} ('{node.name}' of {function or 'the main graph'})"


def _functions_of(node: NodeDef) -> Iterator[str]:
    """Yields the functions that a node names."""
    for value in node.attr.values():
        yield from (each.name for each in (value.func, *value.list.func) if each.name)


def _other_files(
    functions: dict[str, FunctionDef],
    callers: dict[str, list[tuple[str, NodeDef]]],
    objects: SavedObjectGraph,
) -> Iterator[str]:
    """Yields operations that read another file than an asset.

    Each path is followed back: through nodes that pass it on, to the arguments of their function,
    and from there to all that call it, and to what the SavedModel's objects bind to it.
    """
    todo = [
        (name, node.input[_READ[node.op]], _found(node, name))
        for name, function in functions.items()
        for node in function.node_def
        if node.op in _READ
    ]
    seen = set()
    while todo:
        name, tensor, found = todo.pop()
        place = _argument(functions[name], tensor)
        if place is None or not _is_asset(objects, functions[name], place):
            yield f"{found}, which reads a file that is no asset of the graph"
            return
        if (name, place) in seen:
            continue
        seen.add((name, place))
        for caller, node in callers.get(name, ()):
            # Elements of a dataset that has one component are the first argument.
            does_pass = node.op in _CALL and (place == 0 or node.op != "FlatMapDataset")
            todo.append((caller, node.input[place] if does_pass else "", found))


def _argument(function: FunctionDef, tensor: str) -> int | None:
    """Returns the place of the argument that a tensor is, or ``None``."""
    arguments = function.signature.input_arg
    if any(each.number_attr or each.type_list_attr for each in arguments):
        return None  # one argument is several inputs
    places = {each.name: place for place, each in enumerate(arguments)}
    nodes = {node.name: node for node in function.node_def if node.op in _PASS}
    for _ in range(len(nodes) + 1):
        node = nodes.get(tensor.partition(":")[0])
        if tensor in places or node is None:
            return places.get(tensor)
        tensor = node.input[0]
    return None


def _is_asset(objects: SavedObjectGraph, function: FunctionDef, place: int) -> bool:
    """Whether objects bind an argument to an asset alone."""
    name, arguments = function.signature.name, function.signature.input_arg
    if name not in objects.concrete_functions:
        return True
    # The last arguments are bound; who calls the object gives the others.
    bound = objects.concrete_functions[name].bound_inputs
    at = place - len(arguments) + len(bound)
    if at < 0 or bound[at] < 0:
        return False
    value = objects.nodes[bound[at]]
    return value.WhichOneof("kind") == "asset" and not value.registered_name
