"""Calls that need the full package say so without it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import beam_pipelines as bp
from beam_pipelines.core.process import full_package
from tests.reader.test_reader import finish
from tests.support.small_dataset import write_dataset


@pytest.fixture
def _reader_alone(monkeypatch):
    """Hides what only the full package has."""
    for name in ("analysis", "cli", "dataset", "pipeline", "sources", "storage"):
        full = f"beam_pipelines.{name}"
        for loaded in [one for one in sys.modules if f"{one}.".startswith(f"{full}.")]:
            monkeypatch.delitem(sys.modules, loaded)
        monkeypatch.setitem(sys.modules, full, None)


@pytest.mark.usefixtures("_reader_alone")
@pytest.mark.parametrize("name", ["convert", "inspect", "load", "register_format"])
def test_names_of_the_full_package(name):
    """A name of the full package is an error that names it."""
    with pytest.raises(ImportError, match=rf"^bp\.{name}: found .*Install beam-pipelines 0"):
        getattr(bp, name)
    with pytest.raises(ImportError, match="Install beam-pipelines"):
        exec(f"from beam_pipelines import {name}")  # noqa: S102 (as a user writes it)


@pytest.mark.usefixtures("_reader_alone")
def test_methods_of_a_dataset(tmp_path: Path):
    """The reader shows first rows; what needs the full package says so."""
    dataset = bp.open(finish(write_dataset(tmp_path), columns={}))
    assert dataset.head(2).num_rows == len(dataset.to_pandas(2)) == 2
    with pytest.raises(ImportError, match=r"^as_='tf': found .*alone"):
        dataset.batches(as_="tf")


def test_other_missing_packages_are_named(monkeypatch):
    """Another package that is missing keeps its own error."""
    monkeypatch.delitem(sys.modules, "beam_pipelines.core._native.shared", raising=False)
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    with pytest.raises(ModuleNotFoundError, match="google_crc32c"):
        full_package.import_module("core._native.shared", "this")
