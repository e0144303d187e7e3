"""The options that all commands share, and their help."""

from __future__ import annotations

import json
import pathlib
import shlex
from collections.abc import Iterator
from typing import Any

import click
import pytest

from beam_pipelines.cli.main import cli, run
from beam_pipelines.cli.output import json_text


def commands(group: click.Group, *before: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yields words and commands of a group and of its groups."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*before, name), command
        if isinstance(command, click.Group):
            yield from commands(command, *before, name)


ALL = dict(commands(cli))
ALONE = [words for words, command in ALL.items() if not isinstance(command, click.Group)]


@pytest.mark.parametrize("words", ALONE)
def test_help_has_examples(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """The help of each command has an example, which the command takes."""
    assert run([*words, "-h"]) == 0
    _, shown = capsys.readouterr().out.split("Example:\n")
    examples = [line.strip() for line in shown.splitlines() if line.startswith("  beam-pipelines")]
    assert examples
    for example in examples:
        program, *arguments = shlex.split(example)
        assert (program, *arguments[: len(words)]) == ("beam-pipelines", *words)
        context = click.Context(ALL[words])
        click.Command.parse_args(ALL[words], context, arguments[len(words) :])


@pytest.mark.parametrize("group", [(), ("schema",)])
def test_no_command_is_cut(group: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """The list of commands has whole sentences at 80 columns."""
    assert run([*group, "-h"]) == 0
    assert "..." not in capsys.readouterr().out.partition("Commands:")[2]


def test_help_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a command the help is no message of an error."""
    run([])
    captured = capsys.readouterr()
    assert (captured.out + captured.err).startswith("Usage: beam-pipelines")


def test_missing_value_names_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """An option without a value names the help of its command."""
    assert run(["convert", "a.csv", "--label"]) == 2
    assert capsys.readouterr().err.endswith("See 'beam-pipelines convert --help'.\n")


@pytest.mark.parametrize(
    ("long", "short"), [("--help", "-h"), ("--output", "-o"), ("--quiet", "-q")]
)
def test_short_options(long: str, short: str) -> None:
    """Every command that has a long option has its short form."""
    context = click.Context(cli, help_option_names=["-h", "--help"])
    without = [
        words
        for words in ALONE
        for parameter in ALL[words].get_params(context)
        if long in parameter.opts and short not in parameter.opts
    ]
    assert without == []


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
    """A table, its dataset, and the schema and statistics of that."""
    folder = tmp_path_factory.mktemp("commands")
    rows = "".join(f"{n},{'ab'[n % 2]},nan\n" for n in range(40))
    (folder / "t.csv").write_text("n,t,x\n" + rows)
    arguments = ["-o", str(folder / "out"), "--encode", "--set", "sources.t.types={x: float64}"]
    assert run(["convert", str(folder / "t.csv"), *arguments, "-q"]) == 0
    schema = str(folder / "t.pbtxt")
    assert run(["schema", "infer", str(folder / "out"), "-o", schema, "-q"]) == 0
    return folder


@pytest.mark.end_to_end
@pytest.mark.parametrize(
    ("command", "keys"),
    [
        ("inspect out -n 2", None),
        ("verify out", {"path", "shards", "rows", "bytes", "files"}),
        ("feed out --batch 20 --step 1ms --seconds 0.1", {"rows_per_second", "bound", "advice", "waits"}),
        ("plan t.csv", {"plan", "preview", "scale"}),
        ("preview t.csv -n 2", {"rows", "inputs", "notes"}),
        ("convert t.csv --dry_run", {"name", "sources", "splits", "features"}),
        ("convert t.csv -o NEW-data", {"dataset", "report", "splits", "counts", "sources"}),
        ("describe out", {"splits"}),
        ("validate out", {"data", "splits", "findings"}),
        ("describe t.csv", {"splits", "counts", "anomalies"}),
        ("compare out out", {"splits", "findings"}),
        ("transform out t.csv -o NEW-transformed", {"dataset", "splits"}),
        ("doctor", None),
        ("schema infer out -o NEW.pbtxt", {"path", "features"}),
        ("schema update t.pbtxt out", None),
        ("schema recipe", {"properties"}),
        ("schema recipe -o NEW.json", {"path"}),
        ("schema diff out/schema/schema.pbtxt t.pbtxt", None),
        ("init t.csv -o NEW.yaml", {"recipe"}),
    ],
)  # fmt: skip
def test_results_are_json_or_nothing(command, keys, folder, monkeypatch, capsys):
    """The whole output is one document.

    It is a list, or has these keys. With ``-q`` there is no output.
    """
    monkeypatch.chdir(folder)
    assert run([*command.replace("NEW", "new").split(), "--format", "json"]) == 0

    def no_constant(text: str) -> None:
        raise AssertionError(text)

    found = json.loads(capsys.readouterr().out, parse_constant=no_constant)
    assert isinstance(found, list) if keys is None else found.keys() >= keys
    assert run([*command.replace("NEW", "other").split(), "-q"]) == 0
    assert capsys.readouterr() == ("", "")


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
