"""Names and paths of the files in a dataset.

Paths are relative to the dataset's folder, with ``/`` between names. The folders of ``examples``,
``statistics``, ``anomalies``, ``schema`` and ``transform_graph`` are those of TFX's artifacts.
"""

from __future__ import annotations

MANIFEST = "dataset.json"
# The manifest of sources that 'describe' or 'validate' read: no split has shards.
DESCRIPTION = "description.json"
TEMPORARY = "_temporary"

EXAMPLES = "examples"
STATISTICS = "statistics"
# Not in STATISTICS: TFX expects the protos to be the only files there.
ACCUMULATORS = "accumulators"
ANOMALIES = "anomalies"
REJECTED = "rejected"
INPUTS = "inputs"
# Not in EXAMPLES: TFX reads every file there.
INDEX = "index"
REPORT = "report.html"
# What the report shows and no other file has.
REPORT_DATA = "report.json"  # of earlier versions: a run that overwrites removes it
# Next to recipes, not in datasets.
RECIPE_SCHEMA = "recipe.schema.json"
LABELS = "labels.txt"
LABELS_FOLDER = "labels"
RAW_SCHEMA_FOLDER = "schema"
RAW_SCHEMA = "schema/schema.pbtxt"

TRANSFORM_GRAPH = "transform_graph"
# A SavedModel is complete with this file, so it is written last.
SAVED_MODEL = "transform_graph/transform_fn/saved_model.pb"
# Fitted encodings, as transforms/encode.py writes them.
ENCODINGS = "transform_graph/encodings"
ENCODED_SCHEMA = "transform_graph/transformed_metadata/schema.pbtxt"
# A second file: tensorflow-transform reads ENCODED_SCHEMA and does not support feature lists.
SEQUENCE_SCHEMA = "transform_graph/transformed_metadata/sequence_schema.pbtxt"

SPLIT_PREFIX = "Split-"
FEATURE_STATS = "FeatureStats.pb"
ACCUMULATORS_SUFFIX = ".arrow"
INDEX_SUFFIX = ".arrow"


def split_folder(part: str, split: str) -> str:
    """Returns a split's folder in a part of a dataset: ``examples/Split-train``."""
    return f"{part}/{SPLIT_PREFIX}{split}"


def statistics_path(split: str) -> str:
    """Returns the path of a split's statistics, a DatasetFeatureStatisticsList proto."""
    return f"{split_folder(STATISTICS, split)}/{FEATURE_STATS}"


def anomalies_path(split: str) -> str:
    """Returns the path of a split's anomalies, an Anomalies proto."""
    return f"{split_folder(ANOMALIES, split)}/SchemaDiff.pb"


def _generation_folder(part: str, generation: int) -> str:
    """Returns the folder of a generation's own files: ``index``, then ``index/g2``."""
    return part if generation == 1 else f"{part}/g{generation}"


def accumulators_path(split: str, generation: int = 1) -> str:
    """Returns the path of a split's accumulators of one generation.

    The split ``*`` gives a pattern that matches all splits.
    """
    return (
        f"{split_folder(_generation_folder(ACCUMULATORS, generation), split)}{ACCUMULATORS_SUFFIX}"
    )


def index_path(split: str, generation: int = 1) -> str:
    """Returns the path of the index of a split's generation.

    The split ``*`` gives a pattern that matches all splits.
    """
    return f"{split_folder(_generation_folder(INDEX, generation), split)}{INDEX_SUFFIX}"


def inputs_path(source: str) -> str:
    """Returns the path of the list of a source's small files.

    The manifest has no entries for those files.
    """
    return f"{INPUTS}/g1/{source}.arrow"
