"""Tests what recipes say of times and windows."""

from __future__ import annotations

import pytest

from beam_pipelines.core.errors import RecipeError
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.recipe.joins import AsOf, Join, Window, WindowFeature, parse_feature
from beam_pipelines.recipe.normal_form import from_normalised, normalised, recipe_hash

HEAD = "name: a\nsources: {a: a.csv, b: b.csv}\nfrom: a\njoin:\n- {source: b, on: k, "
WINDOW = "window: {left: t, right: u, over: 7d}"


def test_times_are_read_and_kept_in_the_normal_form() -> None:
    """The recipe of a manifest has the same joins and hash."""
    as_of = "as_of: {left: t, right: u, tolerance: 90 min, exact: false, tie: n}}"
    features = f"{WINDOW}, features: {{n: count(), x: 'last(x, 5) over 2w'}}, prefix: p_}}"
    for text, join in (
        (as_of, Join("b", (("k", "k"),), as_of=AsOf("t", "u", "n", 5_400_000_000, exact=False))),
        (
            features,
            Join(
                "b",
                (("k", "k"),),
                prefix="p_",
                window=Window("t", "u", over=7 * 86_400_000_000),
                features={"n": "count()", "x": "last(x, 5) over 2w"},
            ),
        ),
    ):
        recipe = parse_recipe(HEAD + text, "r.yaml", "")
        assert recipe.join == (join,)
        again = from_normalised(normalised(recipe), "")
        assert again.join == (join,)
        assert recipe_hash(again) == recipe_hash(recipe)
    assert join.reach == 14 * 86_400_000_000
    assert join.parsed["p_x"] == WindowFeature("last", "x", 5, join.reach)


def test_joins_without_times_keep_their_hashes() -> None:
    """The normal form leaves unused keys of times out."""
    [join] = normalised(parse_recipe(HEAD + "how: inner}", "r.yaml", ""))["join"]
    assert not {"as_of", "window", "features"} & set(join)


@pytest.mark.parametrize(
    "text",
    ["sum()", "sum(a, 3)", "last(a, 0)", "count(a) over 7", "median(a)", "count", "last(,5)"],
)
def test_features_that_are_none(text: str) -> None:
    """Only what has a meaning is a feature."""
    assert parse_feature(text) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WINDOW, "found no 'features', expected some"),
        ("features: {n: count()}", "found 'features' without 'window'"),
        (f"how: semi, {WINDOW}, features: {{n: count()}}", "found 'features' in a semi join"),
        (f"{WINDOW}, as_of: {{left: t, right: u}}", "found 'as_of' and 'window', expected one"),
        (f"{WINDOW}, features: {{n: last(x, 5)}}", "In braces a comma ends a text"),
        (f"{WINDOW}, features: {{n: summe(x)}}", r"found 'summe\(x\)', expected count\(\), last"),
        ("as_of: {left: t}", "found no 'right', expected one"),
        ("as_of: {left: t, right: u, tolerance: 7}", "found '7', expected a duration, as 30s"),
        ("as_of: {left: t, right: u, tolerance: 0d}", "found '0d', expected a duration, as 30s"),
        ("as_of: yes", "found 'yes', expected a mapping such as"),
    ],
)
def test_wrong_keys_are_errors(text: str, message: str) -> None:
    """Each contradiction says what to do."""
    with pytest.raises(RecipeError, match=message):
        parse_recipe(HEAD + text + "}", "r.yaml", "")


def test_one_source_has_several_windows() -> None:
    """Joins that name their features, or add none, need no other prefix."""
    window = f"{WINDOW}, features: {{NAME: count()}}}}"
    again = "\n- {source: b, on: k, "
    text = HEAD + again.join(
        [window.replace("NAME", "n"), window.replace("NAME", "m"), "how: semi}"]
    )
    assert len(parse_recipe(text, "r.yaml", "").join) == 3
