"""Writes reports to look at.

They show every kind of column, and are full of names and values that try to break out of the page.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from beam_pipelines.analysis.anomalies import Row
from beam_pipelines.analysis.compare import measure_drift
from beam_pipelines.analysis.description import Figure
from beam_pipelines.analysis.report import ImageSample, Report, ReportData, SampledRows
from beam_pipelines.analysis.report.sampled import (
    Coverage,
    Described,
    EncodedFeature,
    Example,
    Examples,
    describe_encoding,
)
from beam_pipelines.analysis.statistics import TableStatistics
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.layout.manifest import (
    Counts,
    File,
    InnerPath,
    Manifest,
    ManifestJoin,
    ManifestShard,
    ManifestSource,
    ManifestSplit,
)

EVIL = "</script><script>alert('x')</script><img src=x onerror=\"alert(1)\">&amp;${name}"


def png(width: int = 2, height: int = 2) -> bytes:
    """Returns a grey image as PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress((b"\0" + b"\x80" * width) * height)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


def batch_of_everything(rows: int = 60) -> pa.RecordBatch:
    """Returns a column of every type and of everything hard to draw."""
    generator = np.random.default_rng(1)
    return pa.record_batch(
        {
            EVIL: pa.array([EVIL, "", " "][i % 3] for i in range(rows)),
            "int": pa.array(generator.integers(-(2**60), 2**60, rows)),
            "skewed": pa.array((generator.lognormal(3, 3, rows)).astype(np.int64)),
            "label": pa.array(generator.integers(0, 2, rows)),
            "float": pa.array([math.nan, math.inf, 1.5, None, -1e308, 1e308] * (rows // 6)),
            "constant": pa.array([0.1] * rows),
            "bool": pa.array([True] * rows),
            "date": pa.array([datetime.date(1, 1, 1), datetime.date(2020, 5, 17)] * (rows // 2)),
            "when": pa.array([2**62, 1_600_000_000_000_000] * (rows // 2)).view(pa.timestamp("us")),
            "time": pa.array([datetime.time(12, 30)] * rows),
            "list": pa.array([["a"] * (i % 3) for i in range(rows)]),
            "image": pa.array([bytes([255, i]) for i in range(rows)]),
            "nothing": pa.nulls(rows, pa.string()),
            "no numbers": pa.nulls(rows, pa.float64()),
            "year": pa.array([2013] * rows),
        }
    )


def split_of(rows: int, *sizes: int) -> ManifestSplit:
    """Returns a split with a shard of each size."""
    shards = tuple(
        ManifestShard(path=InnerPath(f"{n}"), rows=0, bytes=size, crc32c="")
        for n, size in enumerate(sizes)
    )
    return ManifestSplit(rows=rows, bytes=sum(sizes), shards=shards)


def source_of(read: int, size: int, number: int = 1, rejected: int = 0) -> ManifestSource:
    """Returns a source of some files."""
    file = File(path="f", bytes=size, files=number)
    return ManifestSource(read=read, rejected=rejected, files=(file,))


def join_of(source: str, how: str, on: str, **counts: int) -> tuple[ManifestJoin, dict[str, Any]]:
    """Returns the counts of a join, and the recipe's entry."""
    zeros = {"matched": 0, "unmatched": 0, "dropped": 0, "added": 0}
    return ManifestJoin(source=source, how=how, **(zeros | counts)), {"on": [[on, on]]}


def counts_of(**changes: Any) -> Counts:
    """Returns row counts, most of them zero."""
    zeros = {"read": 0, "added": 0, "dropped": 0, "filtered": 0, "merged": 0, "written": 0}
    return Counts(**(zeros | changes))


def report(
    *,
    base: str = f"source {EVIL}",
    joins: Sequence[tuple[ManifestJoin, dict[str, Any]]] = (
        join_of("side", "left", f"on {EVIL}", matched=3, unmatched=1),
    ),
    filter: str | None = f"filter {EVIL}",  # noqa: A002 - as in recipes
    more: Mapping[str, Any] = MappingProxyType({}),
    statistics: Mapping[str, TableStatistics] | None = None,
    **changes: Any,
) -> Report:
    """Returns a report with everything in it.

    Args:
      base, joins, filter, more: of the recipe.
      statistics: of the splits.
      changes: of fields of the manifest and of ``ReportData``.
    """
    batch = batch_of_everything()
    data: dict[str, Any] = {
        "anomalies": [
            Row("train", EVIL, "Column dropped", f"expected {EVIL}", f"found {EVIL}"),
            Row("train", f"feature {EVIL}", "Column dropped", f"expected {EVIL}", f"found {EVIL}"),
        ],
        "rejected": [
            Rejected("side", f"file {EVIL}", "line 4", f"column {EVIL}", f"reason {EVIL}", "")
        ],
        "sampled": SampledRows(
            images=(
                ImageSample(
                    "train", f"image {EVIL}", "image/png", base64.b64encode(png()).decode()
                ),
            )
        ),
    }
    of_data = {field.name for field in dataclasses.fields(ReportData)} & changes.keys()
    data |= {name: changes.pop(name) for name in of_data}
    manifest = Manifest(
        name=f"name {EVIL}",
        schema=InnerPath("s"),
        label="label",
        record="example",
        compression="none",
        recipe={"base": base, "filter": filter, "join": [own for _, own in joins], **more},
        joins=tuple(join for join, _ in joins),
        splits={"train": split_of(50, 12000, 12345), f"eval {EVIL}": split_of(0)},
        sources={
            f"source {EVIL}": source_of(1_234_567, 1 << 30, 3, rejected=3),
            "side": source_of(7, 500),
        },
        counts=counts_of(filtered=17),
    )
    tables = {
        "train": TableStatistics.of(batch),
        f"eval {EVIL}": TableStatistics.empty(batch.schema),
    }
    return Report(
        dataclasses.replace(manifest, **changes),
        tables if statistics is None else statistics,
        ReportData(**data),
    )


def wide_report(features: int) -> Report:
    """Returns a report of many features of several kinds in three splits."""
    generator = np.random.default_rng(0)
    rows = 1500
    kinds = [
        lambda: pa.array(generator.normal(size=rows)),
        lambda: pa.array(generator.lognormal(3, 2, rows).astype(np.int64)),
        lambda: pa.array(
            [
                f"{value}{'&' * 2000 if value > 90 else ''}"
                for value in generator.zipf(1.5, rows) % 100
            ]
        ),
        lambda: pa.array(
            np.where(generator.random(rows) < 0.3, None, generator.integers(0, 9, rows)), pa.int64()
        ),
    ]
    batch = pa.record_batch({f"feature_{i:04d}": kinds[i % 4]() for i in range(features)})
    tables = [TableStatistics.of(batch.slice(start, 500)) for start in range(0, rows, 500)]
    splits = ["train", "eval", "test"]
    described = _described({name: n / features for n, name in enumerate(batch.schema.names)})
    found = dict(zip(splits, tables, strict=True))
    return report(
        name="wide",
        base="table",
        splits={split: split_of(500, 1_000_000) for split in splits},
        sources={"table": source_of(rows, 1 << 24)},
        joins=(),
        filter=None,
        counts=counts_of(),
        anomalies=(),
        rejected=(),
        drifts=measure_drift(found, {}),
        statistics=found,
        label="feature_0003",
        sampled=SampledRows(1500, described=described),
    )


def report_of_splits(number: int, last: str = "other city") -> Report:
    """Returns a report of columns with wide values in several splits.

    The sixth one is called ``last``.
    """
    generator = np.random.default_rng(2)
    names = ["train", "eval", "test", "holdout", "recent", last][:number]
    start, minute = 1_356_998_400_000_000, 60_000_000  # 2013, in microseconds
    tables = {}
    for split in names:
        rows = 40
        tables[split] = TableStatistics.of(
            pa.record_batch(
                {
                    "year": pa.array(generator.integers(2009, 2014, rows)),
                    "amount": pa.array(generator.normal(1e8, 4e7, rows)),
                    "when": pa.array(start + minute * generator.integers(0, 500_000, rows)).view(
                        pa.timestamp("us")
                    ),
                    "place": pa.array(
                        [
                            ["München", "New York", "Llanfairpwllgwyngyll"][place]
                            for place in generator.integers(0, 3, rows)
                        ]
                    ),
                    "tags": pa.array([["a", "b"][: i % 3] for i in range(rows)]),
                }
            )
        )
    return report(
        name="splits",
        base="measurements",
        splits={split: split_of(123_456, 43_450_000, 43_990_000) for split in names},
        sources={"measurements": source_of(123_456 * number, 31_100_000, 12, rejected=7)},
        joins=(join_of("measurements", "left", "place", matched=123_000, unmatched=456),),
        filter=None,
        more={"label": f"{'long ' * 60}{'x' * 200}"},
        counts=counts_of(),
        anomalies=(),
        rejected=(),
        drifts=measure_drift(tables, {}),
        statistics=tables,
        label="place",
        timings={"total_secs": 6.94},
        versions={"beam-pipelines": "0.1.0", "python": "3.11.7"},
        sampled=SampledRows(
            40 * number,
            _examples(),
            encodings=_encodings(tables),
            described=_described({"amount": 0.377, "year": 0.0}),
        ),
    )


def _examples() -> Examples:
    """Returns rows with long values."""
    long = "no-blank-" * 9
    cells = (("98371360", "-0.25"), (long, None), (None, long))
    rows = (Example("train", cells), Example("eval", cells))
    return Examples(("amount", "place", f"new {EVIL}"), rows, 3)


def _described(bits: dict[str, float]) -> tuple[Described]:
    """Returns a column that another package describes."""
    cells = {name: Figure(number, f"{number:.3f}") for name, number in bits.items()}
    return (Described("label", "Label", "Label is a number of bits.", cells, bits),)


def _encodings(tables: dict[str, TableStatistics]) -> tuple[EncodedFeature, ...]:
    """Returns features of one column and of two."""
    columns = {
        name: {split: table.columns[name] for split, table in tables.items()}
        for name in ("amount", "place", "year")
    }
    coverage = dict.fromkeys(tables, Coverage(262_144, 1_000_000, 999_999))
    both = {name: columns[name] for name in ("place", "year")}
    return (
        describe_encoding(
            "amount", ["z_score"], {"amount": columns["amount"]}, columns["amount"], {}
        ),
        describe_encoding(
            "place_and_year_in_one_feature_of_a_long_name",
            ["cross", "vocabulary"],
            both,
            columns["year"],
            coverage,
        ),
    )
