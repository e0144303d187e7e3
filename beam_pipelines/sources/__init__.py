"""The formats that can be read, one file per kind, found through one dictionary."""

from __future__ import annotations

from beam_pipelines.sources.arrow import Arrow
from beam_pipelines.sources.compression import COMPRESSION_FOR_SUFFIX
from beam_pipelines.sources.csv.format import Csv
from beam_pipelines.sources.format import Format
from beam_pipelines.sources.images.cifar import Cifar
from beam_pipelines.sources.images.folder import Images
from beam_pipelines.sources.images.idx import Idx
from beam_pipelines.sources.json.format import JsonLines
from beam_pipelines.sources.libsvm.format import Libsvm
from beam_pipelines.sources.lines import Lines
from beam_pipelines.sources.parquet.format import Parquet
from beam_pipelines.sources.tfrecord.format import TFRecord
from beam_pipelines.sources.tfrecord.raw_records import RawRecords

FORMATS: dict[str, Format] = {
    "csv": Csv((".csv", ".txt"), ","),
    "tsv": Csv((".tsv", ".tab"), "\t"),
    "json_lines": JsonLines(),
    "parquet": Parquet(),
    "arrow": Arrow(),
    "tfrecord": TFRecord(),
    "raw_records": RawRecords(),
    "cifar": Cifar(),
    "idx": Idx(),
    "images": Images(),
    "lines": Lines(),
    "libsvm": Libsvm((".libsvm", ".svm", ".svmlight"), base=1),
    "libfm": Libsvm((".libfm",), base=0),
    "libffm": Libsvm((".libffm", ".ffm"), base=0, has_fields=True),
}


# Formats without types of their own.
TEXT_FORMATS = ("csv", "tsv", "json_lines", "libsvm", "libfm", "libffm")
# Option of a source -> the formats that know it.
FAMILY_FOR_OPTION = {"libsvm": ("libsvm", "libfm", "libffm"), "image": ("images",), "idx": ("idx",)}
# Formats of which a file is a row: a folder may be their path, and a range is a run of files.
FORMATS_OF_FOLDERS = ("images",)


def format_of_path(path: str) -> str | None:
    """Returns the key of the format that a file's suffix names, looking behind a compression's;
    ``None`` if none does.
    """
    path = path.lower()
    for suffix in COMPRESSION_FOR_SUFFIX:
        path = path.removesuffix(suffix)
    for name, format_ in FORMATS.items():
        if path.endswith(format_.suffixes):
            return name
    return None
