"""Writes the shards of spilled chunks."""

from __future__ import annotations

import dataclasses

import apache_beam as beam

from beam_pipelines.pipeline.first_pass import EncodeAndPreprocess, Encoder
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.pipeline.read_splits import note_rows
from beam_pipelines.pipeline.run_options import RunFolders
from beam_pipelines.runners.progress import ProgressLog
from beam_pipelines.transforms.shuffle import DealChunks
from beam_pipelines.transforms.spill import LoadChunks, SpillChunks, SpilledChunk
from beam_pipelines.transforms.write import Note, ShardInfo, Target, WriteShardFiles
from beam_pipelines.transforms.write_dealt import WriteDealtShards


@dataclasses.dataclass
class WriteSpilled(beam.PTransform):
    """Encodes the rows of spilled chunks, and writes them to shards.

    Where all workers share a filesystem, the writer of a shard reads its rows from the chunks'
    files. Else the engine exchanges encoded rows.

    Input: ``SpilledChunk`` elements of the folder ``kept``. Output: one ``ShardInfo`` for each
    unfinished shard; its bytes do not depend on the exchange.

    Attributes:
      plan, folders: of the run.
      encoder: of the first pass.
      planned: path of the shard plan's file, as one element once it is complete.
      note: is called with the rows of each partition that is in its shard; ``None``: nothing is.
    """

    plan: Plan
    folders: RunFolders
    encoder: Encoder
    planned: beam.PCollection[str]
    note: Note | None = None

    def expand(self, spilled: beam.PCollection[SpilledChunk]) -> beam.PCollection[ShardInfo]:
        by_files = self.folders.exchange is not None
        return self._by_files(spilled) if by_files else self._by_engine(spilled)

    def _by_files(self, spilled: beam.PCollection[SpilledChunk]) -> beam.PCollection[ShardInfo]:
        plan, folders = self.plan, self.folders
        folder, is_encoded = folders.scratch_of("kept"), plan.preprocessing is not None
        if is_encoded:
            folder = folders.scratch_of("preprocessed")
            spilled = self._encoded(spilled) | "SpillEncoded" >> SpillChunks(folder)
        shard_plan = folders.scratch_of("shard_plan")
        return (
            spilled
            | "DealChunks" >> DealChunks(plan.recipe.output, shard_plan, self.planned)
            | "Write"
            >> WriteDealtShards(
                self._target(),
                shard_plan,
                folder,
                None if is_encoded else plan.encode,
                self.encoder.fitted,
            )
        )

    def _by_engine(self, spilled: beam.PCollection[SpilledChunk]) -> beam.PCollection[ShardInfo]:
        folders = self.folders
        shard_plan, parts = folders.scratch_of("shard_plan"), folders.scratch_of("parts")
        write = WriteShardFiles(self._target(), shard_plan, self.planned, parts)
        return self._encoded(spilled) | "Write" >> write

    def _target(self) -> Target:
        plan = self.plan
        folder = self.folders.temporary_of()
        return Target(plan.shard_name, plan.recipe.output, folder, plan.encode.lists, self.note)

    def _encoded(self, spilled: beam.PCollection[SpilledChunk]) -> beam.PCollection:
        log = ProgressLog(self.folders.progress)
        return (
            spilled
            | "LoadChunks" >> LoadChunks((self.planned,), self.folders.removes_spilled)
            | "EncodeChunks" >> EncodeAndPreprocess(self.plan, self.folders, self.encoder)
            | "NoteEncoded" >> beam.Map(note_rows, log, "encoded")
        )
