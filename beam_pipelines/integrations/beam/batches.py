"""PCollections of RecordBatches with known columns.

Stages check their options against the columns while the pipeline is built, as a plan checks a
recipe. So the columns are the element type of the PCollection. They survive every transform that
keeps the type: ``beam.Filter``, ``beam.Reshuffle``, ``beam.Flatten``.

The stages order chunks by address, so that results do not depend on the order of arrival. A batch
from elsewhere has no address; it gets one from a hash of its rows. Batches of the same rows have
the same address; they are interchangeable.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import apache_beam as beam
import pyarrow as pa
from apache_beam.typehints import typehints

from beam_pipelines.core import _native
from beam_pipelines.core.arrow import columns
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import DataError, RecipeError
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.text.lines import Lines
from beam_pipelines.transforms.split import split

T = TypeVar("T")

# Leaves of the merge trees of statistics; a chunk's leaf follows from its address.
NUM_RANGES = 4096
_ADDRESS_SEED = 0x61646472  # "addr"
_SPLIT = "train"  # split of batches without one


class BatchesOf(typehints.TypeConstraint):
    """The element type of a PCollection of RecordBatches with certain columns.

    ``beam.Map(change).with_output_types(BatchesOf(schema))`` declares the output of a user
    function.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BatchesOf) and bool(self.schema.equals(other.schema))

    def __hash__(self) -> int:
        return hash(tuple(self.schema.names))

    def __repr__(self) -> str:
        return f"BatchesOf({', '.join(f'{field.name}: {field.type}' for field in self.schema)})"

    def _consistent_with_check_(self, sub: object) -> bool:
        return self == sub

    def type_check(self, instance: object) -> None:
        """Raises TypeError if an element is not such a batch.

        Beam calls it with ``--runtime_type_check``.
        """
        if not isinstance(instance, pa.RecordBatch) or not instance.schema.equals(self.schema):
            raise TypeError(f"found {instance!r}, expected a RecordBatch with the columns {self}")


@dataclasses.dataclass
class AsBatches(beam.PTransform):
    """Declares the columns of RecordBatches or Tables from anywhere.

    Input: ``pyarrow.RecordBatch`` or ``pyarrow.Table`` elements, such as those of
    ``beam.io.ReadFromParquetBatched``. Output: RecordBatches with rows, with column types
    (``core/arrow/columns.py``): an ``int32`` becomes ``int64``, a timestamp becomes UTC in
    microseconds. Nothing is rounded.

    Args:
      schema: the columns to take, by name, with their input types.
    """

    schema: pa.Schema

    def expand(
        self, tables: beam.PCollection[pa.RecordBatch | pa.Table]
    ) -> beam.PCollection[pa.RecordBatch]:
        target = columns.normalise_schema(self.schema, "AsBatches")
        return tables | "Normalise" >> beam.FlatMap(_normalised, self.schema).with_output_types(
            BatchesOf(target)
        )


def _normalised(table: pa.RecordBatch | pa.Table, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in table.to_batches() if isinstance(table, pa.Table) else (table,):
        given = set(batch.schema.names)
        found = {name: batch.schema.field(name).type for name in schema.names if name in given}
        wrong = [field for field in schema if found.get(field.name) != field.type]
        if wrong:
            raise DataError(
                f"AsBatches, column '{wrong[0].name}': found "
                f"{found.get(wrong[0].name, 'no such column')} in a batch, expected "
                f"{wrong[0].type}. Give AsBatches the schema that all batches have, or cast them "
                "before."
            )
        if batch.num_rows:
            arrays = [columns.normalise(batch.column(name)) for name in schema.names]
            yield pa.RecordBatch.from_arrays(
                arrays, schema=columns.normalise_schema(schema, "AsBatches")
            )


def schema_of(batches: beam.PCollection[pa.RecordBatch], stage: str) -> pa.Schema:
    """Returns the columns of a PCollection of batches.

    Raises:
      RecipeError: they are not known.
    """
    if isinstance(batches.element_type, BatchesOf):
        return batches.element_type.schema
    raise RecipeError(
        f"{stage}: found a PCollection of {batches.element_type}, expected RecordBatches whose "
        "columns are known. The stages know them; a user function loses them: add "
        "AsBatches(schema) after it."
    )


def schema_of_splits(
    splits: Mapping[str, beam.PCollection[pa.RecordBatch]], stage: str
) -> pa.Schema:
    """Returns the columns that all splits have.

    Raises:
      RecipeError: they differ, or are not known.
    """
    schemas = {name: schema_of(batches, stage) for name, batches in splits.items()}
    first, schema = next(iter(schemas.items()))
    for name, other in schemas.items():
        if not other.equals(schema):
            raise RecipeError(
                f"{stage}: found {BatchesOf(other)} in split '{name}' and {BatchesOf(schema)} in "
                f"split '{first}', expected the same columns in all."
            )
    return schema


def by_split(batches: Any) -> dict[str, beam.PCollection[pa.RecordBatch]]:
    """Returns split name -> batches; a single PCollection is the split ``train``."""
    return dict(batches) if isinstance(batches, Mapping) else {_SPLIT: batches}


def to_chunks(batch: pa.RecordBatch, split: str) -> Iterator[Chunk]:
    """Yields a batch with rows as a chunk with an address.

    The address, range number below ``NUM_RANGES`` and part, is a hash of the rows. Their order
    counts; contents of null slots do not. Equal rows give equal addresses, other rows others (62
    bits of BLAKE2b).
    """
    if batch.num_rows:
        hashes = _native.hash_rows(batch.columns, _ADDRESS_SEED)
        digest = hashlib.blake2b(hashes.tobytes(), digest_size=8).digest()
        part, number = divmod(int.from_bytes(digest, "little") >> 2, NUM_RANGES)
        yield Chunk(number, part, batch, {}, path="a batch", split=split)


def read_sections(stage: str, **sections: Any) -> Recipe:
    """Returns a recipe of some sections, checked like a recipe file's.

    Sections that are ``None`` are left out.

    Raises:
      RecipeError: lists every problem, with the stage's name.
    """
    tree = {"name": "stage", "sources": {"source": {"path": "*"}}, "from": "source"}
    tree |= {key: value for key, value in sections.items() if value is not None}
    try:
        return parse_recipe(json.dumps(tree), stage)
    except RecipeError as error:
        raise RecipeError(str(error).replace(f"{stage}:1: ", f"{stage}: ")) from error


def planned(stage: str, step: Callable[[], T]) -> T:
    """Returns the result of a planning function.

    Raises:
      RecipeError: lists every problem that it found, with the stage's name.
    """
    with Lines(stage).explained():
        return step()


class AssignSplit(beam.PTransform):
    """Divides rows into splits by a stable hash, or by time.

    The same row, or the same value of ``by``, always gets the same split.

    Input: batches. Output: a dict, split name -> batches.

    Args:
      split: as in a recipe: ``{"train": 0.8, "eval": 0.2, "by": ["user_id"]}``, or by time.
    """

    def __init__(self, split: Mapping[str, Any]) -> None:
        super().__init__()
        self._recipe = read_sections("AssignSplit", split=dict(split))
        if self._recipe.split.files:
            raise RecipeError(
                "AssignSplit: found splits by files, expected fractions or times: a batch knows no "
                "file."
            )
        if self._recipe.split.stratify:
            raise RecipeError(
                "AssignSplit: found 'stratify', expected shares without it: a stage knows no row "
                "counts. Convert with a recipe instead."
            )

    def expand(
        self, batches: beam.PCollection[pa.RecordBatch]
    ) -> dict[str, beam.PCollection[pa.RecordBatch]]:
        schema = schema_of(batches, "AssignSplit")
        plan = planned("AssignSplit", lambda: split.plan_split(self._recipe, schema))
        unaddressed = batches | "ToChunks" >> beam.Map(
            lambda batch: Chunk(0, 0, batch, {}, path="a batch")
        )
        chunks = (unaddressed | split.SplitChunks(plan)).chunks
        return {
            name: chunks
            | f"Take_{name}"
            >> beam.FlatMap(
                lambda chunk, name: [chunk.batch] if chunk.split == name else [], name
            ).with_output_types(BatchesOf(plan.schema))
            for name in plan.names
        }
