"""Passwords, tokens and environment variables reach no output.

The tests search everything that successful and failed runs write and print.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms.display import DisplayData

import beam_pipelines as bp
from beam_pipelines.adapters.source import ReaderSource
from beam_pipelines.cli import main as main_module
from beam_pipelines.core import errors
from beam_pipelines.core.errors import DataError, RecipeError, RecipeProblems, keep_secret, mask
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.recipe.normal_form import normalised, recipe_hash
from beam_pipelines_plugins.schemas.recipe_schema import recipe_schema
from tests.reader.datasets import write_records
from tests.reader.indexed import finish
from tests.support import sealed_store
from tests.support.sealed_store import PASSWORD, TOKEN, url
from tests.support.small_dataset import write_dataset
from tests.support.web_server import served
from tests.support.wire import example

SECRETS = (PASSWORD, TOKEN, "sentinel-key-77b2", "sentinel-environment-90c4")
ENVIRONMENT = {
    "AWS_SECRET_ACCESS_KEY": "sentinel-environment-90c4",
    "AWS_ACCESS_KEY_ID": "sentinel-environment-90c4",
    "AWS_SESSION_TOKEN": "sentinel-environment-90c4",
    "SENTINEL": "sentinel-environment-90c4",
}


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder behind the sealed storage, which is not the current folder.

    The environment holds secrets.
    """
    level, hook, known = logging.getLogger().level, threading.excepthook, set(errors._known)
    handlers = list(logging.getLogger().handlers)
    behind = tmp_path / "behind"
    behind.mkdir()
    monkeypatch.setattr(sealed_store, "folder", str(behind))
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    yield behind
    logging.getLogger().setLevel(level)
    logging.getLogger().handlers[:] = handlers
    threading.excepthook = hook
    errors._known.clear()
    errors._known.update(known)


def leaks(folder: Path) -> list[str]:
    """Returns the files in a folder that contain a secret.

    It checks contents, also of compressed files, and names.
    """
    found = []
    for path in sorted(folder.rglob("*")):
        data = path.read_bytes() if path.is_file() else b""
        if path.suffix == ".gz":
            import gzip

            data = gzip.decompress(data)
        if path.suffix == ".arrow":
            import pyarrow as pa

            data = repr(pa.ipc.open_file(io.BytesIO(data)).read_all().to_pylist()).encode()
        found += [
            f"{path}: {secret}"
            for secret in SECRETS
            if secret.encode() in data or secret in str(path)
        ]
    return found


def recipe(text: str) -> str:
    Path("recipe.yaml").write_text(f"name: t\n{text}\n")
    return "recipe.yaml"


def check_silent(capsys: pytest.CaptureFixture[str], *expected: str) -> str:
    """Checks that nothing printed or written has a secret.

    Returns:
      The printed text.
    """
    captured = capsys.readouterr()
    printed = captured.out + captured.err
    assert [secret for secret in SECRETS if secret in printed] == [], printed
    os.unlink("recipe.yaml")  # the user's own, in which they stand
    assert leaks(Path.cwd()) == []
    for text in expected:
        assert text in printed
    return printed


def test_the_store_opens_nothing_without_its_password() -> None:
    """The store opens nothing without its password.

    The tests below rely on this: a masked URL would not have been read.
    """
    assert sealed_store.is_known()
    with pytest.raises(PermissionError):
        sealed_store.SealedFileSystem(None)._local(mask(url("a.csv")))


@pytest.mark.parametrize("more", [(), ("--verbose",)])
def test_a_run_that_succeeds(store, capsys, more):
    """A run's output shows URLs without user, password and token.

    The output is manifest, report, statistics, rejected rows, log and plan.
    """
    (store / "a.csv").write_text(
        "a,b\n" + "".join(f"{number},x\n" for number in range(200)) + "oops,y\n"
    )
    (store / "schema.pbtxt").write_text(
        'feature { name: "a" type: INT }\nfeature { name: "b" type: BYTES }\n'
    )
    path = recipe(
        f"sources:\n  t: {{path: '{url('a.csv')}', format: csv, types: {{a: int64}}}}\nschema: "
        f"'{url('schema.pbtxt')}'\n"
        "on_error: {reject: 10%}\nlabel: a"
    )
    assert main_module.run(["convert", path, "--output", "out", *more]) == 0
    manifest = json.loads(Path("out/dataset.json").read_text())
    assert manifest["sources"]["t"]["files"][0]["path"] == "sealed://***@host/a.csv?token=***"
    assert manifest["recipe"]["sources"]["t"]["path"] == ["sealed://***@host/a.csv?token=***"]
    assert manifest["recipe"]["schema"] == "sealed://***@host/schema.pbtxt?token=***"
    rejected = [
        json.loads(line) for line in next(Path("out/rejected").iterdir()).read_text().splitlines()
    ]
    assert [row["file"] for row in rejected] == ["sealed://***@host/a.csv?token=***"]
    check_silent(capsys)


@pytest.mark.parametrize("command", ["convert --dry_run", "plan", "describe --quiet"])
def test_plans_and_descriptions(store, capsys, command):
    """A printed plan names the files without their credentials."""
    (store / "a.csv").write_text("a,b\n" + "1,x\n" * 50)
    path = recipe(f"sources: {{t: {{path: '{url('a.csv')}', format: csv}}}}")
    assert main_module.run([*command.split(), path]) == 0
    check_silent(
        capsys, *([] if command.startswith("describe") else ["sealed://***@host/a.csv?token=***"])
    )


FAILURES = {
    "no such file": ("sources: {t: {path: 'URL/nothing.csv', format: csv}}", 2),
    "bad row": ("sources: {t: {path: 'URL/bad.csv', format: csv, types: {a: int64}}}", 1),
    "damaged": ("sources: {t: {path: 'URL/damaged.csv.gz', format: csv, compression: gzip}}", 1),
    "damaged Parquet": ("sources: {t: {path: 'URL/damaged.parquet', format: parquet}}", 1),
    "line too long": ("sources: {t: {path: 'URL/good.csv', format: csv}}\nlimits: {columns: 1}", 1),
    "filter": ("sources: {t: {path: 'URL/good.csv', format: csv}}\nfilter: CAST(b AS INTEGER) > 1", 1),
    "unknown column": ("sources: {t: {path: 'URL/good.csv', format: csv}}\nlabel: nothing", 2),
    "schema": ("sources: {t: {path: 'URL/good.csv', format: csv}}\nschema: 'URL/nothing.pbtxt'", 2),
    "anomaly": ("sources: {t: {path: 'URL/good.csv', format: csv}}\nschema: 'URL/other.pbtxt'", 1),
    "module": ("sources: {t: {path: 'URL/good.csv', format: csv}}\npreprocessing_fn: 'URL/nothing.py'", 2),
    "twice": ("sources: {t: {path: ['URL/good.csv', 'URL/good.csv'], format: csv}}", 2),
    "unknown storage": ("sources: {t: 'vault://user:PASSWORD@host/a.csv?access_key=TOKEN'}", 1),
    "endpoint": ("sources: {t: 's3://key:PASSWORD@bucket/a.csv'}", 2),
    "exceptions of the storage": ("sources: {t: 'sealed://other:PASSWORD@host/a.csv?token=TOKEN'}", 1),
    "variables": ("sources: {t: 'data/$SENTINEL/${SENTINEL}/~/%SENTINEL%.csv'}", 2),
    "YAML": ("sources: {t: 'URL/good.csv'", 2),
    "root": ("sources: {t: {path: 'URL/good.csv', format: csv}}", 2),
}  # fmt: skip


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("case", FAILURES)
def test_runs_that_fail(store, capsys, case, verbose):
    """A failure has its usual message without the secret.

    This includes tracebacks and Beam's log.
    """
    (store / "good.csv").write_text("a,b\n1,x\n2,y\n")
    (store / "bad.csv").write_text("a,b\n1,x\nz,y\n")
    (store / "damaged.csv.gz").write_bytes(b"\x1f\x8bnothing")
    (store / "damaged.parquet").write_bytes(b"PAR1nothing")
    (store / "other.pbtxt").write_text('feature { name: "a" type: BYTES }\n')
    text, status = FAILURES[case]
    start, end = url("").split("?")
    text = (
        re.sub(r"URL/([\w.]+)", rf"{start}\1?{end}", text)
        .replace("PASSWORD", PASSWORD)
        .replace("TOKEN", TOKEN)
    )
    arguments = ["convert", recipe(text), "--output", "out", "--verbose" if verbose else "--quiet"]
    if case == "root":
        arguments += ["--input_root", "."]
    if case == "endpoint":
        arguments += ["--s3_endpoint_url", f"http://user:{PASSWORD}@127.0.0.1:9"]
    found = main_module.run(arguments)
    printed = check_silent(capsys, "error: ")
    assert found in (1, 2), printed
    assert found == status, printed
    if not verbose:
        assert "Traceback" not in printed


def test_options_that_are_secret(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The key of a storage is hidden in errors of other libraries.

    It is hidden also where it stands alone.
    """
    key = "sentinel-key-77b2"
    Path("a.csv").write_text("a\n1\n")
    path = recipe(f"sources: {{t: a.csv}}\nfilter: a = '{key}'")
    options = [f"--s3_secret_access_key={key}", "--s3_access_key_id=me", "--s3_session_token", key]
    assert main_module.run(["convert", path, "--output", "out", "--quiet", *options]) in (1, 2)
    printed = capsys.readouterr().err
    assert key not in printed
    assert "error: " in printed
    assert (
        main_module.run(["convert", "a.csv", "--output", "out", f"--s3_secret_acces_key={key}"])
        == 2
    )
    assert key not in capsys.readouterr().err
    Path("recipe.yaml").write_text("name: t\nsources: {t: a.csv}\n")
    assert main_module.run(["convert", path, "--output", "out2", "--verbose", *options]) == 0
    check_silent(capsys)


def test_a_process_of_its_own(store: Path) -> None:
    """A command in its own process prints no secret.

    It has worker processes and Beam's whole log. Secrets are in the environment and in its options.
    """
    Path("a.csv").write_text("a,b\n" + "1,x\n" * 1000)
    key = "sentinel-key-77b2"
    options = f"--s3_secret_access_key={key} --direct_num_workers=2"
    options += " --direct_running_mode=multi_processing --verbose"
    line = f"-m beam_pipelines convert a.csv --output out {options}"
    command = [sys.executable, *line.split()]
    root = str(Path(errors.__file__).parents[2])
    done = subprocess.run(
        command, capture_output=True, timeout=1200, env={**os.environ, "PYTHONPATH": root}
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert [secret for secret in SECRETS if secret.encode() in done.stdout + done.stderr] == []
    assert leaks(Path("out")) == []


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("s3://KEY:SECRET@bucket/x.csv", "s3://***@bucket/x.csv"),
        ("s3://KEY:SE/CR/ET@bucket/x.csv", "s3://***@bucket/x.csv"),
        ("https://user:p@ss@host/x", "https://***@host/x"),
        ("https://TOKEN@host/x and gs://a/b", "https://***@host/x and gs://a/b"),
        ("sealed://h/x.csv?token=abc&y=2", "sealed://h/x.csv?token=***&y=***"),
        (
            "https://h/x?X-Amz-Signature=ab&X-Amz-Credential=c",
            "https://h/x?X-Amz-Signature=***&X-Amz-Credential=***",
        ),
        ("https://h/x?sig=abc", "https://h/x?sig=***"),
        ("--s3_secret_access_key=abc --foo", "--s3_secret_access_key=*** --foo"),
        ("--s3_secret_access_key abc --foo", "--s3_secret_access_key *** --foo"),
        ("['--s3_session_token', 'abc', 'd']", "['--s3_session_token', '***', 'd']"),
        ("{'s3_secret_access_key': 'abc', 'x': 'y'}", "{'s3_secret_access_key': '***', 'x': 'y'}"),
    ],
)
def test_masked(text: str, masked: str) -> None:
    """Credentials are masked, the paths that they open are not.

    Errors are masked on creation, and masking twice changes nothing.
    """
    assert mask(text) == masked
    assert mask(masked) == masked
    assert str(DataError(text)) == masked


@pytest.mark.parametrize(
    "text",
    [
        "hdfs://namenode:8020/data/file@2020.csv",
        "gs://bucket/a@b.csv",
        "data/key=4/token=5/x.parquet",
        "mail bob@example.com about http://x.y/z",
        "found 'token', expected one of ['token', 'label', 'password_age']",
        "--max_tokens 5 --tokenizer words",
        "data/part-?.csv",
    ],
)
def test_left_alone(text: str) -> None:
    """Ports, names with @, partitions, columns and tokens are not masked."""
    assert mask(text) == text


def test_short_values_are_no_secrets() -> None:
    """A key of a few letters would be hidden in every word."""
    keep_secret("a")
    keep_secret("")
    assert mask("a banana") == "a banana"


def test_a_recipe_keeps_what_is_no_path() -> None:
    """Only the paths of a manifest's recipe are masked.

    Expressions stay unchanged, and a new password gives the same recipe.
    """
    text = (
        "name: t\nsources: {t: {path: 's3://k:PASS@b/a.csv'}}\nderive: {u: \"'http://me:you@' "
        '|| h"}\n'
    )
    first, second = (parse_recipe(text.replace("PASS", word), "r.yaml") for word in ("one", "two"))
    assert normalised(first)["derive"] == {"u": "'http://me:you@' || h"}
    assert normalised(first)["sources"]["t"]["path"] == ["s3://***@b/a.csv"]
    assert recipe_hash(first) == recipe_hash(second)
    assert first.sources["t"].path == ("s3://k:one@b/a.csv",)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://h/d?k=v", "http://h/d?k=***"),
        ("http://h/d?SECRETVALUE", "http://h/d?***"),
        ("https://u:p@h/d?a=1&b=2;c=3#d=4", "https://***@h/d?a=***&b=***;c=***#d=***"),
        ("https://h/d?a=1&sp=rl&sv=2: not there", "https://h/d?a=***&sp=***&sv=***: not there"),
        ("https://h/d?u=http://x/?k=v", "https://h/d?u=***"),
        ("postgresql://h/db?sslcert=/x/y", "postgresql://h/db?sslcert=***"),
        ("s3://b/part-?.csv", "s3://b/part-?.csv"),
        ("s3://b/?/day=1/a.csv", "s3://b/?/day=1/a.csv"),
        (f"s3://b/x?{'n' * 300}={'v' * 9000}&k=v", f"s3://b/x?{'n' * 300}=***&k=***"),
        ("part-?.csv and a=b", "part-?.csv and a=b"),
    ],
)
def test_values_of_queries(text: str, shown: str) -> None:
    """Names of a query's parameters are shown.

    No value of any name.
    """
    assert mask(text) == shown
    assert mask(shown) == shown


def test_public_objects_of_a_recipe(store: Path) -> None:
    """Recipes, sources and plans do not show the secrets of paths."""
    (store / "a.csv").write_text("a,b\n1,x\n2,y\n")
    (store / "schema.pbtxt").write_text('feature { name: "a" type: INT }\n')
    text = (
        f"name: t\nsources: {{t: {{path: '{url('a.csv')}', format: csv, columns: [a]}}}}\n"
        f"schema: '{url('schema.pbtxt')}'\n"
    )
    found = parse_recipe(text, "r.yaml")
    shown = {"recipe": repr(found), "source": str(found.sources["t"]), "plan": repr(bp.plan(found))}
    for name, each in shown.items():
        assert [secret for secret in SECRETS if secret in each] == [], name
        assert "sealed://***@host/a.csv" in each, name


def test_labels_of_steps(store, capsys, monkeypatch):
    """Labels and display data of Beam's steps have no secret."""
    (store / "a.csv").write_text("a,b\n" + "1,x\n" * 50)
    found: list[str] = []
    apply = beam.Pipeline.apply

    def noting(self: beam.Pipeline, transform: Any, *given: Any) -> Any:
        found.append(f"{given} {transform!r} {getattr(transform, 'label', '')}")
        if isinstance(transform, beam.PTransform):
            items = DisplayData.create_from(transform).items
            found.extend(str(item.get_dict()) for item in items)
        return apply(self, transform, *given)

    monkeypatch.setattr(beam.Pipeline, "apply", noting)
    path = recipe(
        f"sources: {{t: {{path: '{url('a.csv')}', format: csv}}}}\nencode: {{a: z_score}}"
    )
    assert main_module.run(["convert", path, "--output", "out", "--quiet"]) == 0
    check_silent(capsys)
    assert len(found) > 20
    assert [text for text in found if any(secret in text for secret in SECRETS)] == []


def test_names_of_cached_files(tmp_path: Path) -> None:
    """A cache keeps nothing of a URL's user part or query."""
    folder = finish(write_dataset(tmp_path / "data", [30]))
    with served(Path(folder)) as web:
        address = web.url.replace("://", f"://alice:{PASSWORD}@")
        dataset = bp.open(address, cache=tmp_path / "cache")
        assert sum(len(batch["id"]) for batch in dataset.batches(batch_size=8)) == 30
        assert list((tmp_path / "cache").rglob("*@*"))
        assert PASSWORD not in repr(dataset)
        assert leaks(tmp_path / "cache") == []
        with pytest.raises(DataError) as error:
            bp.open(f"{address}/none?signature={TOKEN}")
    assert [secret for secret in SECRETS if secret in str(error.value)] == []


def test_public_objects_of_a_url(tmp_path: Path) -> None:
    """No public object of a dataset shows the secrets of its URL."""
    folder = tmp_path / "dataset"
    folder.mkdir()
    schema = (
        'feature { name: "a" type: INT presence { min_fraction: 1 } shape { dim { size: 1 } } }'
    )
    rows = [example({"a": ("int64", [number])}) for number in range(8)]
    dataset = bp.open(write_records(folder, schema, rows, name="t"))
    source = ReaderSource(dataset, None, {"batch_size": 4})
    # Text that is shown, and whether it takes the URL from the folder's reader.
    texts: dict[str, tuple[Callable[[], str], bool]] = {
        "dataset": (lambda: repr(dataset), False),
        "source": (lambda: repr(source), False),
        "folder": (lambda: repr(dataset._first.files), True),
        "split": (lambda: _error(lambda: dataset.batches("nothing")), False),
        "column": (lambda: _error(lambda: dataset.batches(columns=["nothing"])), False),
    }
    first = dataset._first
    for secret in ("http://alice:Hidden@host/ds", "https://host/ds?any=Hidden&more=Hidden"):
        dataset.folder = secret
        for name, (show, is_of_files) in texts.items():
            dataset._first = first
            if is_of_files:
                dataset._first = first._replace(files=first.files._replace(path=secret))
            dataset._all = [dataset._first]
            text = show()
            assert "Hidden" not in text, (name, text)
            assert "***" in text, (name, text)


def _error(call: Callable[[], object]) -> str:
    with pytest.raises((ValueError, DataError)) as found:
        call()
    return str(found.value)


SECRET_URL = f"http://alice:{PASSWORD}@127.0.0.1:9/x.csv?any={TOKEN}"
# Keys that take a path without a description that begins so.
MORE_PATHS = {
    ("sources", "t"),
    ("sources", "t", 0),
    ("split", "t", "files"),
    ("protect", "t", "keyed_hash"),
}


def texts_of(
    schema: dict[str, Any], place: tuple[str | int, ...] = (), help_: str = ""
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yields the places of a recipe that take texts, described."""
    help_ = schema.get("description", help_)
    if "string" in schema.get("type", ()) and not {"pattern", "enum", "maxLength"} & set(schema):
        yield place, help_
    for option in schema.get("anyOf", ()):
        yield from texts_of(option, place, help_)
    if "items" in schema:
        yield from texts_of(schema["items"], (*place, 0), help_)
    for name, value in schema.get("properties", {}).items():
        yield from texts_of(value, (*place, name), help_)
    if isinstance(schema.get("additionalProperties"), dict):
        yield from texts_of(schema["additionalProperties"], (*place, "t"), help_)


def with_secret(place: tuple[str | int, ...]) -> str:
    """Returns a recipe that has the URL at one place."""
    inner: Any = SECRET_URL
    for key in reversed(place[1:]):
        inner = [inner] if key == 0 else {key: inner}
    key = place[2] if len(place) > 2 else ""
    own = {"table": {"url": "sqlite:///n.db"}, "query": {"url": "sqlite:///n.db"}, "url": {}}
    given: dict[str, Any] = {"name": "t", "label": "a", place[0]: inner}
    if place[0] != "sources":
        given["sources"] = {"t": "a.csv"}
    elif isinstance(inner["t"], dict):
        inner["t"] = own.get(str(key), {"path": "a.csv"}) | inner["t"]
    return json.dumps(given)


def test_a_secret_url_at_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    """No key of a recipe gives away its URL.

    Messages, tracebacks and ``repr`` hide it at each key that takes a text, the manifest's recipe
    and all that a run writes at each key that takes a path.
    """
    Path("a.csv").write_text("a,b\n" + "1,x\n" * 20)
    places = dict(texts_of(recipe_schema()))
    assert len(places) > 80
    assert set(places) > MORE_PATHS
    paths = 0
    for place, help_ in places.items():
        text = with_secret(place)
        is_path = place in MORE_PATHS or bool(re.search(r"\b(Path|URL|URI|Files?)\b", help_))
        commands = ["plan", "convert --output out --overwrite"] if is_path else ["plan"]
        for command in commands:
            Path("recipe.yaml").write_text(text)
            main_module.run([*command.split(), "recipe.yaml", "--verbose"])
            check_silent(capsys)
        found: Any = None
        with contextlib.suppress(RecipeProblems, RecipeError):
            found = parse_recipe(text, "recipe.yaml")
        if found is None:
            continue
        shown = repr(found) + (json.dumps(normalised(found)) if is_path else "")
        assert [secret for secret in SECRETS if secret in shown] == [], place
        paths += is_path
    assert paths >= 9
