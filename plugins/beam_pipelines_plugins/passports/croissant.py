"""The description of a dataset in Croissant 1.1, MLCommons' vocabulary.

https://docs.mlcommons.org/croissant/docs/croissant-spec-1.1.html. Statistics are annotations whose
types are terms of Wikidata and of DDI's ``SummaryStatisticType``, as the specification shows.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from beam_pipelines.core.layout.dataset_layout import EXAMPLES, MANIFEST, SPLIT_PREFIX
from beam_pipelines.core.layout.shard_formats import PARQUET
from beam_pipelines_plugins.passports.dataset_facts import DatasetFacts, FeatureFacts

FILE_NAME = "croissant.json"

# The vocabulary's own terms, in the order of its examples.
_TERMS = (
    "arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field",
    "fileProperty", "fileObject", "fileSet", "format", "includes", "isArray", "isLiveDataset",
    "jsonPath", "key", "md5", "parentField", "path", "recordSet", "references", "regex",
    "repeated", "replace", "samplingRate", "separator", "source", "subField", "transform",
    "annotation",
)  # fmt: skip
_CONTEXT: Mapping[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "ddi-stats": "http://rdf-vocabulary.ddialliance.org/cv/SummaryStatisticType/2.1.2/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "sc": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    **{term: f"cr:{term}" for term in _TERMS},
}
_DATA_TYPES = {"int64": "sc:Integer", "float32": "cr:Float32"}
# TensorFlow has no registered media type for TFRecords.
_TFRECORD = "application/x-tfrecord"
# Croissant's own example has this one; more programs read it than TFRecords.
_PARQUET = "application/x-parquet"
_NOT_IN_IRIS = re.compile(r"[^\w.-]")
_COUNT = "http://www.wikidata.org/entity/Q4049983"
_MEAN, _MAXIMUM = "ddi-stats:7975ed0", "ddi-stats:8321e79"


def croissant_files(facts: DatasetFacts) -> dict[str, str]:
    """Returns path -> text of the file.

    The manifest is the container of the shards: its checksum is here, and theirs are in it.
    """
    about = facts.about
    document = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": facts.name,
        "description": facts.description,
        "version": facts.version,
        "license": about.license,
        "url": about.url,
        "citeAs": about.citation,
        "datePublished": about.published,
        "creator": [{"@type": "sc:Organization", "name": name} for name in about.creators] or None,
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": "manifest",
                "name": "manifest",
                "description": "Paths, rows, sizes and CRC-32C of all shards.",
                "contentUrl": MANIFEST,
                "encodingFormat": "application/json",
                "sha256": hashlib.sha256(facts.manifest_bytes).hexdigest(),
            },
            {
                "@type": "cr:FileSet",
                "@id": "shards",
                "name": "shards",
                "containedIn": {"@id": "manifest"},
                "encodingFormat": _PARQUET if facts.parquet else _TFRECORD,
                "includes": f"{PARQUET if facts.parquet else EXAMPLES}/{SPLIT_PREFIX}*/*",
            },
        ],
        "recordSet": [_splits(facts), _examples(facts)],
    }
    given = {key: value for key, value in document.items() if value is not None}
    return {FILE_NAME: json.dumps(given, indent=1, ensure_ascii=False) + "\n"}


def _splits(facts: DatasetFacts) -> dict[str, Any]:
    name = {"@type": "cr:Field", "@id": "splits/name", "name": "name", "dataType": "sc:Text"}
    return {
        "@type": "cr:RecordSet",
        "@id": "splits",
        "name": "splits",
        "dataType": "cr:Split",
        "key": {"@id": "splits/name"},
        "field": [name],
        "data": [{"splits/name": split} for split in facts.manifest.splits],
    }


def _examples(facts: DatasetFacts) -> dict[str, Any]:
    split = {
        "@type": "cr:Field",
        "@id": "examples/split",
        "name": "split",
        "dataType": "sc:Text",
        "source": {
            "fileSet": {"@id": "shards"},
            "extract": {"fileProperty": "fullpath"},
            "transform": {"regex": f"{SPLIT_PREFIX}([^/]+)/"},
        },
        "references": {"field": {"@id": "splits/name"}},
    }
    rows = sum(one.rows for one in facts.manifest.splits.values())
    return {
        "@type": "cr:RecordSet",
        "@id": "examples",
        "name": "examples",
        "annotation": [_annotation("examples", "count", rows, _COUNT)],
        "field": [split, *map(_field, facts.features)],
    }


def _field(feature: FeatureFacts) -> dict[str, Any]:
    # The field of the split has the plain identifier.
    path = f"examples/features/{_identifier(feature.name)}"
    field: dict[str, Any] = {
        "@type": "cr:Field",
        "@id": path,
        "name": feature.name,
        "dataType": _data_type(feature),
        "source": {"fileSet": {"@id": "shards"}, "extract": {"column": feature.name}},
    }
    if feature.shape != ():
        sizes = (-1,) if feature.shape is None else feature.shape
        field |= {"isArray": True, "arrayShape": ",".join(map(str, sizes))}
    if annotations := list(_annotations(path, feature)):
        field["annotation"] = annotations
    return field


def _identifier(name: str) -> str:
    """Returns a name as part of an IRI: ``~2F`` for a slash.

    mlcroissant takes no ``%20``.
    """
    return _NOT_IN_IRIS.sub(
        lambda found: "".join(f"~{byte:02X}" for byte in found[0].encode()), name
    )


def _data_type(feature: FeatureFacts) -> str:
    if feature.is_image:
        return "sc:ImageObject"
    return _DATA_TYPES.get(feature.dtype, "sc:Text")


def _annotations(path: str, feature: FeatureFacts) -> Iterator[dict[str, Any]]:
    if feature.numbers is not None:
        mean, minimum, maximum = feature.numbers
        yield _annotation(path, "mean", mean, _MEAN)
        yield _annotation(path, "minimum", minimum, "sc:minValue")
        yield _annotation(path, "maximum", maximum, _MAXIMUM)


def _annotation(path: str, name: str, value: float, kind: str) -> dict[str, Any]:
    return {
        "@type": "cr:Field",
        "@id": f"{path}/{name}",
        "name": name,
        "value": value,
        "dataType": kind,
    }
