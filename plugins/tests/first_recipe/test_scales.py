"""Categories in the order of a scale."""

from __future__ import annotations

import random

import pytest

from beam_pipelines_plugins.first_recipe.scales import in_order


@pytest.mark.parametrize(
    "ordered",
    [
        ["Strongly disagree", "Disagree", "Neutral", "Agree", "Strongly agree"],
        ["STRONGLY_DISAGREE", "DISAGREE", "AGREE", "STRONGLY_AGREE"],
        ["Never", "Rarely", "Sometimes", "Often", "Always"],
        ["Very dissatisfied", "Dissatisfied", "Neutral", "Satisfied", "Very satisfied"],
        ["poor", "fair", "good", "excellent"],
        ["low", "medium", "high", "critical"],
        ["S", "M", "L", "XL"],
        ["High school", "Bachelor's", "Master's", "PhD"],
        ["bronze", "silver", "gold"],
        ["< 18", "18-24", "25-34", "35-64", "65+"],
        ["under $10k", "$10k-$50k", "$50k-$100k", "more than $100k"],
        ["0.5-1.5", "1.5-20", "20-100"],
        ["1 to 9 years", "10 to 19 years", "20 and over"],
    ],
)
def test_values_of_a_scale(ordered: list[str]) -> None:
    """They get its order; one other value is left out."""
    shuffled = random.Random(1).sample(ordered, len(ordered))
    assert in_order(shuffled) == ordered
    assert in_order([*shuffled, "Prefer not to say"]) == ordered
    assert in_order([*shuffled, "Prefer not to say", "None of these"]) is None


@pytest.mark.parametrize(
    "values",
    [
        [],
        ["low", "high"],
        ["red", "green", "blue"],
        ["M", "F", "X"],
        ["S", "C", "Q"],
        ["1.0", "2.0", "3.0"],
        ["v1", "v2", "v3"],
        ["neutral", "positive", "negative"],
        ["Neither", "Neutral", "Agree", "Disagree"],
        ["10-20", "10-30", "40-50"],
    ],
)
def test_other_categories(values: list[str]) -> None:
    """Without a rank for each value there is no order."""
    assert in_order(values) is None
