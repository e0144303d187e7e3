"""Packages and credentials of object stores are looked for before a run."""

from __future__ import annotations

import importlib.util
import json
import re
import time
import urllib.request

import pytest

from beam_pipelines.cli import main as main_module
from beam_pipelines.core.errors import RecipeError
from beam_pipelines.storage import cloud_access


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """An environment without credentials; the machine's own are not asked for."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "STORAGE_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setattr(cloud_access, "_of_command", [])
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(urllib.request, "getproxies", dict)
    monkeypatch.setattr(cloud_access, "_connect", lambda _: True)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("s3://b/x.csv", "s3://b/x.csv: found no credentials for s3://"),
        ("gs://b/x.csv", "gs://b/x.csv: found no credentials for gs://"),
    ],
)
def test_no_credentials(path: str, message: str, no_credentials: None) -> None:
    """Missing credentials are an error that says where they are looked for."""
    with pytest.raises(RecipeError) as caught:
        cloud_access.check_paths(["a.csv", path])
    assert str(caught.value).startswith(message)


def test_credentials(monkeypatch: pytest.MonkeyPatch, no_credentials: None) -> None:
    """Credentials of the environment, options and emulators are access."""
    cloud_access.check_paths(["s3://b/x"], ["--s3_access_key_id=key"])
    cloud_access.check_paths(["gs://b/x"], ["--no_auth"])
    cloud_access.check_paths(["gs://b/y"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")
    cloud_access.check_paths(["s3://b/x", "gs://b/x"])
    assert cloud_access.s3_access().found == "credentials by env, region eu-west-1"


@pytest.mark.parametrize(
    ("path", "extra"),
    [
        ("s3://b/x", ".[s3]"),
        ("gs://b/x", "apache-beam[gcp]"),
    ],
)
def test_missing_package(path, extra, monkeypatch, no_credentials):
    """A missing package is named with its extra."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(RecipeError, match=re.escape(f"pip install '{extra}'")):
        cloud_access.check_paths([path])


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("gcs://b/x", "found gcs://, expected gs://"),
        ("s3a://b/x", "found s3a://, expected s3://"),
        ("abfss://c@a/x", "found abfss://, expected azfs://ACCOUNT/CONTAINER/…"),
    ],
)
def test_what_a_store_needs(path, message, monkeypatch, no_credentials):
    """Other names of a store are errors."""
    monkeypatch.setattr(cloud_access, "_is_installed", lambda _: True)
    with pytest.raises(RecipeError, match=re.escape(message)):
        cloud_access.check_paths([path])


@pytest.mark.parametrize(
    ("path", "variable", "options"),
    [
        ("s3://b/x", "AWS_ENDPOINT_URL", []),
        ("s3://b/x", "", ["--s3_access_key_id=k", "--s3_endpoint_url", "http://127.0.0.1:9"]),
        ("gs://b/x", "STORAGE_EMULATOR_HOST", []),
    ],
)
def test_servers_that_do_not_answer(path, variable, options, monkeypatch):
    """A server that does not answer is an error at once."""
    monkeypatch.setattr(urllib.request, "getproxies", dict)
    monkeypatch.setattr(cloud_access, "_is_installed", lambda _: True)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    if variable:
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    start = time.monotonic()
    with pytest.raises(RecipeError, match=r"found no server at http://127\.0\.0\.1:9"):
        cloud_access.check_paths([path], options)
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("command", ["describe", "verify", "preview"])
def test_an_unknown_kind_of_address(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Other kinds of addresses are errors that list those that are read."""
    assert main_module.run([command, "ftp://host/x.csv"]) == 1
    assert "expected a path, gs://, s3:// or https://" in capsys.readouterr().err


def test_doctor(no_credentials: None, tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    """The doctor lists findings, and fails without a needed access."""
    assert main_module.run(["doctor", str(tmp_path)]) == 0
    assert "beam-pipelines" in capsys.readouterr().out
    assert main_module.run(["doctor", "s3://b/x", "--format", "json"]) == 1
    findings = {found["name"]: found for found in json.loads(capsys.readouterr().out)}
    assert findings["s3://"]["is_problem"]
    assert not findings["gs://"]["is_problem"]


def test_commands_check_first(no_credentials: None, capsys: pytest.CaptureFixture[str]) -> None:
    """A command names the missing credentials before it reads anything."""
    assert main_module.run(["convert", "gs://b/x.csv", "-o", "out"]) == 2
    assert "found no credentials for gs://" in capsys.readouterr().err
    assert main_module.run(["convert", "x.csv", "--output=s3://b/out"]) == 2
    assert "found no credentials for s3://" in capsys.readouterr().err
