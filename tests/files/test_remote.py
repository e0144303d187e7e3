"""Datasets in object stores, from the command line.

Sources and shards are on local servers of S3's and Google's kind.
"""

from __future__ import annotations

import gzip
import io
import json
import pathlib
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_pipelines.cli import main as main_module
from beam_pipelines.sources import plan
from tests.support.remote_stores import Store, google_store, s3_store

pytestmark = pytest.mark.remote
ROWS = 6_000
RECIPE = """
name: clicks
sources:
  clicks: {{path: ["{url}/raw/*.csv", "{url}/raw/*.csv.gz"]}}
  users: {{path: "{url}/raw/users.parquet", key: user}}
from: clicks
join:
  - {{source: users, on: user}}
encode:
  city: vocabulary
split: {{train: 0.8, eval: 0.2}}
schema: {schema}
output: {{num_shards: 3, serving: true}}
"""
OLD_RECIPE = "name: old\nsources: {{old: {{path: '{url}/raw/extra.csv.gz'}}}}\n"


def rows(start: int, stop: int) -> bytes:
    """Lines of a CSV file.

    Some cells have line breaks in quotes, which must not be cut.
    """
    texts = [
        chr(34) + ("two\nlines" if n % 97 == 0 else "x" * (n % 30)) + chr(34) for n in range(stop)
    ]
    return "".join(
        ["id,user,text\n", *(f"{n},u{n % 50},{texts[n]}\n" for n in range(start, stop))]
    ).encode()


# Store -> objects of the dataset, in the order in which they were written.
written: dict[str, list[str]] = {}


@pytest.fixture(scope="module", params=["s3", "gs"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """A store with raw data in ``raw/`` and a recipe in ``recipes/``."""
    with s3_store() if request.param == "s3" else google_store() as store:
        users = pa.table(
            {"user": [f"u{n}" for n in range(50)], "city": [f"city {n % 7}" for n in range(50)]}
        )
        pq.write_table(users, sink := io.BytesIO())
        store.objects.put("raw/part-0.csv", rows(0, ROWS))
        store.objects.put("raw/extra.csv.gz", gzip.compress(rows(ROWS, ROWS + 100)))
        store.objects.put("raw/users.parquet", sink.getvalue())
        store.objects.put(
            "recipes/clicks.yaml",
            RECIPE.format(url=store.url, schema="null").replace("schema: null\n", "").encode(),
        )
        store.objects.put("recipes/old.yaml", OLD_RECIPE.format(url=store.url).encode())
        yield store


@pytest.fixture(scope="module")
def converted(store: Store, tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, str]:
    """The store with the dataset ``out/clicks``, and the command's output.

    The base source was read in several ranges of one file.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "RANGE_BYTES", 16 << 10)
        patch.setattr(plan.cut_ranges, "__defaults__", (16 << 10,))
        patch.chdir(tmp_path_factory.mktemp("empty"))
        assert (
            run(store, f"convert {store.url}/recipes/clicks.yaml --output {store.url}/out/clicks")
            == 0
        )
        assert list(pathlib.Path().iterdir()) == []  # nothing of it was taken for a local path
    # Other tests write objects again.
    written[store.url] = store.objects.by_time("out/clicks/")
    return store, f"{store.url}/out/clicks"


def run(store: Store, command: str) -> int:
    """Runs our command line with a store's options, and returns its status."""
    return main_module.run([*command.split(), *store.options])


def test_a_dataset_is_complete_before_its_manifest_is_there(converted):
    """The manifest is the object that the commit writes last."""
    store, _ = converted
    assert written[store.url][-1] == "out/clicks/dataset.json"


def test_a_dataset_in_a_store_is_whole_and_nothing_else_is_left(converted):
    """A dataset in a store is complete, and nothing temporary is left.

    It has manifest, shards, report, schema, statistics and graph.
    """
    store, _ = converted
    names = store.objects.names("out/clicks/")
    manifest = json.loads(store.objects.get("out/clicks/dataset.json"))
    shards = {
        f"out/clicks/{shard['path']}"
        for split in manifest["splits"].values()
        for shard in split["shards"]
    }
    assert len(shards) == 6
    assert shards == {name for name in names if "/examples/" in name}
    assert manifest["counts"]["written"] == ROWS + 100
    assert {"out/clicks/report.html", "out/clicks/schema/schema.pbtxt"} <= set(names)
    assert "out/clicks/transform_graph/transform_fn/saved_model.pb" in names
    assert [name for name in names if "_temporary" in name] == []


def test_bytes_are_those_of_a_conversion_on_this_machine(converted, tmp_path):
    """A conversion on this machine gives the same shards."""
    store, _ = converted
    for name in store.objects.names("raw/"):
        (tmp_path / "raw").mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(store.objects.get(name))
    recipe = store.objects.get("recipes/clicks.yaml").decode().replace(store.url, str(tmp_path))
    (tmp_path / "clicks.yaml").write_text(recipe)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan.cut_ranges, "__defaults__", (16 << 10,))
        assert (
            main_module.run(
                [
                    "convert",
                    str(tmp_path / "clicks.yaml"),
                    "--output",
                    str(tmp_path / "out"),
                    "--quiet",
                ]
            )
            == 0
        )
    for shard in (tmp_path / "out" / "examples").rglob("*.gz"):
        assert (
            store.objects.get(f"out/clicks/{shard.relative_to(tmp_path / 'out').as_posix()}")
            == shard.read_bytes()
        )


def test_worker_processes_reach_the_store_as_we_do(store):
    """Worker processes get the address and the credentials of the store."""
    many = "--direct_num_workers=2 --direct_running_mode=multi_processing --quiet"
    output = f"{store.url}/out/processes"
    assert run(store, f"convert {store.url}/raw/part-0.csv --output {output} {many}") == 0
    assert run(store, f"verify {output}") == 0


def test_commands_read_a_dataset_in_a_store(converted, capsys):
    """Verify, inspect and schema infer take its URL."""
    store, dataset = converted
    assert run(store, f"verify {dataset}") == 0
    assert f"6 shards with {ROWS + 100:,} rows" in capsys.readouterr().out
    assert run(store, f"inspect {dataset} -n 1") == 0
    assert "example 0\n" in capsys.readouterr().out
    assert run(store, f"schema infer {dataset} --output {store.url}/schemas/clicks.pbtxt") == 0
    assert 'name: "city"' in store.objects.get("schemas/clicks.pbtxt").decode()


def test_verify_finds_a_damaged_shard_in_a_store(converted, capsys):
    """A byte that was changed in a store is found there."""
    store, dataset = converted
    name = next(
        name for name in store.objects.names("out/clicks/examples/") if "Split-eval" in name
    )
    whole = store.objects.get(name)
    store.objects.put(name, whole[:-1] + bytes([whole[-1] ^ 1]))
    assert run(store, f"verify {dataset}") == 1
    store.objects.put(name, whole)
    assert name.split("/")[-1] in capsys.readouterr().err


def test_describe_and_validate_write_to_a_store(converted, capsys):
    """Describe leaves a description there, and validate takes a schema from there."""
    store, _ = converted
    recipe = f"{store.url}/recipes/clicks.yaml"
    assert run(store, f"describe {recipe} --output {store.url}/out/description --quiet") == 0
    assert "out/description/description.json" in store.objects.names("out/description/")
    assert [name for name in store.objects.names("out/description/") if "_temporary" in name] == []
    run(
        store,
        f"schema infer {store.url}/out/description --output {store.url}/schemas/all.pbtxt --overwrite",
    )
    assert run(store, f"validate {recipe} --schema {store.url}/schemas/all.pbtxt") == 0


def test_transform_converts_new_data_in_a_store(converted):
    """``transform`` encodes new data by a graph in the store."""
    store, dataset = converted
    target = f"{store.url}/out/new"
    assert (
        run(store, f"transform {dataset} {store.url}/raw/extra.csv.gz --output {target} --quiet")
        == 0
    )
    assert json.loads(store.objects.get("out/new/dataset.json"))["counts"]["written"] == 100
    assert run(store, f"verify {target}") == 0


def test_a_dataset_is_replaced_only_when_told_to(store, capsys):
    """A second conversion is refused; --overwrite replaces the first one whole."""
    target = f"{store.url}/out/twice"
    assert run(store, f"convert {store.url}/recipes/old.yaml --output {target} --quiet") == 0
    assert run(store, f"convert {store.url}/raw/part-0.csv --output {target} --quiet") == 2
    assert "there is a dataset already" in capsys.readouterr().err
    assert (
        run(store, f"convert {store.url}/raw/part-0.csv --output {target} --quiet --overwrite") == 0
    )
    assert not [name for name in store.objects.names("out/twice/examples/") if "old-" in name]
    assert run(store, f"verify {target}") == 0
