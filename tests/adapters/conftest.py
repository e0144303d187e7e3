"""A dataset for the adapters, written without TensorFlow.

It and PyTorch do not get along in every process.
"""

from __future__ import annotations

import pytest

from tests.reader.indexed import finish
from tests.support.small_dataset import write_dataset


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A dataset of 400 rows in six shards, one of them empty."""
    found = tmp_path_factory.mktemp("adapters")
    return finish(write_dataset(found, [90, 0, 110, 1, 99, 100]))
