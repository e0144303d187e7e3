"""Checks that a source's declared key is unique over all its ranges."""

from __future__ import annotations

import dataclasses

import apache_beam as beam
import pyarrow as pa

from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.key_index import index_keys
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.transforms.exchange import Exchange, Message, Received
from beam_pipelines.transforms.join.hash_join import Packed, cut_by_key, pack, unpack
from beam_pipelines.transforms.join.index import check_unique, table_batch
from beam_pipelines.transforms.join.plan import count_partitions


def send_keys(chunk: Chunk, key: tuple[str, ...], partitions: int) -> Message:
    """Sends only the key columns of a chunk to their partitions."""
    parts = cut_by_key(chunk.batch.select(key), key, partitions)
    return Message(
        (chunk.range_number, chunk.part),
        {partition: pack([Packed(batch, {})]) for partition, batch in parts.items()},
    )


def check_partition(received: Received, source: Source) -> int:
    """Returns the number of keys in one partition.

    Raises:
      DataError: a key occurs more than once; the message shows it.
    """
    batches = [packed.batch for payload in received.payloads() for packed in unpack(payload)]
    batch = table_batch(pa.Table.from_batches(batches))
    return check_unique(index_keys(batch.columns), batch, source.key, source.name)


@dataclasses.dataclass
class CheckUniqueKey(beam.PTransform):
    """Fails if a source's declared key is not unique.

    Input: the source's ``Chunk`` elements. Output: the number of keys in each partition, for other
    steps to wait for; rows with a null in a key column are not counted.

    Attributes:
      plan: of the source, with a declared ``key``.
      folder: for the exchange, used by this step only; ``None`` sends keys through the engine.
    """

    plan: SourcePlan
    folder: str | None

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[int]:
        source = self.plan.source
        return (
            chunks
            | "SendKeys" >> beam.Map(send_keys, source.key, count_partitions(self.plan))
            | "Meet" >> Exchange(self.folder)
            | "CheckKeys" >> beam.Map(check_partition, source)
        )
