"""Object stores are asked before a run, by the command's options."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from beam_pipelines.cli import main as main_module
from beam_pipelines.core.errors import RecipeError
from beam_pipelines.files import stores
from beam_pipelines.files.beam import cloud_access, files
from tests.support.web_server import served


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Takes away credentials; the machine's own are not asked for."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL", "STORAGE_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(stores, "FIRST_DELAY", 0.0)
    stores._made.cache_clear()


def test_google_without_credentials() -> None:
    """Missing credentials are an error with the places to put them."""
    with pytest.raises(
        RecipeError, match=r"gs://b/x\.csv: found no access .*GOOGLE_APPL.*--no_auth"
    ):
        cloud_access.check_paths(["a.csv", "gs://b/x.csv"])


@pytest.mark.parametrize("path", ["s3://b/x.csv", "s3://b"])
@pytest.mark.parametrize("by_profile", [True, False])
def test_s3_is_asked(
    path: str, by_profile: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The server of options or profile is asked; it may refuse.

    A file that is not there is access.
    """
    answers = iter([404, 403])
    with served(tmp_path, lambda *_: next(answers)) as server:
        options = [] if by_profile else [f"--s3_endpoint_url={server.url}"]
        (tmp_path / ".aws").mkdir()
        (tmp_path / ".aws" / "config").write_text(
            f"[profile own]\nregion = eu-west-1\nendpoint_url = {server.url}\n"
        )
        monkeypatch.setenv("AWS_PROFILE", "own")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        try:
            files.use_options(options)
            cloud_access.check_paths([path])
            with pytest.raises(RecipeError, match=r"found no access .*, expected AWS_ACCESS_KEY"):
                cloud_access.check_paths([path])
        finally:
            files.use_options([])


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("gcs://b/x", "found gcs://, expected gs://"),
        ("s3a://b/x", "found s3a://, expected s3://"),
        ("abfss://c@a/x", "found abfss://, expected azfs://ACCOUNT/CONTAINER/…"),
    ],
)
def test_other_names_of_a_store(path: str, message: str) -> None:
    """Other names of a store are errors."""
    with pytest.raises(RecipeError, match=re.escape(message)):
        cloud_access.check_paths([path])


@pytest.mark.parametrize(
    ("path", "variable"), [("s3://b/x", "AWS_ENDPOINT_URL"), ("gs://b/x", "STORAGE_EMULATOR_HOST")]
)
def test_servers_that_do_not_answer(
    path: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that does not answer is an error at once."""
    monkeypatch.setenv(variable, "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    start = time.monotonic()
    with pytest.raises(RecipeError, match=r"cannot be read: .*[Cc]on.*Check the address"):
        cloud_access.check_paths([path])
    assert time.monotonic() - start < 60


@pytest.mark.parametrize("command", ["describe", "verify", "preview"])
def test_an_unknown_kind_of_address(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Other kinds of addresses are errors that list those that are read."""
    assert main_module.run([command, "ftp://host/x.csv"]) == 1
    assert "expected a path, gs://, s3:// or https://" in capsys.readouterr().err


def test_doctor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The doctor lists findings, and fails without a needed access."""
    assert main_module.run(["doctor", str(tmp_path)]) == 0
    assert "beam-pipelines" in capsys.readouterr().out
    assert main_module.run(["doctor", "gs://b/x", "--format", "json"]) == 1
    findings = {found["name"]: found for found in json.loads(capsys.readouterr().out)}
    assert "found no access" in findings["gs://b/x"]["text"]


def test_commands_check_first(capsys: pytest.CaptureFixture[str]) -> None:
    """A command names the missing credentials before it reads anything."""
    assert main_module.run(["convert", "gs://b/x.csv", "-o", "out"]) == 2
    assert "found no access" in capsys.readouterr().err
    assert main_module.run(["convert", "x.csv", "--output=gs://b/out"]) == 2
    assert "found no access" in capsys.readouterr().err
