"""The JSON Schema of recipes, by a validator."""

from __future__ import annotations

import pathlib

import jsonschema

from beam_pipelines.recipe.text.yaml import parse_yaml, plain
from beam_pipelines_plugins.schemas.recipe_schema import recipe_schema
from tests.recipe.test_reader import FLIGHTS

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"


def test_json_schema() -> None:
    """The JSON Schema takes the recipes that the reader takes.

    It takes no unknown key.
    """
    schema = recipe_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    tree, _, _ = parse_yaml(FLIGHTS, "recipe.yaml")
    assert list(validator.iter_errors(plain(tree))) == []
    for wrong in (
        {"form": "a"},
        {"output": {"level": 10}},
        {"sources": {"a": {"path": 1, "b": 2}}},
    ):
        assert list(validator.iter_errors({"name": "a", "sources": {"a": "a.csv"}} | wrong))
    for path in sorted(EXAMPLES.rglob("*.yaml")):
        tree, _, _ = parse_yaml(path.read_text(), str(path))
        assert list(validator.iter_errors(plain(tree))) == [], path
