"""Plans which features of records are feature lists."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
from tensorflow_metadata.proto.v0 import schema_pb2

from beam_pipelines.core.arrow.columns import has_lists_as_steps, type_name
from beam_pipelines.core.errors import Problem, RecipeProblems, nearest
from beam_pipelines.core.layout.schema_features import SEQUENCE, feature_lists_of, features_of
from beam_pipelines.encodings.plan import EncodePlan
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.sections import Sequences
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.transforms.group import GroupPlan


def with_feature_lists(recipe: Recipe, base: SourcePlan, encode: EncodePlan) -> Recipe:
    """Returns the recipe with the feature lists of records without a recipe.

    Any other recipe says what becomes a feature list.

    Args:
      recipe: as it was read.
      base: plan of its base source.
      encode: plan of its encodings.
    """
    is_of_features = recipe.output.record is None and recipe.preprocessing_fn is None
    if not base.source.planning.keeps_steps or recipe.sequence is not None or not is_of_features:
        return recipe
    names = [recipe.rename.get(name, name) for name in base.steps]
    written = encode.features() if names else {}
    lists = tuple(name for name in names if name in written and written[name].is_list)
    return dataclasses.replace(recipe, sequence=Sequences(features=lists)) if lists else recipe


def plan_feature_lists(recipe: Recipe, groups: GroupPlan | None, encode: EncodePlan) -> EncodePlan:
    """Returns the encodings' plan with the names of its feature lists.

    It has none for tf.Examples.

    Raises:
      RecipeProblems: features that are not written or no lists, or a recipe whose records are no
        features.
    """
    sequence = recipe.sequence
    if sequence is None:
        return encode
    problems = [
        Problem(("sequence",), f"found it with '{key}', which goes with tf.Examples only.")
        for key, given in (
            ("preprocessing_fn", recipe.preprocessing_fn),
            ("output.record", recipe.output.record),
        )
        if given
    ]
    written = encode.features()
    for name in sequence.features:
        if name not in written:
            problems.append(
                Problem(
                    ("sequence", "features"), f"unknown feature '{name}'.{nearest(name, written)}"
                )
            )
        elif not written[name].is_list:
            kind = type_name(written[name].type)
            message = (
                f"feature '{name}' is {kind}, expected a list. Make one in 'encode', or of "
                "several rows with 'group_by'."
            )
            problems.append(Problem(("sequence", "features"), message))
    context = () if groups is None else groups.context
    lists = sequence.features or tuple(
        name for name, feature in written.items() if feature.is_list and name not in context
    )
    problems += [
        Problem(
            ("sequence", "features"),
            f"feature '{name}' is {type_name(feature.type)}, which only a feature list holds. Name "
            "it here, or leave it out with 'drop'.",
        )
        for name, feature in written.items()
        if has_lists_as_steps(feature.type) and name not in lists
    ]
    if not lists and not problems:
        problems.append(
            Problem(
                ("sequence",),
                "found no list among the features, expected at least one feature list.",
            )
        )
    if problems:
        raise RecipeProblems(problems)
    return dataclasses.replace(encode, lists=lists)


def list_columns(groups: GroupPlan | None, encode: EncodePlan) -> tuple[str, ...]:
    """Returns the columns before encoding whose values are steps.

    Grouping made them, or they stay feature lists.
    """
    steps = {*(() if groups is None else groups.lists), *encode.lists}
    return tuple(
        field.name
        for field in encode.columns
        if pa.types.is_list(field.type) and field.name in steps
    )


def check_contract(contract: bytes | None, columns: pa.Schema, lists: tuple[str, ...]) -> None:
    """Checks that a schema and the recipe have the same feature lists.

    Raises:
      RecipeProblems: they differ.
    """
    if contract is None:
        return
    schema = schema_pb2.Schema.FromString(contract)
    nested = {feature.name for feature in feature_lists_of(schema)}
    known = set(columns.names)
    found = [feature.name for feature in features_of(schema) if feature.name in known]
    problems = []
    for name in found:
        if name in lists and name not in nested:
            message = (
                f"feature '{name}' stands at the top, expected it in the struct_domain of "
                f"'{SEQUENCE}': it is a feature list."
            )
            problems.append(Problem(("schema",), message))
        if name in nested and name not in lists:
            message = (
                f"feature '{name}' stands in '{SEQUENCE}', expected it at the top: the "
                "recipe makes no feature list of it."
            )
            problems.append(Problem(("schema",), message))
    if problems:
        raise RecipeProblems(problems)
