"""Compiled templates are kept, and recompiled when a template changes."""

from __future__ import annotations

import sys

import jinja2
import pytest

from beam_pipelines.analysis.report import template_cache
from beam_pipelines.analysis.report.template_cache import TemplateCache


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(template_cache, "_FOLDER", tmp_path / "__pycache__")
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return tmp_path / "__pycache__"


def render(text):
    loader = jinja2.DictLoader({"page.html": text})
    environment = jinja2.Environment(loader=loader, bytecode_cache=TemplateCache(), autoescape=True)
    return environment.get_template("page.html").render(x=1)


def test_kept(folder, monkeypatch):
    """A second process compiles nothing, until the template changes."""
    assert render("{{ x + 1 }}") == "2"
    assert len(list(folder.iterdir())) == 1
    with monkeypatch.context() as context:
        context.setattr(jinja2.Environment, "_generate", None)  # the compiler
        assert render("{{ x + 1 }}") == "2"
    assert render("{{ x + 2 }}") == "3"


def test_forbidden(folder, monkeypatch):
    """Nothing is written if Python is told to write no bytecode."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert render("{{ x }}") == "1"
    assert not folder.exists()


def test_read_only(folder, monkeypatch):
    """A folder that cannot be made is no error."""
    monkeypatch.setattr(template_cache, "_FOLDER", folder / "not" / "there")
    assert render("{{ x }}") == "1"
