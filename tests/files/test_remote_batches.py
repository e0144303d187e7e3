"""Datasets in S3 and in Google's storage are read without Beam."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import beam_pipelines as bp
from beam_pipelines.core.errors import DataError
from beam_pipelines.files import stores
from beam_pipelines.files.beam import files
from tests.reader.indexed import finish
from tests.support.remote_stores import google_store, s3_store
from tests.support.small_dataset import write_dataset

pytestmark = pytest.mark.remote


@pytest.fixture(params=["s3", "gs"])
def store(request, monkeypatch):
    """A store, which the environment names."""
    monkeypatch.setattr(stores, "_access", stores.Access())
    stores._made.cache_clear()
    with s3_store() if request.param == "s3" else google_store() as store:
        for option in store.options:
            monkeypatch.setenv("AWS_ENDPOINT_URL", option.partition("=")[2])
        yield store


def test_batches(store, tmp_path):
    """Batches from a store are those of the local copy."""
    folder = finish(write_dataset(tmp_path / "data", [90, 0, 110, 1, 99, 100]))
    for path in filter(Path.is_file, Path(folder).rglob("*")):
        name = path.relative_to(folder).as_posix()
        store.objects.put(f"a folder/{name}", path.read_bytes())
    url = f"{store.url}/a folder"

    def ids(dataset, **options):
        with dataset.batches(batch_size=32, **options) as reader:
            return [batch["id"].tolist() for batch in reader]

    files.use_options(store.options)
    assert bp.open(f"{store.url}/a *").folders == (url,)
    expected = ids(bp.open(folder))
    assert ids(bp.open(url)) == expected
    for _ in range(2):
        assert ids(bp.open(url, cache=tmp_path / "cache")) == expected
    code = """
import sys
import beam_pipelines as bp
with bp.open(sys.argv[1]).batches(batch_size=100) as reader:
    assert sum(len(batch["id"]) for batch in reader) == 400
assert not {"apache_beam", "tensorflow"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code, url], check=True)
    for missing in (f"{store.url}/none", f"{store.url}-none/a"):
        with pytest.raises(DataError, match=r"none.*: found no dataset\.json"):
            bp.open(missing)
