"""Writes TFRecord files: one stream of parts that are compressed alone."""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.arrow.binary_arrays import byte_lengths, data_of
from beam_pipelines.sinks import Settings, Written
from beam_pipelines.sinks.tfrecord.deflate import PARTS, DeflateStream, compress_parts
from beam_pipelines.tfrecord.part_index import PartColumns
from beam_pipelines.tfrecord.records import framed_records


class TFRecordFile:
    """A file of framed records."""

    def __init__(self, file: BinaryIO, settings: Settings) -> None:
        self._file, self._stream = file, DeflateStream(settings.output.compression)
        self._start = len(self._stream.start())
        self._written: list[pa.RecordBatch] = []
        file.write(self._stream.start())

    def add(self, prepared: pa.RecordBatch) -> int:
        """Writes parts, a batch of ``PARTS``, and returns their rows."""
        self._stream.add(prepared)
        data = prepared.column("data")
        self._file.write(data_of(data))
        sizes = pa.array(byte_lengths(data))
        self._written.append(prepared.set_column(len(PARTS) - 1, "bytes", sizes))
        return pc.sum(prepared.column("rows")).as_py() or 0

    def close(self) -> Written:
        """Ends the stream."""
        self._file.write(self._stream.end())
        sizes, rows = self._joined("bytes", np.int64), self._joined("rows", np.int32)
        parts = PartColumns(
            np.zeros(len(sizes), np.int32),
            self._start + np.cumsum(sizes) - sizes,
            sizes,
            self._joined("framed_bytes", np.int64),
            rows,
            self._joined("crc32", np.uint32),
        )
        return Written(int(rows.sum()), self._stream.size, parts)

    def _joined(self, name: str, type_: type) -> np.ndarray:
        values = [batch.column(name).to_numpy() for batch in self._written]
        return np.concatenate([*values, np.empty(0, type_)]).astype(type_)


class TFRecordSink:
    """Serializes, frames and compresses rows."""

    def prepare(
        self, batch: pa.RecordBatch, order: npt.NDArray[np.int64] | None, settings: Settings
    ) -> pa.RecordBatch:
        """Returns a partition's parts, a batch of ``PARTS``."""
        output, records = settings.output, pa.array([], pa.large_binary())
        if batch.num_columns:
            records = framed_records(batch, order, output.record, settings.lists)
        return compress_parts(output.compression, output.level, records, output.part_size)

    def open(self, file: BinaryIO, settings: Settings) -> TFRecordFile:
        """Begins a file."""
        return TFRecordFile(file, settings)


SINK = TFRecordSink()
