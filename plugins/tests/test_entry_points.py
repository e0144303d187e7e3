"""The entry points of plugins, and the table of known names."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pyarrow as pa
import pytest

from beam_pipelines.checks.check import Facts, SampledSplits
from beam_pipelines.checks.leaks import FindLeaks, Leaks
from beam_pipelines.cli.main import run
from beam_pipelines.core.errors import PipelineError, RecipeError
from beam_pipelines.core.process import plugins
from beam_pipelines.pipeline.planning.plan_recipe import plan
from beam_pipelines.pipeline.planning.recipes import parse_recipe
from beam_pipelines.recipe.keys import keys_of
from beam_pipelines.sources import FORMATS, format_of_path

ASKS_NOTHING = """
import importlib.metadata, sys

def refuse(*_, **__):
    raise AssertionError("asked for entry points")

importlib.metadata.distributions = refuse
from beam_pipelines.pipeline.planning.plan_recipe import plan

assert plan(sys.argv[1]).base.format == "csv"
print(*(name for name in sys.modules if name.startswith("beam_pipelines_plugins")))
"""


@pytest.mark.parametrize("name", plugins.KNOWN[plugins.FORMATS])
def test_table_says_what_the_class_says(name):
    """The table has the suffixes and options of the classes."""
    known, format_ = plugins.KNOWN[plugins.FORMATS][name], FORMATS[name]
    assert (known.suffixes, known.options) == (format_.suffixes, format_.options)
    assert all(format_of_path(f"x{suffix}") == name for suffix in known.suffixes)


@pytest.mark.parametrize("name", plugins.KNOWN[plugins.PLANNERS])
def test_table_says_what_planners_say(name):
    """The table has the options of planners, and their places among them."""
    known = plugins.KNOWN[plugins.PLANNERS][name]
    assert known.options == tuple(keys_of(plugins.load(plugins.PLANNERS, name).Options))
    assert {known.place, known.part} - {""} <= {*known.options}


@pytest.mark.parametrize("group", plugins.KNOWN)
def test_table_has_the_names_of_the_entry_points(group):
    """The table has each name that the distribution declares, and no other."""
    points = importlib.metadata.distribution("beam-pipelines-plugins").entry_points
    names = {point.name for point in points if point.group == f"beam_pipelines.{group}"}
    assert names == set(plugins.KNOWN[group])
    assert all(plugins.load(group, name) for name in names)


def test_a_known_suffix_asks_for_nothing(tmp_path):
    """A CSV file is planned without entry points or imports of plugins."""
    (tmp_path / "rows.csv").write_text("a,b\n1,x\n2,y\n3,z\n")
    command = [sys.executable, "-c", ASKS_NOTHING, str(tmp_path / "rows.csv")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "\n"


@pytest.fixture
def _alone(monkeypatch):
    """No other distribution is installed."""
    monkeypatch.setattr(plugins, "_installed", lambda _group: {})
    plugins.load.cache_clear()


@pytest.mark.usefixtures("_alone")
def test_parts_of_checks_name_what_to_install(tmp_path):
    """A check stops planning; a search of features is a warning."""
    (tmp_path / "d.csv").write_text("text,late\nabc,1\nbcd,0\n")
    sample = SampledSplits(
        pa.record_batch({"late": [1, 0]}), pa.record_batch({"late": [1, 0]}), None
    )
    with pytest.raises(
        RecipeError, match=r"pii: check 'pii'.*in a clone: pip install \./plugins\.$"
    ):
        parse_recipe("name: d\nsources: {d: d.csv}\npii: warn\n", "r.yaml", str(tmp_path))
    check = FindLeaks(Leaks("error"), "late", {})
    (found,) = check.judge(Facts(2, {"train": 2}, {}, sampled=sample), None)
    assert found.severity == "warn"
    assert found.line.startswith("columns that give the label away were not looked for")


@pytest.mark.usefixtures("_alone")
@pytest.mark.parametrize(
    "source",
    [
        "rows.avro",
        "rows.npz",
        "rows.xlsx",
        "rows.db#table",
        "postgresql://host/base#table",
        "table",
    ],
)
def test_error_names_what_to_install(source, tmp_path, monkeypatch):
    """A plugin that is missing is an error with the remedy."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table" / "_delta_log").mkdir(parents=True)
    for name in ("rows.avro", "rows.npz", "rows.xlsx", "rows.db"):
        (tmp_path / name).write_bytes(b"rows")
    with pytest.raises(PipelineError, match=r"in a clone: pip install \./plugins\.?$"):
        plan(source)


@pytest.mark.usefixtures("_alone")
@pytest.mark.parametrize("name", plugins.KNOWN[plugins.COMMANDS])
def test_a_missing_command_names_what_to_install(name, capsys):
    """The command line knows the commands of the plugins."""
    assert run([name, "a.csv", "b.csv"]) == 1
    assert f"command '{name}': found beam-pipelines alone" in capsys.readouterr().err
