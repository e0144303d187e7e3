"""The formats that can be read, by name."""

from __future__ import annotations

import re

from beam_pipelines.sources.arrow import Arrow
from beam_pipelines.sources.compression import COMPRESSION_FOR_SUFFIX
from beam_pipelines.sources.csv.format import Csv
from beam_pipelines.sources.format import Format
from beam_pipelines.sources.images.cifar import Cifar
from beam_pipelines.sources.images.folder import Images
from beam_pipelines.sources.images.idx import Idx
from beam_pipelines.sources.json.format import JsonLines
from beam_pipelines.sources.libsvm.format import SparseLines
from beam_pipelines.sources.lines import PlainLines
from beam_pipelines.sources.parquet.format import Parquet
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.tfrecord.format import TFRecord
from beam_pipelines.sources.tfrecord.raw_records import RawRecords
from beam_pipelines_plugins.formats.avro_format import Avro
from beam_pipelines_plugins.formats.excel_format import Excel
from beam_pipelines_plugins.formats.hdf5 import Hdf5
from beam_pipelines_plugins.formats.numpy_files import NumPy
from beam_pipelines_plugins.formats.orc import Orc
from beam_pipelines_plugins.formats.webdataset_format import WebDataset
from beam_pipelines_plugins.lakehouses.table import LakeTable

# The number of a shard and that of all shards, in the name of a file.
SHARD_NUMBER = re.compile(r"-([0-9]{5,})-of-([0-9]{5,})(?=\.|\Z)")

FORMATS: dict[str, Format] = {
    "csv": Csv((".csv", ".txt"), ","),
    "tsv": Csv((".tsv", ".tab"), "\t"),
    "json_lines": JsonLines((".jsonl", ".ndjson", ".json", ".geojson")),
    "json": JsonLines(()),
    "parquet": Parquet(),
    "arrow": Arrow(),
    "avro": Avro(),
    "orc": Orc(),
    "delta": LakeTable(),
    "iceberg": LakeTable(),
    "numpy": NumPy(),
    "excel": Excel(),
    "hdf5": Hdf5(),
    "tfrecord": TFRecord(),
    "raw_records": RawRecords(),
    "cifar": Cifar(),
    "idx": Idx(),
    "images": Images(),
    "webdataset": WebDataset(),
    "lines": PlainLines(),
    "libsvm": SparseLines((".libsvm", ".svm", ".svmlight"), base=1),
    "libfm": SparseLines((".libfm",), base=0),
    "libffm": SparseLines((".libffm", ".ffm"), base=0, has_fields=True),
}


def register_format(name: str, format_: Format) -> None:
    """Adds a format, which recipes name with ``format: NAME``.

    Plans carry the format to workers, which have to be able to import the module of its class.

    Args:
      name: key in ``FORMATS``.
      format_: the format; its suffixes are tried after those of earlier formats.

    Raises:
      ValueError: the name is taken.
    """
    if name in FORMATS:
        raise ValueError(f"found a format '{name}' already, expected a new name.")
    FORMATS[name] = format_


def format_of(plan: SourcePlan) -> Format:
    """Returns the format of a plan, also where it is not registered."""
    return plan.reader or FORMATS[plan.format]


def format_of_path(path: str) -> str | None:
    """Returns the format that a file's suffix names, or ``None``.

    A compression's suffix after it is ignored, and so is the number of a shard: Beam and TFX write
    ``data_tfrecord-00000-of-00002.gz``, TFDS ``mnist-train.tfrecord-00000-of-00001``.
    """
    path = path.lower()
    for suffix in COMPRESSION_FOR_SUFFIX:
        path = path.removesuffix(suffix)
    path = SHARD_NUMBER.sub("", path)
    for name, format_ in FORMATS.items():
        if path.endswith(format_.suffixes):
            return name
    return None
