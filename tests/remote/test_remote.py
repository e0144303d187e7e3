"""Datasets in object stores, from the command line.

Sources and shards are on local servers of S3's and Google's kind.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from moto.s3.models import s3_backends

import beam_pipelines as bp
from beam_pipelines.cli import main as main_module
from beam_pipelines.core.errors import DataError
from beam_pipelines.sources import plan
from beam_pipelines.storage import file_changes, files
from tests.support.remote_stores import KEY, SECRET, Store, google_store, s3_store

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
            beam_pipelines(
                store,
                "convert",
                f"{store.url}/recipes/clicks.yaml",
                "--output",
                f"{store.url}/out/clicks",
            )
            == 0
        )
        assert list(pathlib.Path().iterdir()) == []  # nothing of it was taken for a local path
    return store, f"{store.url}/out/clicks"


def beam_pipelines(store: Store, *arguments: str) -> int:
    """Runs our command line with a store's options, and returns its status."""
    return main_module.run([*arguments, *store.options])


def test_a_dataset_is_complete_before_its_manifest_is_there(converted):
    """The manifest is the object that the commit writes last."""
    store, _ = converted
    assert store.objects.by_time("out/clicks/")[-1] == "out/clicks/dataset.json"


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
    many = ["--direct_num_workers=2", "--direct_running_mode=multi_processing", "--quiet"]
    output = f"{store.url}/out/processes"
    assert (
        beam_pipelines(store, "convert", f"{store.url}/raw/part-0.csv", "--output", output, *many)
        == 0
    )
    assert beam_pipelines(store, "verify", output) == 0


def test_commands_read_a_dataset_in_a_store(converted, capsys):
    """Verify, inspect and schema infer take its URL."""
    store, dataset = converted
    assert beam_pipelines(store, "verify", dataset) == 0
    assert f"6 shards with {ROWS + 100:,} rows" in capsys.readouterr().out
    assert beam_pipelines(store, "inspect", dataset, "-n", "1") == 0
    assert "example 0\n" in capsys.readouterr().out
    assert (
        beam_pipelines(
            store, "schema", "infer", dataset, "--output", f"{store.url}/schemas/clicks.pbtxt"
        )
        == 0
    )
    assert 'name: "city"' in store.objects.get("schemas/clicks.pbtxt").decode()


def test_verify_finds_a_damaged_shard_in_a_store(converted, capsys):
    """A byte that was changed in a store is found there."""
    store, dataset = converted
    name = next(
        name for name in store.objects.names("out/clicks/examples/") if "Split-eval" in name
    )
    whole = store.objects.get(name)
    store.objects.put(name, whole[:-1] + bytes([whole[-1] ^ 1]))
    assert beam_pipelines(store, "verify", dataset) == 1
    store.objects.put(name, whole)
    assert name.split("/")[-1] in capsys.readouterr().err


def test_describe_and_validate_write_to_a_store(converted, capsys):
    """Describe leaves a description there, and validate takes a schema from there."""
    store, _ = converted
    recipe = f"{store.url}/recipes/clicks.yaml"
    assert (
        beam_pipelines(
            store, "describe", recipe, "--output", f"{store.url}/out/description", "--quiet"
        )
        == 0
    )
    assert "out/description/description.json" in store.objects.names("out/description/")
    assert [name for name in store.objects.names("out/description/") if "_temporary" in name] == []
    beam_pipelines(
        store,
        "schema",
        "infer",
        f"{store.url}/out/description",
        "--output",
        f"{store.url}/schemas/all.pbtxt",
        "--overwrite",
    )
    assert (
        beam_pipelines(store, "validate", recipe, "--schema", f"{store.url}/schemas/all.pbtxt") == 0
    )


def test_transform_converts_new_data_in_a_store(converted):
    """``transform`` encodes new data by a graph in the store."""
    store, dataset = converted
    target = f"{store.url}/out/new"
    assert (
        beam_pipelines(
            store,
            "transform",
            dataset,
            f"{store.url}/raw/extra.csv.gz",
            "--output",
            target,
            "--quiet",
        )
        == 0
    )
    assert json.loads(store.objects.get("out/new/dataset.json"))["counts"]["written"] == 100
    assert beam_pipelines(store, "verify", target) == 0


def test_a_dataset_is_replaced_only_when_told_to(store, capsys):
    """A second conversion is refused; --overwrite replaces the first one whole."""
    target = f"{store.url}/out/twice"
    assert (
        beam_pipelines(
            store, "convert", f"{store.url}/recipes/old.yaml", "--output", target, "--quiet"
        )
        == 0
    )
    assert (
        beam_pipelines(
            store, "convert", f"{store.url}/raw/part-0.csv", "--output", target, "--quiet"
        )
        == 2
    )
    assert "there is a dataset already" in capsys.readouterr().err
    assert (
        beam_pipelines(
            store,
            "convert",
            f"{store.url}/raw/part-0.csv",
            "--output",
            target,
            "--quiet",
            "--overwrite",
        )
        == 0
    )
    assert not [name for name in store.objects.names("out/twice/examples/") if "old-" in name]
    assert beam_pipelines(store, "verify", target) == 0


def test_new_files_in_a_store_are_appended(store, capsys):
    """A second run converts only the new file.

    It writes the manifest last. A third run finds nothing new.
    """
    recipe = f"name: days\nappend: true\nsources: {{days: '{store.url}/days/*.csv'}}\n"
    store.objects.put("recipes/days.yaml", recipe.encode())
    arguments = ("convert", f"{store.url}/recipes/days.yaml", "--output", f"{store.url}/out/days")
    store.objects.put("days/1.csv", rows(0, 300))
    assert beam_pipelines(store, *arguments, "--quiet") == 0
    before = {name: store.objects.get(name) for name in store.objects.names("out/days/examples/")}
    store.objects.put("days/2.csv", rows(300, 350))
    assert beam_pipelines(store, *arguments, "--quiet") == 0
    assert store.objects.by_time("out/days/")[-1] == "out/days/dataset.json"
    assert [name for name in store.objects.names("out/days/") if "_temporary" in name] == []
    manifest = json.loads(store.objects.get("out/days/dataset.json"))
    assert [generation["counts"]["written"] for generation in manifest["generations"]] == [300, 50]
    assert {name: store.objects.get(name) for name in before} == before
    assert beam_pipelines(store, "verify", f"{store.url}/out/days") == 0
    assert beam_pipelines(store, *arguments) == 0
    assert "found no new file of 'days'" in capsys.readouterr().out


def test_a_failed_run_leaves_nothing_behind(store, capsys):
    """A failed run leaves no new files and no changed ones.

    A cell that does not fit fails the run. The folder is new or holds an earlier dataset.
    """
    store.objects.put("bad/bad.csv", b"n\n" + b"1\n" * 5_000 + b"one\n")
    recipe = (
        f"name: bad\nsources: {{bad: {{path: '{store.url}/bad/bad.csv', types: {{n: int64}}}}}}\n"
    )
    store.objects.put("recipes/bad.yaml", recipe.encode())
    bad = f"{store.url}/recipes/bad.yaml"
    assert (
        beam_pipelines(store, "convert", bad, "--output", f"{store.url}/out/failed", "--quiet") == 1
    )
    assert store.objects.names("out/failed") == []
    assert (
        beam_pipelines(
            store,
            "convert",
            f"{store.url}/recipes/old.yaml",
            "--output",
            f"{store.url}/out/kept",
            "--quiet",
        )
        == 0
    )
    before = {name: store.objects.get(name) for name in store.objects.names("out/kept/")}
    assert (
        beam_pipelines(
            store, "convert", bad, "--output", f"{store.url}/out/kept", "--overwrite", "--quiet"
        )
        == 1
    )
    assert {name: store.objects.get(name) for name in store.objects.names("out/kept/")} == before
    assert "bad.csv" in capsys.readouterr().err


def test_an_output_with_other_things_in_it_is_refused(store, capsys):
    """An output with foreign objects at any depth is refused."""
    store.objects.put("strange/deep/er/file.txt", b"mine")
    assert (
        beam_pipelines(
            store, "convert", f"{store.url}/raw/part-0.csv", "--output", f"{store.url}/strange"
        )
        == 2
    )
    assert "strange/deep/er/file.txt" in capsys.readouterr().err
    assert store.objects.names("strange/") == ["strange/deep/er/file.txt"]


@pytest.mark.parametrize("name", ["gone/clicks.csv", "gone/*.csv"])
def test_a_source_that_is_not_there_is_named(store, capsys, name):
    """A path without a file is an error with the path."""
    assert beam_pipelines(store, "convert", f"{store.url}/{name}", "--dry_run") == 2
    assert f"{store.url}/{name}" in capsys.readouterr().err


def test_a_bucket_that_is_not_there_is_named(store, capsys):
    """A missing bucket gives an error with the path, and no traceback."""
    target = store.url.replace("store", "nobodys") + "/out"
    assert beam_pipelines(
        store, "convert", f"{store.url}/raw/part-0.csv", "--output", target, "--quiet"
    ) in (1, 2)
    found = capsys.readouterr().err
    assert "nobodys" in found
    assert "Traceback" not in found


def test_deleting_spares_namesakes(store):
    """Deleting a folder leaves objects whose names only begin like it.

    It takes brackets and stars literally.
    """
    for name in ("a/x", "a/b/y", "ab/z", "a[1]/x", "a*/x"):
        store.objects.put(f"delete/{name}", b"1")
    files.use_options(store.options)
    file_changes.delete(f"{store.url}/delete/a")
    assert sorted(store.objects.names("delete/")) == ["delete/a*/x", "delete/a[1]/x", "delete/ab/z"]
    file_changes.delete(f"{store.url}/delete/a*")
    file_changes.delete(f"{store.url}/delete/a[1]")
    assert sorted(store.objects.names("delete/")) == ["delete/ab/z"]
    file_changes.delete(f"{store.url}/delete/gone")


def test_renaming_replaces_and_may_be_repeated(store):
    """Renaming replaces the target and may be repeated.

    A repetition leaves the results of an earlier attempt alone.
    """
    names = [f"{number}[x].txt" for number in range(120)]
    for name in names:
        store.objects.put(f"rename/from/{name}", name.encode())
    store.objects.put("rename/to/0[x].txt", b"old")
    files.use_options(store.options)
    pairs = [(f"{store.url}/rename/from/{name}", f"{store.url}/rename/to/{name}") for name in names]
    file_changes.rename(pairs[:10])
    file_changes.rename(pairs)
    assert store.objects.names("rename/from/") == []
    assert sorted(store.objects.names("rename/to/")) == sorted(
        f"rename/to/{name}" for name in names
    )
    assert store.objects.get("rename/to/0[x].txt") == b"0[x].txt"


def test_what_fails_while_it_is_written_does_not_appear(store):
    """An object appears only when its writer is done.

    A failing writer leaves the earlier object.
    """
    path = f"{store.url}/replace/object"
    store.objects.put("replace/object", b"before")
    files.use_options(store.options)
    with contextlib.suppress(ZeroDivisionError), files.replace(path) as file:
        file.write(b"half" * (3 << 20))
        raise ZeroDivisionError
    assert store.objects.get("replace/object") == b"before"
    with files.replace(path) as file:
        file.write(b"whole" * (3 << 20))
    assert store.objects.get("replace/object") == b"whole" * (3 << 20)


def test_a_long_prefix_is_listed_whole():
    """A listing continues after its first page of a thousand; deletion, too."""
    with s3_store() as store:
        backend = s3_backends["123456789012"]["aws"]
        for number in range(2_500):
            backend.put_object("store", f"many/{number:04}.csv", b"1")
        files.use_options(store.options)
        assert len(files.list_files(f"{store.url}/many/*.csv")) == 2_500
        file_changes.delete(f"{store.url}/many")
        assert store.objects.names("many/") == []


def test_secrets_are_never_told(tmp_path):
    """Neither a dataset nor a failed run shows the credentials.

    This includes all its logs.
    """
    with s3_store() as store:
        store.objects.put("raw/a.csv", b"n\n1\n2\n")
        store.objects.put("raw/bad.csv", b"n\n1\n\x00,,,\n")
        flags = [
            *store.options,
            f"--s3_access_key_id={KEY}",
            f"--s3_secret_access_key={SECRET}",
            "--verbose",
        ]
        told = ""
        for source, target, status in (
            ("a.csv", "ok", 0),
            ("bad.csv", "failed", 1),
            ("gone.csv", "gone", 2),
        ):
            command = [
                sys.executable,
                "-m",
                "beam_pipelines",
                "convert",
                f"s3://store/raw/{source}",
                "--output",
                f"s3://store/{target}",
                *flags,
            ]
            run = subprocess.run(command, capture_output=True, text=True)
            assert run.returncode == status, run.stderr
            told += run.stdout + run.stderr
        told += "".join(
            store.objects.get(name).decode(errors="replace") for name in store.objects.names("ok/")
        )
        assert SECRET not in told
        assert "dataset.json" in str(store.objects.names("ok/"))


def test_a_dataset_where_tensorflow_cannot_read_is_refused():
    """A dataset that TensorFlow cannot read is refused with advice."""
    with pytest.raises(DataError, match="Copy the dataset to this machine"):
        bp.load("s3://store/out/clicks")


def test_a_function_of_tensorflow_needs_an_output_that_tensorflow_knows(tmp_path, capsys):
    """A recipe with a preprocessing_fn needs an output that TensorFlow can write.

    It is refused before anything is read.
    """
    (tmp_path / "function.py").write_text(
        "def preprocessing_fn(inputs):\n    return {'n': inputs['n']}\n"
    )
    (tmp_path / "a.csv").write_text("n\n1\n2\n")
    (tmp_path / "r.yaml").write_text(
        "name: a\nsources: {a: {path: a.csv}}\npreprocessing_fn: function.py\n"
    )
    with s3_store() as store:
        assert (
            beam_pipelines(
                store,
                "convert",
                str(tmp_path / "r.yaml"),
                "--output",
                "s3://store/out/f",
                "--quiet",
            )
            == 2
        )
        assert store.objects.names("out/f/") == []
    assert "cannot write to s3://" in capsys.readouterr().err


def test_an_endpoint_where_nobody_answers_is_named_at_once(capsys):
    """A wrong address is an error before Beam begins its retries."""
    assert (
        main_module.run(["verify", "s3://store/out", "--s3_endpoint_url=http://127.0.0.1:9"]) == 2
    )
    assert "found no server there" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--runner=DataflowRunner", "--direct_num_workers=2"])
def test_commands_without_a_job_refuse_options_of_jobs(capsys, flag):
    """Verify takes Beam's options for files, and no others."""
    assert main_module.run(["verify", "out", flag]) == 2
    assert "neither an option of this command nor of Beam's for files" in capsys.readouterr().err
