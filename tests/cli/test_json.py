"""Every command that prints gives its result as JSON, too."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import click
import pytest

from beam_pipelines.cli.main import cli, run
from beam_pipelines.cli.output import json_text


def commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yields names and commands of a group and of its groups."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield before + name, command


@pytest.mark.parametrize("name", [name for name, _ in commands(cli)])
def test_each_command_takes_a_format(name: str) -> None:
    """``--format json`` is an option of each command."""
    (option,) = (
        parameter for parameter in dict(commands(cli))[name].params if "--format" in parameter.opts
    )
    assert isinstance(option.type, click.Choice)
    assert tuple(option.type.choices) == ("text", "json")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": float("nan")}, '{"a": "nan"}'),
        ([1.5, (float("-inf"),)], '[1.5, ["-inf"]]'),
        ({"é": None}, '{"é": null}'),
    ],
)
def test_json_has_no_nan(value: Any, text: str) -> None:
    """NaN and infinities are texts, so that any parser reads the result."""
    assert (
        " ".join(json_text(value).split())
        .replace("[ ", "[")
        .replace(" ]", "]")
        .replace("{ ", "{")
        .replace(" }", "}")
        == text
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A table and the dataset of it."""
    folder = tmp_path_factory.mktemp("json")
    rows = "".join(f"{n},{'ab'[n % 2]},nan\n" for n in range(40))
    (folder / "t.csv").write_text("n,t,x\n" + rows)
    arguments = ["-o", str(folder / "out"), "--encode", "--set", "sources.t.types={x: float64}"]
    assert run(["convert", str(folder / "t.csv"), *arguments, "-q"]) == 0
    return folder


@pytest.mark.end_to_end
@pytest.mark.parametrize(
    ("command", "keys"),
    [
        ("inspect out -n 2", None),
        ("verify out", {"path", "shards", "rows", "bytes", "files"}),
        (
            "feed out --batch 20 --step 1ms --seconds 0.1",
            {"rows_per_second", "bound", "advice", "waits"},
        ),
        ("index out", None),
        ("plan t.csv", {"plan", "preview", "scale"}),
        ("preview t.csv -n 2", {"rows", "inputs", "notes"}),
        ("convert t.csv --dry_run", {"name", "sources", "splits", "features"}),
        ("convert t.csv -o new", {"dataset", "report", "splits", "counts", "sources"}),
        ("describe out", {"splits"}),
        ("validate out", {"data", "splits", "findings"}),
        ("describe t.csv", {"splits", "counts", "anomalies"}),
        ("compare new new", {"splits", "findings"}),
        ("transform out t.csv -o transformed", {"dataset", "splits"}),
        ("passport out", {"paths", "lacking"}),
        ("doctor", None),
        ("schema infer out -o inferred.pbtxt", {"path", "features"}),
        ("schema update inferred.pbtxt out", None),
        ("schema recipe", {"properties"}),
        ("schema recipe -o recipe.schema.json", {"path"}),
        ("schema diff out/schema/schema.pbtxt inferred.pbtxt", None),
        ("statistics merge new new -o merged", {"path", "splits"}),
        ("init t.csv", {"recipe"}),
    ],
)
def test_results_are_json(command, keys, folder, monkeypatch, capsys):
    """The whole output is one document; a list, or with these keys."""
    monkeypatch.chdir(folder)
    assert run([*command.split(), "--format", "json"]) == 0

    def no_constant(text: str) -> None:
        raise AssertionError(text)

    found = json.loads(capsys.readouterr().out, parse_constant=no_constant)
    assert isinstance(found, list) if keys is None else found.keys() >= keys


@pytest.mark.end_to_end
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("validate t.csv --schema out/schema/schema.pbtxt --set drop=[n]", "anomaly"),
        ("verify nowhere", "nowhere"),
        ("describe nowhere.csv", "nowhere.csv"),
    ],
)
def test_errors_are_json(command, message, folder, monkeypatch, capsys):
    """The output is one document; stderr has the error, too."""
    monkeypatch.chdir(folder)
    assert run([*command.split(), "--format", "json"]) != 0
    found = capsys.readouterr()
    (error,) = json.loads(found.out).values()
    assert message in error
    assert message in found.err
    assert run([*command.split(), "--format", "json", "-q"]) != 0
    assert list(json.loads(capsys.readouterr().out).values()) == [error]
