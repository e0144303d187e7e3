"""The command line: our options and Beam's, exit status, and messages."""

from __future__ import annotations

import dataclasses
import logging
import pathlib
import re
import shlex
from collections.abc import Iterator

import click
import pyarrow as pa
import pytest
from tensorflow_metadata.proto.v0 import anomalies_pb2

from beam_pipelines.analysis.statistics import StatisticsPlan, TableStatistics
from beam_pipelines.analysis.statistics.datasets import split_to_files
from beam_pipelines.cli import errors, options, summary
from beam_pipelines.cli import main as main_module
from beam_pipelines.cli.options import Flag, split_arguments
from beam_pipelines.core.errors import DataError, Problem, RecipeError, RecipeProblems
from tests.support.manifests import parsed_manifest

OWN = {
    name: Flag(name, takes_value)
    for name, takes_value in (("--output", True), ("--dry_run", False), ("--verbose", False))
}
SHARD = {"path": "a", "rows": 1, "bytes": 1, "crc32c": "00000000"}
MANIFEST = parsed_manifest(
    splits={
        "train": {"rows": 80, "bytes": 4000, "shards": [SHARD] * 2},
        "eval": {"rows": 20, "bytes": 1_000_000, "shards": [SHARD]},
    },
    sources={
        "flights [1]": {
            "read": 1_000_000,
            "rejected": 3,
            "files": [{"path": "a", "bytes": size} for size in (5, 30_000_000)],
        }
    },
    joins=[
        {
            "source": "planes",
            "how": "left",
            "matched": 90,
            "unmatched": 10,
            "dropped": 0,
            "added": 0,
        }
    ],
    counts={
        "read": 1_000_000,
        "rejected": 3,
        "added": 0,
        "dropped": 0,
        "filtered": 999_900,
        "merged": 0,
        "written": 100,
    },
    timings={"total_secs": 12.34},
    alerts={"constant": ["a"]},
    recipe={"output": {"floats": "round"}, "join": [{"source": "planes"}]},
    columns={
        "a": "int64",
        "b": "float64",
        "c": "list<float64>",
        "d": "float32",
        "e": "float64",
        "f": "float64",
    },
)


@pytest.fixture(autouse=True)
def logging_level() -> Iterator[None]:
    """Restores the level of logging.

    A command line sets it for its process.
    """
    level = logging.getLogger().level
    yield
    logging.getLogger().setLevel(level)


@pytest.fixture
def recipe(tmp_path: pathlib.Path) -> str:
    """A recipe for two small tables."""
    (tmp_path / "a.csv").write_text("x,y\n1,a\n2,b\n")
    path = tmp_path / "recipe.yaml"
    path.write_text("name: a\nsources: {a: a.csv}\nlabel: z\nsplit: {train: 1, by: w}\n")
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "own", "beam"),
    [
        ("r.yaml --output out --dry_run", "r.yaml --output out --dry_run", ""),
        ("r.yaml --output=out --dry-run", "r.yaml --output=out --dry_run", ""),
        ("--runner FnApiRunner r.yaml --output out", "r.yaml --output out", "--runner FnApiRunner"),
        ("--direct-num-workers=2 r.yaml", "r.yaml", "--direct_num_workers=2"),
        ("--streaming r.yaml --runner flink", "r.yaml", "--streaming --runner flink"),
        ("--job-server-timeout 3 r.yaml --runner=flink", "r.yaml", "--job-server-timeout 3 --runner=flink"),
        ("--project p --s3_verify=no r.yaml", "r.yaml", "--project p --s3_verify=no"),
        ("--experiments a --experiments=b r.yaml", "r.yaml", "--experiments a --experiments=b"),
        ("--output --runner x", "--output --runner x", ""),
        ("-- --r.yaml", "-- --r.yaml", ""),
        ("--output", "--output", ""),
    ],
)  # fmt: skip
def test_arguments_are_divided(arguments: str, own: str, beam: str) -> None:
    """Flags go with their values to the command or to Beam.

    They may have any position.
    """
    assert split_arguments(arguments.split(), OWN) == (own.split(), beam.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--ouput out", "found --ouput, which is neither .* Did you mean '--output'?"),
        ("--dryrun", "Did you mean '--dry_run'?"),
        ("--direct_num_worker=2", "Did you mean '--direct_num_workers'?"),
        ("--zzzzzzz", "nor of Beam.$"),
        ("--shufle", "nor of Beam.$"),
        ("--direct_num_workers two", "invalid int value: 'two'"),
        ("--direct_num_workers=-1", "found --direct_num_workers -1, expected a number from 0"),
        ("--direct_running_mode quick", "invalid choice: 'quick'"),
        ("--runner", "expected one argument"),
        ("--num_workers=4", "has no effect on this machine. Name the engine with --runner.$"),
        ("--runner direct --max_num_workers 2", "found --max_num_workers, an option of Beam's for jobs on"),
    ],
)  # fmt: skip
def test_wrong_flags(arguments: str, message: str) -> None:
    """An unknown flag or a wrong Beam value gives a helpful error."""
    with pytest.raises(click.UsageError) as caught:
        split_arguments(arguments.split(), OWN)
    assert caught.match(message.replace("?", r"\?"))


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["convert"], 2, "error: Missing argument 'RECIPE_OR_DATA'."),
        (["convert", "a.csv"], 2, "error: found no --output"),
        (["convert", "a.csv", "--outptu", "x"], 2, "Did you mean '--output'?\nSee 'beam-pipelines convert --help'."),
        (["convert", "missing.yaml", "--output", "x"], 2, "error: missing.yaml: there is no such file."),
        (["describe", "missing.yaml"], 2, "error: missing.yaml: there is no such file."),
        (["plan", "reciep.yaml"], 2, "error: reciep.yaml: there is no such file. Did you mean 'recipe.yaml'?"),
        (["schema", "diff", "recipe.yml", "recipe.yaml"], 1, "error: recipe.yml: there is no such file. Did you mean 'recipe.yaml'?"),
        (["convert", "dat", "-o", "x"], 2, "error: dat: no file matches 'dat'. Did you mean 'data'?"),
        (["inspect", "missing"], 2, "error: missing: found neither a dataset"),
        (["inspect", "x", "-n", "0"], 2, "error: Invalid value for '-n'"),
        (["verify", "missing"], 1, "error: missing: found no dataset.json"),
        (["init"], 2, "error: Missing argument 'DATA...'."),
        (["init", "missing.csv", "-o", "new.yaml"], 2, "error: missing.csv: no file matches"),
        (["covnert"], 2, "error: No such command 'covnert'."),
    ],
)  # fmt: skip
def test_errors_and_status(arguments, status, message, tmp_path, monkeypatch, capsys):
    """Each command reports errors on standard error with the documented status.

    There is no traceback.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "recipe.yaml").touch()
    assert main_module.run(arguments) == status
    printed = capsys.readouterr()
    assert message in printed.err
    assert "Traceback" not in printed.err
    assert printed.out == ""


def test_problems_of_planning_have_lines(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Planning reports all problems in the data with the recipe's lines."""
    assert main_module.run(["convert", recipe, "--dry_run"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.removeprefix(f"error: {recipe}") for line in lines] == [
        ":3: label: unknown column 'z'. The columns are x, y.",
        "  3:8 | label: z",
        "      |        ^",
        ":4: split.by[0]: found column 'w', which is not there. The columns are x, y.",
        "  4:23 | split: {train: 1, by: w}",
        "       |                       ^",
    ]


def test_dry_run_prints_the_plan(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A dry run prints the plan and writes nothing.

    The plan has files, columns, splits and shards.
    """
    folder = pathlib.Path(recipe).parent
    before = sorted(folder.iterdir())
    assert (
        main_module.run(
            ["convert", str(folder / "a.csv"), "--dry_run", "--output", str(folder / "out")]
        )
        == 0
    )
    printed = capsys.readouterr().out
    assert all(word in printed for word in ("a.csv", "x: int64", "train", "shards"))
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("error", "status", "printed"),
    [
        (DataError("a.csv, line 2: bad.\n  more"), 1, "error: a.csv, line 2: bad.\n  more\n"),
        (RecipeError("r.yaml:1: a.\nr.yaml:2: b."), 2, "error: r.yaml:1: a.\nerror: r.yaml:2: b.\n"),
        (RecipeProblems([Problem(("label",), "bad.")]), 2, "error: a.csv: label: bad.\n"),
        (ValueError("boom"), 1, "error: ValueError: boom. Run again with --verbose for the traceback.\n"),
        (KeyboardInterrupt(), 130, "error: interrupted; nothing was committed.\n"),
    ],
)  # fmt: skip
def test_failures_of_a_run(error, status, printed, monkeypatch, capsys):
    """Every end of a run has the documented status.

    There is no traceback except with --verbose.
    """

    def fail(recipe: object, **_: object) -> None:
        raise error

    monkeypatch.setattr("beam_pipelines.pipeline.planning.plan_recipe.make_plan", fail)
    assert main_module.run(["convert", "a.csv", "--output", "out"]) == status
    assert capsys.readouterr().err.lstrip() == printed  # click ends the terminal's line with ^C
    if not isinstance(error, KeyboardInterrupt):
        assert main_module.run(["convert", "a.csv", "--output", "out", "--verbose"]) == status
        assert "Traceback" in capsys.readouterr().err


def test_documented() -> None:
    """docs/cli*.md mention every command and every option of ours."""
    docs = pathlib.Path(__file__).parents[2] / "docs"
    page = "".join(path.read_text() for path in docs.glob("cli*.md"))
    for name, command in main_module.cli.commands.items():
        assert f"`{name} " in page
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert any(f"`{option}" in page for option in parameter.opts), (
                    name,
                    parameter.opts,
                )


@pytest.mark.parametrize("flag", ["-V", "--version"])
def test_version(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``-V`` prints the version."""
    assert main_module.run([flag]) == 0
    assert capsys.readouterr().out.startswith("beam-pipelines 0.")


def test_summary(capsys: pytest.CaptureFixture[str]) -> None:
    """The summary shows splits, sources, joins and rows within 100 columns.

    Each path is in one piece.
    """
    folder = "out/" + "long" * 40
    summary.print_summary(MANIFEST, folder)
    text = capsys.readouterr().out
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    cells = [line.split() for line in lines]
    assert ["train", "80", "2", "4", "kB", "2", "kB"] in cells
    assert ["eval", "20", "1", "1", "MB", "1", "MB"] in cells
    assert ["all", "100", "3", "1", "MB", "335", "kB"] in cells
    assert ["flights", "[1]", "1,000,000", "3", "2", "30", "MB"] in cells
    assert ["left", "planes", "90", "10", "0", "0"] in cells
    assert lines[-5:] == [
        "rows     1,000,000 read, 3 rejected, 999,900 filtered out, 100 written in 12.3 s",
        "floats   float64 rounded to 32 bits: b, c, e and 1 more",
        "alert    constant: a",
        f"dataset  {folder}",
        f"report   {folder}/report.html",
    ]
    assert all(len(line) <= 100 for line in lines[:-2])
    assert "\x1b" not in text


def test_the_table_of_features(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table of features escapes control characters.

    It counts the values of columns of bytes, and leaves out the parent of feature lists.
    """
    batch = pa.record_batch(
        {
            "co\x1b[31mlor": ["\x1b]0;title\x07\n\u202e", None],
            "data": pa.array([None, b"x"]),
            "s": pa.array([[1], []]),
        }
    )
    table = TableStatistics.of(batch, StatisticsPlan(lists=("s",)))
    for path, content in split_to_files(table, StatisticsPlan()).named("train"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    anomalies = anomalies_pb2.Anomalies()
    anomalies.anomaly_info["color"].description = "found \x1b[31m"
    (tmp_path / "anomalies" / "Split-train").mkdir(parents=True)
    path = tmp_path / "anomalies" / "Split-train" / "SchemaDiff.pb"
    path.write_bytes(anomalies.SerializeToString())
    described = dataclasses.replace(MANIFEST, splits={"train": MANIFEST.splits["train"]})
    summary.print_description(described, str(tmp_path), True)
    text = capsys.readouterr().out
    assert re.findall(r"[^\n -~─]", text) == []
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.strip()}
    assert rows[r"co\x1b[31mlor"] == ["text", "1", "1", r"\x1b]0;title\x07\n\u202e"]
    assert rows["data"] == ["bytes", "1", "1"]
    assert rows["s"][:2] == ["list<int64>", "0"]
    assert "##SEQUENCE##" not in rows
    assert r"found \x1b[31m" in text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (999.6, "1 kB"),
        (1234, "1.23 kB"),
        (999_600, "1 MB"),
        (5e12, "5.00 TB"),
    ],
)
def test_show_bytes(size: float, text: str) -> None:
    """Sizes have three digits and a decimal unit."""
    assert summary.show_bytes(size) == text


def test_roots_of_inputs_are_not_opened() -> None:
    """An object store that is only allowed needs no credentials."""
    arguments = ["r.yaml", "--input_root", "gs://a", "--input-root=gs://b", "-o", "gs://c"]
    flags = {"--input_root": Flag("--input_root", takes_value=True)}
    own, _ = split_arguments(arguments, flags)
    assert list(options._opened(own)) == ["r.yaml", "-o", "gs://c"]


def test_options_of_beam_are_collected_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several of Beam's options need one parser of them."""
    built: list[tuple[str, ...]] = []
    build = options._beam_parser

    def counted(classes: tuple[str, ...]) -> object:
        built.append(classes)
        return build(classes)

    monkeypatch.setattr(options, "_beam_parser", counted)
    given = ["--direct_num_workers=2", "--direct_running_mode", "multi_threading"]
    assert split_arguments(given, OWN) == ([], given)
    assert built == [()]


@pytest.mark.parametrize(
    ("message", "data", "setting"),
    [
        ("a.csv: text. Set 'encoding: cp1252' of the source.", "d/a.csv", "encoding=cp1252"),
        ("Set 'formats: {x: 1.5}' or 'y'.", "a.csv", "formats={x: 1.5}"),
        ("""Set 'nulls: ["", NA]' if so.""", "a.csv", 'nulls=["", NA]'),
        ("Quote cells, or set 'delimiter' and 'quote'.", "a.csv", "delimiter=…"),
        ("Set 'format': csv, tsv.", "a.log", "format=…"),
        ("Set 'header: false', if so, or 'encoding: x' and 'nulls: [a]'.", "a.csv", "header=false"),
    ],
)
def test_a_key_for_data_without_a_recipe(message: str, data: str, setting: str) -> None:
    """The hint has the option for the key of the message."""
    hint = errors.hint_without_recipe(message, data)
    option = hint.partition(" take --set ")[2]
    assert shlex.split(option) == [f"sources.a.{setting}"]
    assert errors.hint_without_recipe(message, "recipe.yaml") == ""


def test_a_key_of_the_recipe_for_data_without_one() -> None:
    """A key outside of sources has no source before it."""
    hint = errors.hint_without_recipe("Leave them out with 'filter: a IS NOT NULL', or x.", "a.csv")
    assert hint.endswith("--set 'filter=a IS NOT NULL'")


def test_keys_that_are_set_together() -> None:
    """Options of all keys up to an 'or'."""
    message = """Set 'format: lines' of the source, and 'derive: {x: "f('::')"}' and 'drop: [y]'"""
    hint = errors.hint_without_recipe(f"{message}, or 'header: true'.", "a.csv")
    options = shlex.split(hint.partition(" take ")[2])
    assert options[1::2] == ["sources.a.format=lines", """derive={x: "f('::')"}""", "drop=[y]"]


@pytest.mark.end_to_end
@pytest.mark.parametrize("name", ["a.csv", "a.yaml"])
def test_a_failed_run_shows_what_planning_has_found(name, tmp_path, monkeypatch, capsys):
    """The cause may be how the file was read."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("a;d\n1,5;x\n2,5;y\n")
    (tmp_path / "a.yaml").write_text("name: a\nsources: {a: a.csv}\n")
    assert main_module.run(["convert", name, "-o", "out", "-q", "--set", "derive.n=d::INT"]) == 1
    shown = capsys.readouterr().err
    assert "Could not convert string" in shown
    assert "found    a: formats: {a: \"1234,5\"}  # such as '1,5'" in shown


def test_no_key_for_data_without_a_recipe() -> None:
    """Messages that propose no key of a source have no hint."""
    assert errors.hint_without_recipe("expected 'name: x'.", "a.csv") == ""
    assert errors.hint_without_recipe("found 'a: b', expected 'output: x'.", "a.csv") == ""


@pytest.mark.end_to_end
@pytest.mark.parametrize(
    ("files", "shown"),
    [
        ({"a.csv": "day\n04/03/2024\n05/03/2024\n"}, "2024-03-04"),
        ({"d/1.csv": "Id,n\n1,a\n", "d/2.csv": "id,n\n2,b\n"}, "Id"),
        ({"a.csv": "k,w\n1,2,\n4,5,\n"}, "column3"),
        ({"a.csv": "k,k\n1,2\n4,5\n"}, "column2"),
    ],
)
def test_the_hint_is_printed_and_works(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    files: dict[str, str],
    shown: str,
) -> None:
    """The options of the hint settle a question about a file."""
    monkeypatch.chdir(tmp_path)
    for path, text in files.items():
        pathlib.Path(path).parent.mkdir(exist_ok=True)
        pathlib.Path(path).write_text(text)
    data = next(iter(files)).partition("/")[0]
    assert main_module.run(["describe", data]) > 0
    *_, hint = capsys.readouterr().err.splitlines()
    options = shlex.split(hint.partition(" take ")[2])
    assert main_module.run(["describe", data, *options]) == 0
    assert shown in capsys.readouterr().out
    if data in files and " init " in hint:
        assert main_module.run(["init", data, "-o", "r.yaml", *options]) == 0
