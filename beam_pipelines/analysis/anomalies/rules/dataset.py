"""Rules for a split's number of examples, alone and against earlier datasets."""

from __future__ import annotations

from collections.abc import Iterator

from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.anomalies.rules.reason import Info, Reason, number_text


def dataset_reasons(
    constraints: schema_pb2.DatasetConstraints,
    rows: int,
    previous_rows: int | None,
    version_rows: int | None = None,
) -> Iterator[Reason]:
    """Yields the reasons that concern a split's number of rows.

    Args:
      constraints: constraints of the schema.
      rows: number of rows of the split.
      previous_rows: number of rows of the same split of the baseline, or ``None``.
      version_rows: number of rows of the same split of the previous version, or ``None``.
    """
    if previous_rows is not None:
        comparator = constraints.num_examples_drift_comparator
        yield from _ratio_reasons(comparator, rows, previous_rows, "previous span")
    if version_rows is not None:
        comparator = constraints.num_examples_version_comparator
        yield from _ratio_reasons(comparator, rows, version_rows, "previous version")
    if constraints.HasField("min_examples_count") and rows < constraints.min_examples_count:
        description = f"The dataset has {rows} examples, which is fewer than expected."
        expected = f"at least {constraints.min_examples_count:,} rows"
        short = "Low num examples in dataset."
        yield Reason(Info.DATASET_LOW_NUM_EXAMPLES, short, description, expected, f"{rows:,} rows")
    if constraints.HasField("max_examples_count") and rows > constraints.max_examples_count:
        description = f"The dataset has {rows} examples, which is more than expected."
        expected = f"at most {constraints.max_examples_count:,} rows"
        short = "High num examples in dataset."
        yield Reason(Info.DATASET_HIGH_NUM_EXAMPLES, short, description, expected, f"{rows:,} rows")


def _ratio_reasons(
    comparator: schema_pb2.NumericValueComparator, rows: int, previous: int, name: str
) -> Iterator[Reason]:
    low, high = comparator.min_fraction_threshold, comparator.max_fraction_threshold
    versus = f"in current dataset versus the {name}"
    ratio = rows / previous if previous else 0.0
    found = f"{rows:,} rows against {previous:,}"
    text = (
        f"The ratio of num examples in the current dataset versus the {name} is "
        f"{number_text(float(ratio))} "
        "(up to six significant digits), which is {} the threshold {}."
    )
    if comparator.HasField("max_fraction_threshold"):
        expected = f"at most {number_text(high)} times as many rows"
        if not previous and rows:
            description = (
                f"The {name} has 0 examples, so there is a high number of examples {versus}."
            )
            short = f"High num examples {versus}, which has 0."
            yield Reason(Info.COMPARATOR_HIGH_NUM_EXAMPLES, short, description, expected, found)
        elif ratio > high:
            description, short = (
                text.format("above", number_text(high)),
                f"High num examples {versus}.",
            )
            yield Reason(Info.COMPARATOR_HIGH_NUM_EXAMPLES, short, description, expected, found)
    if comparator.HasField("min_fraction_threshold") and previous and ratio < low:
        description, short = text.format("below", number_text(low)), f"Low num examples {versus}."
        expected = f"at least {number_text(low)} times as many rows"
        yield Reason(Info.COMPARATOR_LOW_NUM_EXAMPLES, short, description, expected, found)
