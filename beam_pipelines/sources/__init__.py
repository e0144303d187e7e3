"""The formats that can be read, by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from beam_pipelines.core.process import plugins
from beam_pipelines.sources.batch_files import Arrow
from beam_pipelines.sources.csv.format import Csv
from beam_pipelines.sources.files.compression import COMPRESSION_FOR_SUFFIX
from beam_pipelines.sources.images.cifar import Cifar
from beam_pipelines.sources.images.folder import Images
from beam_pipelines.sources.images.idx import Idx
from beam_pipelines.sources.json.format import JsonLines
from beam_pipelines.sources.libsvm.format import SparseLines
from beam_pipelines.sources.lines import PlainLines, RawRecords
from beam_pipelines.sources.parquet.format import Parquet
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sources.source_format import Format
from beam_pipelines.sources.tfrecord.format import TFRecord

# The number of a shard and that of all shards, in the name of a file.
SHARD_NUMBER = re.compile(r"-([0-9]{5,})-of-([0-9]{5,})(?=\.|\Z)")

_OWN: dict[str, Format] = {
    "csv": Csv((".csv", ".txt", ".data", ".dat", ".psv", ".tbl"), ","),
    "tsv": Csv((".tsv", ".tab"), "\t"),
    "json_lines": JsonLines((".jsonl", ".ndjson", ".json", ".geojson")),
    "json": JsonLines(()),
    "parquet": Parquet(),
    "arrow": Arrow(),
    "tfrecord": TFRecord(),
    "raw_records": RawRecords(),
    "cifar": Cifar(),
    "idx": Idx(),
    "images": Images(),
    "lines": PlainLines(),
    "libsvm": SparseLines((".libsvm", ".svm", ".svmlight"), base=1),
    "libfm": SparseLines((".libfm",), base=0),
}


class _Formats(MutableMapping[str, Format]):
    """Formats by name; those of other distributions are imported when asked for."""

    def __init__(self, own: Mapping[str, Format]) -> None:
        self._found = dict(own)

    def __getitem__(self, name: str) -> Format:
        if name in self._found:
            return self._found[name]
        format_: Format = plugins.load(plugins.FORMATS, name)()
        return format_

    def __setitem__(self, name: str, format_: Format) -> None:
        self._found[name] = format_

    def __delitem__(self, name: str) -> None:
        del self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*self.known(), *self._others()))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self._found or plugins.has(plugins.FORMATS, str(name))

    def known(self) -> dict[str, Format | plugins.Known]:
        """Returns what is known of formats before they are imported."""
        return {**_OWN, **plugins.KNOWN[plugins.FORMATS], **self._found}

    def is_own(self, name: str) -> bool:
        """Whether this distribution has a format, or a program has registered it."""
        return name in self._found

    def is_planned(self, name: str | None) -> bool:
        """Whether a planner of another distribution plans sources of a format."""
        return name is not None and not self.is_own(name) and plugins.has(plugins.PLANNERS, name)

    def of_suffix(self, path: str) -> str | None:
        """Returns the format of a path; asks other distributions last."""
        for name, known in self.known().items():
            if path.endswith(known.suffixes):
                return name
        return next((name for name in self._others() if path.endswith(self[name].suffixes)), None)

    @property
    def option_names(self) -> Mapping[str, tuple[str, ...]]:
        """Key of a source -> the formats and planners that declare it."""
        found: dict[str, list[str]] = {}
        others = {name: self[name] for name in self._others()}
        for known in ({**self.known(), **others}, plugins.KNOWN[plugins.PLANNERS]):
            for name, one in known.items():
                for option in one.options:
                    found.setdefault(option, []).append(name)
        return {option: tuple(names) for option, names in found.items()}

    def declaring(self, key: str) -> Any:
        """Returns the ``Options`` that have a key of a source, or ``None``.

        Raises:
          DataError: they are in a distribution that is not installed.
        """
        for format_ in self._found.values():
            if key in format_.options:
                return format_.Options
        for group in (plugins.PLANNERS, plugins.FORMATS):
            for name, known in plugins.KNOWN[group].items():
                if key in known.options:
                    return plugins.load(group, name).Options
        return next(
            (self[name].Options for name in self._others() if key in self[name].options), None
        )

    def _others(self) -> list[str]:
        return [name for name in plugins.others(plugins.FORMATS) if name not in self._found]


FORMATS = _Formats(_OWN)


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
    return plan.reader if isinstance(plan.reader, Format) else FORMATS[plan.format]


def format_of_path(path: str) -> str | None:
    """Returns the format that a file's suffix names, or ``None``.

    A compression's suffix after it is ignored, and so is the number of a shard: Beam and TFX write
    ``data_tfrecord-00000-of-00002.gz``, TFDS ``mnist-train.tfrecord-00000-of-00001``.
    """
    path = path.lower()
    for suffix in COMPRESSION_FOR_SUFFIX:
        path = path.removesuffix(suffix)
    path = SHARD_NUMBER.sub("", path)
    return FORMATS.of_suffix(path)
