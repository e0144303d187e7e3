"""Parquet shards in object stores."""

from __future__ import annotations

import io

import pyarrow.parquet as pq
import pytest

import beam_pipelines as bp
from beam_pipelines.cli import main as main_module
from beam_pipelines.files import stores
from tests.support.remote_stores import s3_store

pytestmark = pytest.mark.remote


def test_parquet_shards_in_a_store(tmp_path, monkeypatch):
    """They are checked, committed and read, also through a cache."""
    monkeypatch.setattr(stores, "_access", stores.Access())
    stores._made.cache_clear()
    rows = "\n".join(f"{number},p{number % 13}" for number in range(2_000))
    (tmp_path / "visits.csv").write_text(f"number,place\n{rows}\n")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "name: visits\nsources: {visits: visits.csv}\nsplit: {train: 0.8, eval: 0.2}\n"
        "output: {num_shards: 2, format: parquet}\n"
    )
    with s3_store() as store:
        for option in store.options:
            monkeypatch.setenv("AWS_ENDPOINT_URL", option.partition("=")[2])
        url = f"{store.url}/visits"
        for command in (["convert", str(recipe), "--output", url], ["verify", url]):
            assert main_module.run([*command, *store.options]) == 0
        assert main_module.run(["convert", str(recipe), "--output", str(tmp_path / "out")]) == 0
        names = store.objects.names("visits/")
        assert [one for one in names if "_temporary" in one] == []
        paths = sorted((tmp_path / "out").glob("parquet/*/*"))
        assert len(paths) == sum("/parquet/" in one for one in names) == 4
        for path in paths:
            data = store.objects.get(f"visits/{path.relative_to(tmp_path / 'out')}")
            assert data == path.read_bytes()
            assert pq.read_table(io.BytesIO(data)).num_rows > 100
        for _ in range(2):
            with bp.open(url, cache=tmp_path / "cache").batches("eval", 100) as reader:
                found = [batch["number"].tolist() for batch in reader]
            with bp.open(tmp_path / "out").batches("eval", 100) as reader:
                assert found == [batch["number"].tolist() for batch in reader]
