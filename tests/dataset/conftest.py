"""Fixtures of the tests of opened datasets."""

from __future__ import annotations

import pytest

from tests.support import encoder_dataset


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A dataset with an encoding of every kind."""
    return encoder_dataset.convert(tmp_path_factory.mktemp("encoder"))
