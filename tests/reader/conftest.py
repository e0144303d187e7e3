"""Fixtures of the reader's tests."""

from __future__ import annotations

import pytest

from tests.reader.indexed import finish
from tests.support.small_dataset import write_dataset


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A dataset of 400 rows in six shards, one of them empty."""
    return finish(write_dataset(tmp_path_factory.mktemp("reader"), [90, 0, 110, 1, 99, 100]))
