"""Hashes of the examples' recipes."""

from __future__ import annotations

import pytest

from beam_pipelines.pipeline.planning.recipes import load
from beam_pipelines.recipe.normal_form import recipe_hash
from tests.conftest import REPOSITORY

# Their beginnings. A dataset is made again, or appended to, if the hash is that of its manifest.
HASHES = {
    "cifar/cifar10": "abe65e88adcbae5a", "cifar/cifar100": "e4bf5ddf0dad3595",
    "ctr/history": "dd30f3267d587f48", "ctr/recipe": "23ef64d4c676f7f1",
    "flights/encoded": "d5f707b6cdd9172d", "flights/recipe": "b3927178f5ed17c7", "images/recipe": "6c8db0aa4643832f",
    "libsvm/recipe": "fb557252e821dbb1", "mnist/fashion": "6e4dfde20cf540de",
    "mnist/recipe": "9ff2155bdbc07c5f", "raw_records/recipe": "6b16fac437b4856f",
    "sequences/planes": "e506009e6e7fb322", "sequences/texts": "554569112cf738f2",
    "values/recipe": "308195be352afd8e",
}  # fmt: skip


def test_every_example_has_a_hash() -> None:
    """No recipe is left out."""
    found = (REPOSITORY / "examples").glob("*/*.yaml")
    assert {f"{path.parent.name}/{path.stem}" for path in found} == set(HASHES)


@pytest.mark.parametrize("name", HASHES)
def test_hashes_stay(name: str) -> None:
    """New keys and other layouts of classes change no hash."""
    path = REPOSITORY / "examples" / f"{name}.yaml"
    assert recipe_hash(load(str(path))).startswith(HASHES[name])
