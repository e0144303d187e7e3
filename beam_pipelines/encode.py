"""Encoding: columns become features, the three types that a tf.Example can hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.columns import type_name
from beam_pipelines.encodings import ENCODING_FOR_KIND, Encoding
from beam_pipelines.errors import DataError, Problem, RecipeProblems, nearest
from beam_pipelines.pieces import Piece
from beam_pipelines.recipe import Recipe


@dataclasses.dataclass(frozen=True)
class EncodePlan:
    """What becomes of each column.

    Attributes:
      chains: column -> its encodings, applied in order; columns not named keep their values.
      encoded_schema: the columns after their encodings, still column types.
    """

    chains: tuple[tuple[str, tuple[Encoding, ...]], ...]
    encoded_schema: pa.Schema


def plan_encode(recipe: Recipe, schema: pa.Schema) -> EncodePlan:
    """Checks the recipe's ``encode`` and ``label`` against the selected columns.

    Raises:
      RecipeProblems: unknown columns, wrong parameters, chains whose types do not fit.
    """
    problems: list[Problem] = []
    chains: list[tuple[str, tuple[Encoding, ...]]] = []
    types = {field.name: field.type for field in schema}
    for name, steps in recipe.encode.items():
        if name not in types:
            problems.append(Problem(("encode", name), f"unknown column '{name}'.{nearest(name, types)}"))
            continue
        chain: list[Encoding] = []
        for kind, parameters in steps:
            try:
                chain.append(ENCODING_FOR_KIND[kind].of(parameters))
                types[name] = chain[-1].output_type(types[name])
            except ValueError as error:
                problems.append(Problem(("encode", name), f"{kind}: {error}"))
                break
        chains.append((name, tuple(chain)))
    if recipe.label is not None and recipe.label not in types:
        problems.append(Problem(("label",), f"unknown column '{recipe.label}'.{nearest(recipe.label, types)}"))
    if not types:
        problems.append(Problem((), "no column is left to write. Check 'keep' and 'drop'."))
    if problems:
        raise RecipeProblems(problems)
    return EncodePlan(tuple(chains), pa.schema([pa.field(name, types[name]) for name in schema.names]))


def encode_batch(plan: EncodePlan, batch: pa.RecordBatch, where: str) -> pa.RecordBatch:
    """Encodes the columns of a batch as features: int64, float (32 bits), string or binary, or lists of them.

    Nulls stay null, empty lists empty.

    Args:
      plan: from ``plan_encode``.
      batch: the selected columns.
      where: begins an error's message: the file that the batch came from.

    Raises:
      DataError: a value that its encoding, or float32, cannot hold.
    """
    chains = dict(plan.chains)
    arrays = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        array = column
        for encoding in chains.get(name, ()):
            array = _apply(encoding.apply, array, f"{where}, column '{name}'")
        arrays.append(_apply(to_feature, array, f"{where}, column '{name}'"))
    return pa.RecordBatch.from_arrays(arrays, batch.schema.names)


def to_feature(array: pa.Array) -> pa.Array:
    """Converts one column to its feature type, as the table in ``columns.py`` says.

    Raises:
      pa.ArrowInvalid: a finite float64 is beyond the range of float32, or a list holds a null.
    """
    types = pa.types
    if types.is_list(array.type):
        if array.flatten().null_count:
            raise pa.ArrowInvalid("a list that holds a null, which tf.Example cannot")
        values = to_feature(array.values)
        return pa.ListArray.from_buffers(
            pa.list_(values.type), len(array), array.buffers()[:2], array.null_count, array.offset, [values]
        )
    if types.is_boolean(array.type):
        return array.cast(pa.int64())
    if types.is_date32(array.type):
        return array.cast(pa.int32()).cast(pa.int64())
    if types.is_time64(array.type) or types.is_timestamp(array.type):
        return array.cast(pa.int64())
    if types.is_float64(array.type):
        narrow = pc.cast(array, pa.float32(), safe=False)
        overflown = pc.and_(pc.is_inf(narrow), pc.is_finite(array))
        if pc.any(overflown).as_py():
            raise pa.ArrowInvalid("a number beyond the range of float32")
        return narrow
    return array


def _apply(convert: Callable[[pa.Array], pa.Array], array: pa.Array, where: str) -> pa.Array:
    """Converts an array; on failure names the first value that cannot be converted."""
    try:
        return convert(array)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        value = _first_failure(convert, array)
        raise DataError(
            f"{where}: found {value!r} of type {type_name(array.type)}, which cannot be encoded: {error}. "
            "Mend the value with 'derive', leave its row out with 'filter', or change 'encode'."
        ) from error


def _first_failure(convert: Callable[[pa.Array], pa.Array], array: pa.Array) -> object:
    """Finds, by bisection, the first value that ``convert`` refuses."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            convert(array.slice(low, middle - low))
            low = middle
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            high = middle
    return array[low].as_py() if low < len(array) else np.nan


@dataclasses.dataclass
class EncodeFeatures(beam.PTransform):
    """Encodes the columns of pieces as features.

    Input and output: ``Piece`` elements, one for one.

    Attributes:
      plan: the encodings, fitted, as one element.
    """

    plan: beam.PCollection[EncodePlan]

    def expand(self, pieces: beam.PCollection[Piece]) -> beam.PCollection[Piece]:
        return pieces | "Encode" >> beam.Map(_encode_piece, beam.pvalue.AsSingleton(self.plan))


def _encode_piece(piece: Piece, plan: EncodePlan) -> Piece:
    return piece._replace(batch=encode_batch(plan, piece.batch, piece.path))
