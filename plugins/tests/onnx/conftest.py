"""A dataset with an encoding of every kind."""

from tests.opening.conftest import folder

__all__ = ["folder"]
