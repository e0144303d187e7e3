"""The dataset card of the Hugging Face Hub, a README.

https://huggingface.co/docs/hub/datasets-cards. The Hub shows it for a repository that has the
dataset's folder as it is.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import yaml

from beam_pipelines.core.layout.dataset_layout import split_folder
from beam_pipelines.core.layout.shard_formats import PARQUET, TFRECORD
from beam_pipelines_plugins.passports.dataset_facts import DatasetFacts, FeatureFacts

FILE_NAME = "README.md"
_DTYPES = {"int64": "int64", "float32": "float32", "bytes": "binary"}
# The Hub's categories: fewer rows than the first number.
_SIZES = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
    (100_000_000, "10M<n<100M"),
    (1_000_000_000, "100M<n<1B"),
    (10_000_000_000, "1B<n<10B"),
    (100_000_000_000, "10B<n<100B"),
    (1_000_000_000_000, "100B<n<1T"),
)


def hugging_face_files(facts: DatasetFacts) -> dict[str, str]:
    """Returns path -> text of the card."""
    splits = facts.manifest.splits
    rows = sum(split.rows for split in splits.values())
    header: dict[str, Any] = {
        "pretty_name": facts.name,
        "tags": [*_tags(facts), "croissant"],
        "size_categories": [
            next((size for most, size in _SIZES if rows < most), "n>1T"),
        ],
        "dataset_info": {
            "features": _features(facts),
            "splits": [
                {"name": name, "num_examples": split.rows, "num_bytes": split.framed_bytes}
                for name, split in splits.items()
            ],
            "download_size": sum(split.bytes for split in splits.values()),
            "dataset_size": sum(split.framed_bytes for split in splits.values()),
        },
    }
    if facts.parquet is not None:
        header["configs"] = [
            {
                "config_name": "default",
                "data_files": [
                    {"split": name, "path": f"{split_folder(PARQUET, name)}/*.parquet"}
                    for name in splits
                ],
            }
        ]
    if facts.about.license is not None:
        header |= _license(facts.about.license)
    text = yaml.safe_dump(header, sort_keys=False, allow_unicode=True)
    return {FILE_NAME: f"---\n{text}---\n\n{_body(facts)}"}


def _tags(facts: DatasetFacts) -> list[str]:
    """Returns the formats of the shards."""
    return [
        *([TFRECORD] if facts.manifest.format == TFRECORD else []),
        *([PARQUET] if facts.parquet is not None else []),
    ]


def _license(name: str) -> dict[str, str]:
    """Returns a license's keys; the Hub has SPDX's identifiers in lower case."""
    if "://" in name:
        return {"license": "other", "license_link": name}
    return {"license": name.lower()}


def _features(facts: DatasetFacts) -> list[dict[str, Any]]:
    """Returns the features, by the columns of Parquet if there are such."""
    if facts.parquet is None:
        return [_feature(one) for one in facts.features]
    known = {one.name: one for one in facts.features}
    return [_column(field, known.get(field.name)) for field in facts.parquet]


def _column(field: pa.Field, feature: FeatureFacts | None) -> dict[str, Any]:
    """Returns a column of Parquet, as ``datasets`` writes its features."""
    if feature is not None and feature.is_image:
        return {"name": field.name, "dtype": "image"}
    labels = None if feature is None else _class_label(feature)
    kind = _kind(field.type, labels)
    return {"name": field.name, **(kind if "list" in kind else {"dtype": kind["dtype"]})}


def _kind(type_: pa.DataType, labels: Any) -> dict[str, Any]:
    if pa.types.is_list(type_) or pa.types.is_fixed_size_list(type_):
        inner = _kind(type_.value_type, labels)
        length = {"length": type_.list_size} if pa.types.is_fixed_size_list(type_) else {}
        return {"list": inner if "list" in inner else inner["dtype"], **length}
    name = "float32" if pa.types.is_float32(type_) else str(type_)
    return {"dtype": name if labels is None else labels}


def _class_label(feature: FeatureFacts) -> Any:
    """Returns the names of a feature's ids, if it has some."""
    if not feature.labels or feature.dtype != "int64":
        return None
    return {"class_label": {"names": {str(i): one for i, one in enumerate(feature.labels)}}}


def _feature(feature: FeatureFacts) -> dict[str, Any]:
    if feature.is_image:
        return {"name": feature.name, "dtype": "image"}
    dtype: Any = "string" if feature.is_text else _DTYPES[feature.dtype]
    dtype = _class_label(feature) or dtype
    if feature.shape == ():
        return {"name": feature.name, "dtype": dtype}
    return {"name": feature.name, "list": dtype}


_BODY = """\
# {name}

{description}

## Splits

| split | rows | shards | bytes |
| --- | ---: | ---: | ---: |
{splits}
## Reading

```python
import beam_pipelines as bp

batches = bp.open("path/to/this/folder").batches("{split}", batch_size=512, as_="torch")
```

{readers}
"""
_TFRECORD_READERS = "The records are TFRecords, which `tf.data.TFRecordDataset` reads too."
_PARQUET_READERS = (
    f"The rows are in Parquet files in `{PARQUET}/`, which `datasets.load_dataset`, pandas, DuckDB "
    "and polars read without any code."
)


def _body(facts: DatasetFacts) -> str:
    about, splits = facts.about, facts.manifest.splits
    rows = (
        f"| {name} | {split.rows:,} | {len(split.shards):,} | {split.bytes:,} |\n"
        for name, split in splits.items()
    )
    text = _BODY.format(
        name=facts.name,
        description=facts.description,
        splits="".join(rows),
        split=next(iter(splits)),
        readers=_PARQUET_READERS if facts.parquet is not None else _TFRECORD_READERS,
    )
    parts = [text]
    if about.url:
        parts.append(f"## Source\n\n<{about.url}>\n")
    if about.creators:
        parts.append("## Creators\n\n" + "".join(f"- {name}\n" for name in about.creators))
    if about.citation:
        parts.append(f"## Citation\n\n```text\n{about.citation.strip()}\n```\n")
    return "\n".join(parts)
