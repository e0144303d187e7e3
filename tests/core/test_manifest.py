"""``dataset.json`` is written as its values, and read as them again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_pipelines.core.layout import manifest
from beam_pipelines.core.layout.manifest import Manifest, parse_manifest, to_json, to_text
from tests.support.manifests import parsed_manifest, small_manifest

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
COUNTS = st.integers(0, 2**63 - 1)
PATHS = st.sampled_from(("a", "a/b", "examples/Split-train/é.tfrecord"))
ANY = st.recursive(st.none() | st.booleans() | COUNTS | TEXTS, st.lists, max_leaves=3)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draws a value, or nothing."""
    return st.none() | values


def mappings(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draws values by texts."""
    return st.dictionaries(TEXTS, values, max_size=2)


def tuples(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """Draws some values."""
    return st.lists(values, max_size=2).map(tuple)


FILE = {"path": PATHS, "rows": COUNTS, "bytes": COUNTS, "crc32c": TEXTS}
SHARDS = st.builds(manifest.ManifestShard, **FILE)
SPLITS = st.builds(
    manifest.ManifestSplit,
    rows=COUNTS,
    bytes=COUNTS,
    framed_bytes=COUNTS,
    shards=st.lists(SHARDS, min_size=1, max_size=2).map(tuple),
)
SOURCES = st.builds(
    manifest.ManifestSource,
    columns=mappings(TEXTS),
    labels=mappings(tuples(TEXTS)),
    files=tuples(
        st.builds(
            manifest.File,
            path=TEXTS,
            bytes=COUNTS,
            files=maybe(COUNTS),
            modified=maybe(st.floats(0, 1e12) | COUNTS),
        )
    ),
    decisions=tuples(TEXTS),
    found=maybe(mappings(ANY)),
    snapshot=maybe(st.builds(manifest.ManifestSnapshot, id=TEXTS, rows=maybe(COUNTS), table=TEXTS)),
)
MATCHES = dict.fromkeys(("matched", "unmatched", "dropped", "added", "null_keys"), COUNTS)
ROWS = dict.fromkeys(("read", "added", "dropped", "filtered", "merged", "written"), COUNTS)
MANIFESTS = st.builds(
    Manifest,
    date=maybe(TEXTS),
    recipe=mappings(ANY),
    schema=PATHS,
    label=maybe(TEXTS),
    labels=mappings(tuples(TEXTS)),
    record=st.sampled_from(("example", "sequence_example", "raw")),
    format=st.sampled_from(("tfrecord", "parquet")),
    compression=st.sampled_from(("gzip", "zlib", "none", "zstd")),
    splits=st.dictionaries(TEXTS, SPLITS, min_size=1, max_size=2),
    sources=mappings(SOURCES),
    joins=tuples(st.builds(manifest.ManifestJoin, **MATCHES)),
    counts=st.builds(manifest.Counts, **ROWS, left_out=maybe(COUNTS), left_out_by=mappings(COUNTS)),
    taken=maybe(mappings(ANY)),
    findings=tuples(mappings(ANY)),
    alerts=mappings(tuples(TEXTS)),
    files=st.dictionaries(PATHS, st.builds(manifest.CheckedFile, bytes=COUNTS)),
)


@given(MANIFESTS)
def test_a_manifest_is_read_as_it_was_written(written: Manifest) -> None:
    """No field is lost or changed; the text is the same again."""
    text = to_text(written)
    read = parse_manifest(text.encode(), "dataset.json")
    assert read == written
    assert to_text(read) == text


def test_only_some_fields_are_left_out() -> None:
    """Fields of some manifests are left out where they say nothing."""
    plain = to_json(parsed_manifest())
    assert {"date", "encodings", "alerts", "files"} <= plain.keys()
    assert plain.keys().isdisjoint({"taken", "findings", "format", "generations"})
    assert plain["splits"]["train"]["shards"] == small_manifest()["splits"]["train"]["shards"]
    counts = small_manifest()["counts"] | {"left_out/leaks": 0, "left_out": 0}
    assert list(to_json(parsed_manifest(counts=counts))["counts"]) == [
        "read", "rejected", "added", "dropped", "filtered", "merged", "left_out", "left_out/leaks", "written",
    ]  # fmt: skip


def test_rows_that_are_expected() -> None:
    """Rows that are left out are subtracted, added ones are not."""
    counts = dict.fromkeys(("read", "added", "repeated"), 100)
    gone = ("dropped", "filtered", "merged", "left_out", "left_out/a", "left_out/b", "sampled_out")
    counts |= {key: 1 << place for place, key in enumerate(gone)} | {"written": 0}
    assert parsed_manifest(counts=counts).counts.expected == 300 - 0b1111111


@pytest.mark.parametrize("key", ["another", "left"])
def test_keys_of_other_versions_are_ignored(key: str) -> None:
    """Older and later versions have more keys."""
    more = json.dumps(small_manifest() | {key: [1]}).encode()
    assert parse_manifest(more, "dataset.json") == parsed_manifest()
