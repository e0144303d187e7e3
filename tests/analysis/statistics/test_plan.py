"""The recipe's ``statistics:`` and what planning makes of it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.analysis.statistics import StatisticsPlan, plan_statistics
from beam_pipelines.core.errors import RecipeError, RecipeProblems
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.recipe.sections import Statistics

SCHEMA = pa.schema(
    [
        ("w", pa.float64()),
        ("n", pa.int64()),
        ("t", pa.string()),
        ("b", pa.binary()),
        ("l", pa.list_(pa.int64())),
        ("day", pa.date32()),
    ]
)


def wanted(statistics: str) -> Statistics:
    text = f"name: x\nsources: {{x: x.csv}}\nstatistics: {statistics}\n"
    return parse_recipe(text, "r.yaml").statistics


def test_what_is_asked_for() -> None:
    """Weight and slices come from the recipe, as column or list.

    The default is none.
    """
    assert plan_statistics(
        wanted("{weight: w, slice_by: [t, day]}"), SCHEMA, None
    ) == StatisticsPlan("w", ("t", "day"))
    assert plan_statistics(wanted("{slice_by: l}"), SCHEMA, None) == StatisticsPlan(None, ("l",))
    assert plan_statistics(Statistics(), SCHEMA, None) == StatisticsPlan()


@pytest.mark.parametrize(
    ("statistics", "path", "message"),
    [
        ("{weight: nn}", ("statistics", "weight"), "found 'nn', expected a column that is written. Did you mean 'n'?"),
        ("{slice_by: [n, tt]}", ("statistics", "slice_by", 1), "found 'tt', expected a column that is written. Did you mean 't'?"),
        ("{weight: t}", ("statistics", "weight"), "found column 't' of type text, expected a number column."),
        ("{weight: l}", ("statistics", "weight"), "found column 'l' of type list<int64>, expected a number column."),
        ("{slice_by: w}", ("statistics", "slice_by"),
         "found column 'w' of type float64, expected a column of texts, integers, dates or times."),
        ("{slice_by: [t, b]}", ("statistics", "slice_by", 1),
         "found column 'b' of type bytes, expected a column of texts, integers, dates or times."),
    ],
)  # fmt: skip
def test_columns_that_do_not_do(statistics: str, path: tuple[str, ...], message: str) -> None:
    """A missing or wrongly typed column is a problem at its place."""
    with pytest.raises(RecipeProblems) as error:
        plan_statistics(wanted(statistics), SCHEMA, None)
    assert [(each.path, each.message) for each in error.value.problems] == [(path, message)]


def test_all_problems_at_once() -> None:
    """Every wrong column is reported, not the first one only."""
    with pytest.raises(RecipeProblems) as error:
        plan_statistics(wanted("{weight: t, slice_by: [w, b]}"), SCHEMA, None)
    assert len(error.value.problems) == 3


@pytest.mark.parametrize(
    ("statistics", "message"),
    [
        ("{wieght: w}", "Did you mean 'weight'"),
        ("{slice_by: []}", "expected at least one text"),
        ("{slice_by: [t, t]}", "found 't' more than once"),
        ("w", "expected a mapping such as"),
    ],
)
def test_recipes_that_are_wrong(statistics: str, message: str) -> None:
    """Problems of the section are found when the recipe is read."""
    with pytest.raises(RecipeError, match=message):
        wanted(statistics)


def test_categorical_integers_come_from_the_contract() -> None:
    """Only integers, also in lists, whose domain says is_categorical are categorical."""
    schema = text_format.Parse(
        """
        feature { name: "n" type: INT int_domain { is_categorical: true } }
        feature { name: "l" type: INT int_domain { is_categorical: true } }
        feature { name: "t" type: INT int_domain { is_categorical: true } }
        feature { name: "day" type: INT int_domain { min: 0 } }
        feature { name: "gone" type: INT int_domain { is_categorical: true } }
        """,
        schema_pb2.Schema(),
    )
    plan = plan_statistics(wanted("{weight: w}"), SCHEMA, schema.SerializeToString())
    assert plan.categorical == ("n", "l")
