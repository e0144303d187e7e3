"""Runs the code of docs/beam.md: Python blocks, and YAML by Beam's runner."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import re
import sys

import pytest
import yaml
from apache_beam.yaml import main as yaml_main

import beam_pipelines.integrations.beam
from beam_pipelines.dataset.verify import verify_dataset

pytestmark = pytest.mark.end_to_end

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def blocks(repository) -> list[tuple[str, str]]:
    """Returns (language, text) of every block of the page, in order."""
    return BLOCK.findall((repository / "docs" / "beam.md").read_text())


@pytest.fixture(scope="module")
def providers(repository) -> str:
    """Returns the installed provider file."""
    return str(repository / "beam_pipelines" / "integrations" / "beam" / "providers.yaml")


def test_python_on_the_page_prints_what_the_page_says(blocks, tmp_path, monkeypatch):
    """Python blocks print the text blocks that follow them.

    All blocks run in one namespace.
    """
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    shown = [*blocks, ("", "")]
    ran = 0
    for (language, text), (following, output) in itertools.pairwise(shown):
        if language != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, f"docs/beam.md, block {ran}", "exec"), names)  # noqa: S102 - the page's own code
        assert printed.getvalue() == (output if following == "text" else ""), text
        ran += 1
    assert ran == sum(language == "python" for language, _ in blocks) > 5
    assert verify_dataset("out/clicks").rows == 2959


def test_yaml_on_the_page_runs_by_beams_runner(blocks, providers, tmp_path, monkeypatch):
    """The page's YAML makes a dataset of the filtered rows."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(blocks[0][1], names)  # noqa: S102 - writes the two tables
    (text,) = [text for language, text in blocks if language == "yaml"]
    (tmp_path / "clicks.yaml").write_text(text.replace("PROVIDERS", providers))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    yaml_main.run(["--yaml_pipeline_file=clicks.yaml", "--runner=FnApiRunner"])
    expected = sum(n / 4 > 10 and n % 50 < 10 for n in range(3000))
    assert verify_dataset("out/yaml").rows == expected
    manifest = json.loads((tmp_path / "out" / "yaml" / "dataset.json").read_text())
    assert list(manifest["splits"]) == ["train", "eval"]


def test_providers_offer_every_stage(providers, blocks, repository):
    """The provider file and the page have every exported stage."""
    (provider,) = yaml.safe_load(open(providers).read())  # noqa: SIM115
    offered = provider["transforms"]
    exported = set(beam_pipelines.integrations.beam.__all__) - {"AsBatches", "BatchesOf"}
    assert set(offered) == exported
    assert all(path == f"beam_pipelines.integrations.beam.{name}" for name, path in offered.items())
    page = (repository / "docs" / "beam.md").read_text()
    assert [name for name in exported if f"`{name}`" not in page] == []


def test_yaml_names_what_is_wrong(providers, tmp_path, monkeypatch):
    """A misspelt column in YAML fails with our message before the run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("user,cost\n1,2\n")
    text = f"""
pipeline:
  type: chain
  transforms:
    - type: ReadBatches
      config: {{path: a.csv}}
    - type: SelectBatches
      config: {{filter: cots > 1}}
    - type: WriteShards
      config: {{output: out}}
providers:
  - include: {providers}
"""
    (tmp_path / "p.yaml").write_text(text)
    with pytest.raises(ValueError, match=r"SelectBatches: filter: 'cots > 1'"):
        yaml_main.run(["--yaml_pipeline_file=p.yaml", "--runner=FnApiRunner"])
    assert not (tmp_path / "out").exists()
