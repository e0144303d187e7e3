"""A dataset with an encoding of every kind."""

from tests.dataset.conftest import folder

__all__ = ["folder"]
