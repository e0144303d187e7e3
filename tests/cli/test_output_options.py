"""The options that all commands share, and their help."""

from __future__ import annotations

import pathlib
import shlex
from collections.abc import Iterator

import click
import pytest

from beam_pipelines.cli.main import cli, run


def commands(group: click.Group, *before: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yields words and commands of a group and of its groups."""
    for name, command in group.commands.items():
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


@pytest.mark.parametrize("group", [(), ("schema",), ("statistics",)])
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A table, its dataset and its schema."""
    folder = tmp_path_factory.mktemp("quiet")
    (folder / "t.csv").write_text("n,t\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in range(40)))
    assert run(["convert", str(folder / "t.csv"), "--encode", "-o", str(folder / "out"), "-q"]) == 0
    schema = str(folder / "t.pbtxt")
    assert run(["schema", "infer", str(folder / "out"), "-o", schema, "-q"]) == 0
    return folder


@pytest.mark.end_to_end
@pytest.mark.parametrize(
    "command",
    [
        "compare out t.csv --max_drift 1", "convert t.csv -o new", "describe t.csv", "describe out",
        "doctor", "index out", "init t.csv", "inspect out", "passport out", "plan t.csv",
        "preview t.csv", "schema diff t.pbtxt t.pbtxt", "schema recipe",
        "schema update t.pbtxt out", "statistics merge out out -o merged",
        "transform out t.csv -o transformed", "validate out", "verify out",
    ],
)  # fmt: skip
def test_quiet_commands_print_nothing(command, folder, monkeypatch, capsys):
    """With ``-q`` a command that succeeds prints nothing at all."""
    monkeypatch.chdir(folder)
    assert run([*command.split(), "-q"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.end_to_end
def test_quiet_commands_print_errors(folder, capsys):
    """With ``-q`` errors and the exit status stay."""
    assert run(["validate", str(folder / "out"), "--schema", str(folder / "none"), "-q"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
